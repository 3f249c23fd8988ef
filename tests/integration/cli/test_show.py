"""`pacer show` as a user types it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from tests.support.reporting import Run, make_run

__all__ = ["make_run"]


@pytest.fixture
def run(repository: Path, make_run, capsys) -> Run:
    """A run where a user has it: below `data/`, `predictions/` and `metrics/`."""
    made = make_run(repository / "made")
    (repository / "data").mkdir()
    for name in ("corpus", "anchors", "emphasis"):
        shutil.copytree(made.root / name, repository / "data" / name)
    for name in ("predictions", "metrics"):
        shutil.copytree(made.root / name, repository / name)
    capsys.readouterr()
    return made


def test_a_study_by_two_systems_as_a_page(pacer, run: Run) -> None:
    cases = pl.read_parquet("metrics/cases.parquet")
    study = cases.filter(context="sw")["study_id"][0]
    lines = [{"record_id": row["record_id"], "report": "no effusion ."} for row in cases.to_dicts()]
    Path("theirs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    outcome = pacer("show", study, "--systems", "PACER=metrics", "theirs.jsonl")
    assert outcome.code == 0, outcome.error
    assert outcome.out == f"written to shown/study-{study}.html\n"
    page = Path(f"shown/study-{study}.html").read_text()
    for shown in (
        ">PACER<",
        ">theirs.jsonl<",
        "data:image/jpeg",
        "<h3>SN ",
        "<h3>SW ",
        "Previous report",
        "in italics",
    ):
        assert shown in page, shown


def test_a_study_that_nobody_has_writes_nothing(pacer, run: Run, repository: Path) -> None:
    before = sorted(repository.parent.rglob("*"))
    outcome = pacer("show", "--systems", "A=metrics", "B=metrics", "--", "../../x")
    assert outcome.code == 1 and outcome.error.startswith("error: metrics has no report of study ../../x in context sn")
    assert outcome.error.count("\n") == 1 and sorted(repository.parent.rglob("*")) == before


FORM = "pacer show STUDY --systems A=PLACE B=PLACE"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("s --systems A=metrics B=metrics --context xx", "error: --context xx: expected one of sn, sw, mn, mw\n"),
        ("s --systems metrics metrics", "--systems: both are called metrics; give them names, as in A=PLACE B=PLACE\n"),
        ("s --systems A=metrics", FORM),
        ("--systems A=metrics s", FORM),
        ("s", FORM),
    ],
)
def test_what_cannot_be_shown_is_told_in_one_line(pacer, run: Run, arguments: str, told: str) -> None:
    outcome = pacer("show", *arguments.split())
    assert outcome.code == 1 and told in outcome.error and outcome.error.count("\n") == 1
