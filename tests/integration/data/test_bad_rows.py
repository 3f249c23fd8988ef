"""A table with a thousand bad rows of thirty kinds: every one is listed with its place, and none stops the reading."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from PIL import Image

from pacer.config import Corpus
from pacer.core.errors import DataError
from pacer.data.build_corpus import build_corpus
from pacer.data.source import point_to_files
from tests.support.profiles import profile

SECRET = "Zephyrine opacity"
COLUMNS = ("subject", "study", "view", "image", "date", "time", "findings", "impression", "indication", "split")
#: What is wrong: the changed fields of the rows of a study, the field that is listed, and part of the reason.
KINDS: list[tuple[list[dict[str, str]], str | None, str]] = [
    ([{"subject": ""}], "subject", "the id is missing"),
    ([{"study": " "}], "study", "the id is missing"),
    ([dict.fromkeys(COLUMNS, "")], None, "an empty row"),
    ([{"image": ""}], None, "no image: its report can only be a previous one"),
    ([{}, {"image": " "}], "image", "the image path is missing"),
    ([{"view": "?"}], None, "?, unknown view"),
    ([{"view": ""}], None, "unknown view"),
    ([{"view": "oblique"}], None, "oblique, unknown view"),
    ([{"view": "LL"}], None, "no frontal image"),
    ([{}, {"view": "AP"}], None, "the same file as in line {before}, a further frontal image of the study"),
    ([{"date": "07/15/2020"}], "date", "07/15/2020, expected YYYY-MM-DD"),
    ([{"date": "2180-13-01"}], "date", "2180-13-01, expected YYYY-MM-DD"),
    ([{"date": f"{SECRET} since 2020"}], "date", "text of 28 characters, expected YYYY-MM-DD"),
    ([{"time": "noon"}], "time", "noon, expected HH:MM"),
    ([{"time": "0830"}], "time", "0830, expected HH:MM"),
    ([{"time": "25:00"}], "time", "25:00, expected HH:MM"),
    ([{"date": "2180-01-01 09:00", "time": "11:00"}], "time", "11:00, the study has different values of it"),
    ([{"split": "holdout"}], "split", "holdout, expected train, val"),
    ([{"split": ""}], "split", "expected train, val"),
    ([{"findings": f"{SECRET} \x07"}], "findings", "is the control character U+00"),
    ([{"indication": f"{SECRET} \x1b[31m"}], "indication", "is the control character U+00"),
    ([{"findings": ""}], None, "neither findings nor impression"),
    ([{"findings": "N/A"}], None, "neither findings nor impression"),
    ([{"study": "hidden\u202e{n}"}], "study", "U+202E, which does not show"),
    ([{"study": "x" * 201 + "{n}"}], "study", "characters, more than 200"),
    ([{"study": "{n}.5E+12"}], "study", "a number type has rounded"),
    ([{"image": "gone{n}.png"}], "image", "below {images}, the file does not exist"),
    ([{"image": f"{SECRET} in the left lung{{n}}.png"}], "image", "the file does not exist"),
    ([{"image": "/f.png"}], "image", "it is an absolute path"),
    ([{"image": "../f.png"}], "image", "it is outside the folder"),
    ([{"image": "text.png"}], "image", "the file is not an image"),
    ([{"image": "folder"}], "image", "the file cannot be read (Is a directory)"),
    ([{}, {"view": "LL", "findings": SECRET}], "findings", "the study has different values of it"),
    ([{}, {"view": "LL", "date": "2180-01-02"}], "date", "2180-01-01 and 2180-01-02, the study has different"),
    ([{}, {"view": "LL", "subject": "other{n}"}], "study", "p{n} and other{n}, the study is given under more than one"),
    ([{}, {"view": "LL", "image": "f.png"}], "image", "the same file is given as frontal and as lateral"),
]  # fmt: skip


@pytest.fixture
def table(tmp_path: Path) -> tuple[Corpus, Path, dict[int, tuple[str | None, str]]]:
    """A corpus of a thousand bad studies and ten sound ones, and what is expected of the line of each bad study."""
    images = tmp_path / "images"
    (images / "folder").mkdir(parents=True)
    Image.new("L", (16, 16)).save(images / "f.png")
    (images / "text.png").write_text(SECRET)
    expected: dict[int, tuple[str | None, str]] = {}
    line = 2
    with open(tmp_path / "t.csv", "w", newline="", encoding="utf-8") as file:
        out = csv.DictWriter(file, COLUMNS)
        out.writeheader()
        for number in range(1, 1011):
            changes, field, reason = KINDS[number % len(KINDS)] if number > 10 else ([{}], None, "")
            for place, change in enumerate(changes):
                good: dict[str, Any] = dict.fromkeys(COLUMNS, "") | {
                    "subject": f"p{number}", "study": f"s{number}", "view": "PA", "image": "f.png",
                    "date": "2180-01-01", "findings": f"{SECRET} {number}.", "split": "train",
                }  # fmt: skip
                out.writerow(good | {name: value.replace("{n}", str(number)) for name, value in change.items()})
                listed = (
                    reason.replace("{n}", str(number))
                    .replace("{images}", str(images))
                    .replace("{before}", str(line - 1))
                )
                # a study is listed by its first row, one of two subjects by both, a further image by its own
                first = field in ("findings", "date") or "the same file is given" in reason
                both = "under more than one" in reason
                if number > 10 and (both or place == (0 if first else len(changes) - 1)):
                    expected[line] = field, listed
                line += 1
    base = profile("phantom").corpus.model_dump()
    table = {"file": "t.csv", "columns": {}, "delimiter": None, "encoding": "utf-8"}
    files = {"source": "files", "format": "table", "root": str(tmp_path), "images": "images", "table": table}
    return Corpus.model_validate(base | files | {"max_bad_rows": 10_000}), tmp_path, expected


def test_every_bad_row_is_listed_and_none_stops_the_reading(table) -> None:
    config, folder, expected = table
    assert len(KINDS) > 30 and len(expected) >= 1000
    point_to_files(config, folder / "source")
    audit = build_corpus(config, folder / "source", folder / "corpus")
    listed = pl.read_csv(folder / "corpus" / "problems.csv", infer_schema=False)
    lines = {
        int(row.removeprefix("line ")): (field, reason)
        for row, field, reason in listed[["row", "field", "reason"]].rows()
    }
    assert lines.keys() == expected.keys()
    wrong = [(line, lines[line], want) for line, want in expected.items()
             if lines[line][0] != want[0] or want[1] not in lines[line][1]]  # fmt: skip
    assert wrong == []
    assert listed["rows"].cast(int).sum() == audit["rows"]["bad"] + audit["rows"]["left_out"]
    assert set(Counter(listed["kind"])) == {"bad", "left out"}
    assert SECRET not in (folder / "corpus" / "problems.csv").read_text()
    sound = {f"s{number}" for number in range(1, 11)}
    assert sound <= set(pl.read_parquet(folder / "corpus" / "records.parquet")["study_id"])

    with pytest.raises(DataError, match=r"unusable rows, corpus.max_bad_rows allows 0(.|\n)*t\.csv line ") as error:
        build_corpus(config.model_copy(update={"max_bad_rows": 0}), folder / "source", folder / "again")
    assert SECRET not in str(error.value)
