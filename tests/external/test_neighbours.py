"""Missing reports that are taken from the record with the nearest radiograph."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image

from pacer.core.errors import ConfigError, DataError
from pacer.external.foreign import Protocol, pair_reports
from pacer.external.neighbours import nearest
from pacer.external.report_files import ReportFile
from pacer.records.schemas import IMAGE_SCHEMA, write_table


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Three gradients and two images like the first and the third, brighter and larger; names of images of these."""
    y, x = np.mgrid[0:1:64j, 0:1:64j]
    drawn = {"a": 200 * x, "b": 200 * (1 - x), "c": 200 * y}
    random = np.random.default_rng(0)
    drawn |= {"like_a": 40 + 100 * x + 5 * random.random(x.shape), "like_c": 20 + 150 * y}
    rows = []
    for name, pixels in drawn.items():
        path = tmp_path / f"{name}.png"
        image = Image.fromarray(pixels.astype(np.uint8))
        (image.resize((128, 128)) if name == "like_c" else image).save(path)
        rows.append({"image_id": name, "path": str(path), "bytes": 1, "width": 64, "height": 64})
    write_table(tmp_path / "images.parquet", pl.DataFrame(rows), IMAGE_SCHEMA)
    return tmp_path / "images.parquet"


def references(frontals: list[str], contexts: list[str] | None = None) -> ReportFile:
    extra = {"frontal": frontals} | ({"context": contexts} if contexts else {})
    ids = [f"{n}" for n in range(len(frontals))]
    return ReportFile(Path("r.parquet"), ids, [f"reference {n} ." for n in ids], {}, extra)


def reports(texts: dict[str, str | None]) -> ReportFile:
    return ReportFile(Path("h.csv"), list(texts), list(texts.values()))


def test_brightness_and_size_make_no_image_another(images: Path) -> None:
    paths = dict(pl.read_parquet(images).select("image_id", "path").iter_rows())
    names, there = ["a", "b", "c", "like_a", "like_c", "b"], [True] * 3 + [False] * 3
    assert nearest(names, [None] * 6, there, paths) == {3: 0, 4: 2, 5: 1}
    with pytest.raises(DataError, match="image x is not in the table of images"):
        nearest(["x", "a"], [None] * 2, [False, True], paths)
    Path(paths["b"]).unlink()
    with pytest.raises(DataError, match=r"b\.png cannot be opened as an image: the file does not exist"):
        nearest(["a", "b"], [None] * 2, [False, True], paths)


def test_missing_reports_are_their_neighbours_and_the_counts_say_so(images: Path) -> None:
    given = reports({"0": "of a .", "1": "of b .", "2": "of c .", "4": None})
    _, found, counts = pair_reports(
        references(["a", "b", "c", "like_a", "like_c"]), given, Protocol(missing="nearest"), images
    )
    assert found == ["of a .", "of b .", "of c .", "of a .", "of c ."]
    assert counts["missing_hypotheses"] == 2 and counts["neighbours"] == {"3": "0", "4": "2"}


def test_a_neighbour_is_of_the_same_context(images: Path) -> None:
    given = reports({"0": "of a .", "1": "of b ."})
    side = references(["a", "b", "like_a"], ["sn", "mn", "mn"])
    assert pair_reports(side, given, Protocol(missing="nearest"), images)[1] == ["of a .", "of b .", "of b ."]
    with pytest.raises(DataError, match="no record has a report that could stand for a missing one"):
        pair_reports(references(["a", "b"], ["sn", "mn"]), reports({"0": "x"}), Protocol(missing="nearest"), images)


def test_without_radiographs_there_is_no_nearest(images: Path) -> None:
    given, protocol = reports({"0": "x"}), Protocol(missing="nearest")
    bare = ReportFile(Path("r.csv"), ["0", "1"], ["a", "b"])
    for side, table in ((references(["a", "b"]), None), (bare, images)):
        with pytest.raises(ConfigError, match="compares radiographs: give references that name them"):
            pair_reports(side, given, protocol, table)
    assert pair_reports(bare, reports({"0": "x", "1": "y"}), protocol)[1] == ["x", "y"]  # nothing is missing
