"""A table with a thousand bad rows of thirty kinds: every one is listed with its place, and none stops the reading."""

from pathlib import Path
from typing import Any

import polars as pl
from PIL import Image
from ruamel.yaml import YAML

from pacer.config import Corpus
from pacer.data.schemas import read_records
from tests.support.corpus import BASE, built, lines_of

SECRET = "Zephyrine opacity"
COLUMNS = ("subject", "study", "view", "image", "date", "time", "findings", "impression", "indication", "split")
KINDS = YAML(typ="safe").load(Path(__file__).with_name("bad_rows.yaml"))["kinds"]


def rows_of(images: Path) -> tuple[list[dict[str, Any]], dict[int, tuple[str | None, str]]]:
    """Ten sound studies and a thousand bad ones, and what is expected of the line of each bad study."""
    rows, expected = list[dict[str, Any]](), dict[int, tuple[str | None, str]]()
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
            line = len(rows) + 2
            rows.append(good | {name: value.replace("{n}", str(number)) for name, value in change.items()})
            if number > 10 and (both or place == (0 if first else len(changes) - 1)):
                expected[line] = field, reason.format(n=number, images=images, before=line - 1)
    return rows, expected


def test_every_bad_row_is_listed_and_none_stops_the_reading(tmp_path: Path) -> None:
    (tmp_path / "images" / "folder").mkdir(parents=True)
    Image.new("L", (16, 16)).save(tmp_path / "images" / "f.png")
    (tmp_path / "images" / "text.png").write_text(SECRET)
    rows, expected = rows_of(tmp_path / "images")
    assert len(KINDS) > 30 and len(expected) >= 1000
    pl.DataFrame(rows).write_csv(tmp_path / "studies.csv")
    table = {"format": "table", "table": {"file": "studies.csv", "columns": {}}, "images": "images"}
    settings = BASE | {"source": "files", "root": str(tmp_path), "max_bad_rows": 10_000} | table
    audit = built(Corpus.model_validate(settings), tmp_path)
    problems = (tmp_path / "corpus" / "problems.csv").read_text()
    listed = pl.read_csv(tmp_path / "corpus" / "problems.csv", infer_schema=False)
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
    assert set(listed["kind"]) == {"bad", "left out"}
    assert lines_of(audit)["Images missing or unreadable"] == "60 missing, 4 unreadable"
    assert SECRET not in problems
    records = read_records(tmp_path / "corpus" / "records.parquet")
    assert {f"s{number}" for number in range(1, 11)} <= set(records["study_id"])
