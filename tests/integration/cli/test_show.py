"""`pacer show` as a user types it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest

from tests.support.reporting import Run, make_run

__all__ = ["make_run"]


@pytest.fixture
def run(repository: Path, make_run, capsys: pytest.CaptureFixture) -> Run:
    """A run where a user has it: below `data/`, `predictions/` and `metrics/`."""
    made = make_run(repository / "made")
    for name, folder in (("data", ""), ("predictions", "predictions"), ("metrics", "metrics")):
        (repository / name).symlink_to(made.root / folder)
    capsys.readouterr()
    return made


def test_a_study_by_a_run_and_a_file_beside_radiograph_and_previous_report(pacer, run: Run) -> None:
    cases = pl.read_parquet("metrics/cases.parquet")
    study = cases.filter(context="mw")["study_id"][0]
    lines = [{"record_id": row["record_id"], "report": "small effusion ."} for row in cases.to_dicts()]
    Path("theirs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    command = ("show", study, "--systems", "PACER=metrics", "theirs.jsonl")
    outcome = pacer(*command, "--context", "sn", "--context", "mw")
    assert outcome.code == 0, outcome.error
    assert outcome.out == f"written to shown/study-{study}.html\n"
    page = Path(f"shown/study-{study}.html")
    for shown in (">PACER<", ">theirs.jsonl<", "<h3>SN ", "<h3>MW ", "Previous report", "in italics"):
        assert shown in page.read_text(), shown
    prior = pl.read_parquet("data/corpus/records.parquet").filter(record_id=f"mw-{study}")["prior_report"][0]
    assert page.read_text().count('src="data:image/jpeg') == 2 and prior in page.read_text()
    columns = [re.sub("<[^>]*>", "", text) for text in page.read_text().split('<section class="reading">')[1:]]
    for place, context in enumerate(("sn", "mw")):
        own = cases.filter(context=context, study_id=study)
        texts = own["reference"][0], own["hypothesis"][0], "small effusion ."
        assert all(text in column for text, column in zip(texts, columns[3 * place :]))
    Path("data/corpus/images.parquet").unlink()
    assert pacer(*command).code == 0
    assert "No radiograph" in page.read_text() and "<h3>SW " in page.read_text()


def test_a_study_that_nobody_has_writes_nothing(pacer, run: Run, repository: Path) -> None:
    before = sorted(repository.parent.rglob("*"))
    outcome = pacer("show", "--systems", "A=metrics", "B=metrics", "--", "../../x")
    assert outcome.code == 1 and outcome.error.startswith("error: metrics has no report of study ../../x in context sn")
    assert outcome.error.count("\n") == 1 and sorted(repository.parent.rglob("*")) == before


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("s --systems A=metrics B=metrics --context xx", "error: --context xx: expected one of sn, sw, mn, mw\n"),
        ("s --systems metrics metrics", "--systems: both are called metrics; give them names, as in A=PLACE B=PLACE\n"),
    ],
)
def test_what_cannot_be_shown_is_told_in_one_line(pacer, run: Run, arguments: str, told: str) -> None:
    outcome = pacer("show", *arguments.split())
    assert outcome.code == 1 and told in outcome.error and outcome.error.count("\n") == 1
