"""A table with a thousand bad rows of thirty kinds: every one is listed with its place, and none stops the reading."""

from __future__ import annotations

from collections import Counter
from typing import Any

import polars as pl
import pytest
from PIL import Image

from pacer.core.errors import DataError
from tests.support.corpus import Studies, lines_of

SECRET = "Zephyrine opacity"
COLUMNS = ("subject", "study", "view", "image", "date", "time", "findings", "impression", "indication", "split")
#: What is wrong: the changed fields of the rows of a study, the field that is listed, and part of the reason.
KINDS: list[tuple[list[dict[str, str]], str | None, str]] = [
    ([{"subject": ""}], "subject", "the id is missing"),
    ([{"study": " "}], "study", "the id is missing"),
    ([dict.fromkeys(COLUMNS, "")], None, "an empty row"),
    ([{"image": ""}], None, "no image: its report can only be a previous one"),
    ([{}, {"image": " "}], "image", "the image path is missing"),
    ([{"view": f"{SECRET} seen from the side"}], None, "text of 36 characters, unknown view"),
    ([{"view": ""}], None, "unknown view"),
    ([{"view": "oblique"}], None, "oblique, unknown view"),
    ([{"view": "LL"}], None, "no frontal image"),
    ([{}, {"view": "AP"}], None, "the same file as in line {before}, a further frontal image of the study"),
    ([{"date": "07/15/2020"}], "date", "07/15/2020, expected YYYY-MM-DD"),
    ([{"date": f"{SECRET} since 2020"}], "date", "text of 28 characters, expected YYYY-MM-DD"),
    ([{"time": "noon"}], "time", "noon, expected HH:MM"),
    ([{"date": "2180-01-01 09:00", "time": "11:00"}], "time", "11:00, the date of a row has another time of day"),
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
    ([{"image": f"{SECRET} in the left lung{{n}}.png"}], "image", "characters below {images}, the file does not exist"),
    ([{"image": "/f.png"}], "image", "it is an absolute path"),
    ([{"image": "../f.png"}], "image", "it is outside the folder"),
    ([{"image": "text.png"}], "image", "the file is not an image"),
    ([{"image": "folder"}], "image", "the file cannot be read (Is a directory)"),
    ([{}, {"view": "LL", "findings": SECRET}], "findings", "the study has different values of it"),
    ([{}, {"view": "LL", "date": "2180-01-02"}], "date", "2180-01-01 and 2180-01-02, the study has different"),
    ([{}, {"view": "LL", "subject": "other{n}"}], "study", "p{n} and other{n}, the study is given under more than one"),
    ([{}, {"view": "LL", "image": "f.png"}], "image", "the same file is given as frontal and as lateral"),
]  # fmt: skip


def fill(studies: Studies) -> dict[int, tuple[str | None, str]]:
    """Add ten sound studies and a thousand bad ones; what is expected of the line of each bad study."""
    images = studies.folder / "images"
    (images / "folder").mkdir()
    Image.new("L", (16, 16)).save(images / "f.png")
    (images / "text.png").write_text(SECRET)
    expected: dict[int, tuple[str | None, str]] = {}
    for number in range(1, 1011):
        changes, field, reason = KINDS[number % len(KINDS)] if number > 10 else ([{}], None, "")
        good: dict[str, Any] = dict.fromkeys(COLUMNS, "") | {
            "subject": f"p{number}", "study": f"s{number}", "view": "PA", "image": "f.png",
            "date": "2180-01-01", "findings": f"{SECRET} {number}.", "split": "train",
        }  # fmt: skip
        # a study is listed by its first row, one of two subjects by both, a further image by its own
        first = field in ("findings", "date") or "the same file is given" in reason
        both = "under more than one" in reason
        for place, change in enumerate(changes):
            line = len(studies.rows) + 2
            studies.rows.append(good | {name: value.replace("{n}", str(number)) for name, value in change.items()})
            if number > 10 and (both or place == (0 if first else len(changes) - 1)):
                expected[line] = field, reason.format(n=number, images=images, before=line - 1)
    return expected


def test_every_bad_row_is_listed_and_none_stops_the_reading(studies: Studies) -> None:
    expected = fill(studies)
    assert len(KINDS) > 30 and len(expected) >= 1000
    studies.settings["max_bad_rows"] = 10_000
    audit = studies.build()
    listed = pl.read_csv(studies.folder / "corpus" / "problems.csv", infer_schema=False)
    listed = listed.filter(pl.col("kind") != "doubted")  # all sound studies have one image
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
    assert lines_of(audit)["Images missing or unreadable"] == "60 missing, 4 unreadable"
    assert SECRET not in (studies.folder / "corpus" / "problems.csv").read_text()
    assert {f"s{number}" for number in range(1, 11)} <= set(studies.records["study_id"])

    studies.settings["max_bad_rows"] = 0
    with pytest.raises(DataError, match=r"unusable rows, corpus.max_bad_rows allows 0") as error:
        studies.build()
    assert "studies.csv line " in str(error.value) and SECRET not in str(error.value)
