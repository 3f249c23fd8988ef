"""The reports that need no trained model are those that their names say, and their scores those of a hand count."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import polars as pl
import pytest
import torch
from PIL import Image

from pacer.data.schemas import IMAGE_SCHEMA, of_split
from tests.support.made_records import few_records


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[3] / "bench"))
    return importlib.import_module("openi")


@pytest.fixture
def corpus() -> pl.DataFrame:
    """Contexts sn and mn of eight patients, the last three in test, two of whose reports are in no other."""
    records = few_records(".png").filter(pl.col("context").is_in(["sn", "mn"]))
    last = pl.col("study_id").is_in(["s5", "s6", "s7"])
    added = pl.when(pl.col("study_id").is_in(["s5", "s6"])).then(pl.lit(" the ribs are old .")).otherwise(pl.lit(""))
    return records.with_columns(
        split=pl.when(last).then(pl.lit("test")).otherwise(pl.lit("train")), report=pl.col("report") + added
    )


def test_the_nearest_is_by_direction_and_in_the_same_context(bench: ModuleType, corpus: pl.DataFrame) -> None:
    angles = {"f0.png": 0.0, "f1.png": 0.5, "f2.png": 1.0, "f3.png": 1.5, "f4.png": 1.5}
    angles |= {"f5.png": 0.45, "f6.png": 1.4, "f7.png": 0.1}

    class Store:
        def depth_states(self, images: Sequence[str]) -> torch.Tensor:
            angle = torch.tensor(angles[images[0]])
            state = torch.stack([angle.cos(), angle.sin()]) * (1 + 9 * angle)
            return torch.stack([torch.zeros(2, 2), torch.stack([state * 0.5, state * 1.5])])[None]  # [1, K, N, d]

    train, test = of_split(corpus, "train"), of_split(corpus, "test")
    reports = dict(corpus.select("record_id", "report").iter_rows())
    nearest = {5: 1, 6: 3, 7: 0}
    assert bench.nearest_reports(train, test, Store()) == {
        f"{context}-{number}": reports[f"{context}-{near}"]
        for context in ("sn", "mn")
        for number, near in nearest.items()
    }


def test_the_mean_radiograph_is_that_of_each_view(bench: ModuleType, corpus: pl.DataFrame, tmp_path: Path) -> None:
    rows = []
    for number in range(5):
        for view, grey in (("f", 20 * number), ("l", 100 + 20 * number)):
            path = tmp_path / f"{view}{number}.png"
            image = Image.new("L", (30, 20), grey)
            image.paste(grey + 50, (15, 0, 30, 20))
            image.save(path)
            rows.append((path.name, str(path), path.stat().st_size, 30, 20))
    images = pl.DataFrame(rows, IMAGE_SCHEMA, orient="row")
    means = bench.mean_radiographs(of_split(corpus, "train"), images, tmp_path)
    assert means.schema == images.schema and means["image_id"].to_list() == ["frontal", "lateral"]
    for path, grey in zip(means["path"], (40, 140), strict=True):
        mean = np.asarray(Image.open(path))
        assert set(mean[:, 5:60].ravel()) == {grey} and set(mean[:, -60:-5].ravel()) == {grey + 50}


def test_scores_of_all_reports_and_of_those_not_in_train(bench: ModuleType, corpus: pl.DataFrame) -> None:
    train, test = of_split(corpus, "train"), of_split(corpus, "test")
    systems = {
        "itself": dict(test.select("record_id", "report").iter_rows()),
        "heart": dict.fromkeys(test["record_id"], "mild cardiomegaly ."),
        "constant": bench.constant_reports(train, test),
    }
    lines = bench.tables(train, test, systems)
    assert [line for line in lines if line.startswith("##")] == [
        "## All, of the test reports: 3 in sn, 3 in mn",
        "## Not in train, of the test reports: 2 in sn, 2 in mn",
    ]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    scores = {row[0]: row[1:] for row in rows[1:4]}
    # the three test reports name nothing, a cardiomegaly, and an effusion and a pneumonia
    assert scores["itself"][:3] == ["1.000"] * 3 and scores["itself"][4:7] == ["1.000"] * 3
    assert scores["heart"][:4] == ["0.333"] * 4, "whoever writes the same for everybody has the F1 of chance"
    assert set(bench.constant_reports(train, test).values()) == {"the heart is normal ."}
    assert scores["constant"][:3] == ["nan", "0.000", "0.000"]
