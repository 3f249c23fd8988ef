"""A table with a thousand bad rows of thirty kinds: every one is listed with its place, and none stops the reading."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from PIL import Image
from ruamel.yaml import YAML

from pacer.core.errors import DataError
from tests.support.corpus import Studies, lines_of

SECRET = "Zephyrine opacity"
COLUMNS = ("subject", "study", "view", "image", "date", "time", "findings", "impression", "indication", "split")
KINDS = YAML(typ="safe").load(Path(__file__).with_name("bad_rows.yaml"))["kinds"]


def fill(studies: Studies) -> dict[int, tuple[str | None, str]]:
    """Add ten sound studies and a thousand bad ones; what is expected of the line of each bad study."""
    images = studies.folder / "images"
    (images / "folder").mkdir()
    Image.new("L", (16, 16)).save(images / "f.png")
    (images / "text.png").write_text(SECRET)
    expected: dict[int, tuple[str | None, str]] = {}
    for number in range(1, 1011):
        bad = KINDS[number % len(KINDS)] if number > 10 else {"changes": [{}], "field": None, "reason": ""}
        changes, field, reason = bad["changes"], bad["field"], bad["reason"]
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
