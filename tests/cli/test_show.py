"""`pacer show` and `pacer checklist` as a user types them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from tests.reporting.conftest import Run, make_run

__all__ = ["make_run"]

pytestmark = pytest.mark.slow


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


def test_a_study_by_two_systems_as_page_and_drawing(pacer, run: Run) -> None:
    cases = pl.read_parquet("metrics/cases.parquet")
    study = cases.filter(context="sw")["study_id"][0]
    lines = [{"record_id": row["record_id"], "report": "no effusion ."} for row in cases.to_dicts()]
    Path("theirs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    outcome = pacer("show", study, "--systems", "PACER=metrics", "theirs.jsonl")
    assert outcome.code == 0, outcome.error
    assert (
        f"written to shown/study-{study}.html" in outcome.out and f"written to shown/study-{study}.svg" in outcome.out
    )
    page = Path(f"shown/study-{study}.html").read_text()
    assert ">PACER</text>" in page and ">theirs.jsonl</text>" in page and "data:image/jpeg" in page
    assert ">SN: frontal</text>" in page and ">SW: " in page and "Previous report" in page and "in italics" in page
    study = cases.filter(context="mw")["study_id"][0]
    assert pacer("show", study, "--systems", "metrics", "metrics", "--context", "mw", "--out", "x").code == 0
    assert Path(f"x/study-{study}.html").read_text().count("<image") == 2


@pytest.mark.parametrize("study", ["a/../../x", "../../x", "/etc/passwd", ""])
def test_a_study_that_nobody_has_writes_nothing(pacer, run: Run, repository: Path, study: str) -> None:
    before = sorted(repository.parent.rglob("*"))
    outcome = pacer("show", "--systems", "metrics", "metrics", "--", study)
    assert outcome.code == 1 and outcome.error.startswith("error: metrics has no report of study")
    assert outcome.error.count("\n") == 1 and sorted(repository.parent.rglob("*")) == before


def test_a_context_that_does_not_exist_is_named(pacer, run: Run) -> None:
    outcome = pacer("show", "s", "--systems", "metrics", "metrics", "--context", "xx")
    assert outcome.code == 1 and outcome.error == "error: --context xx is none of sn, sw, mn, mw\n"


def test_the_checklist_of_a_run(pacer, run: Run) -> None:
    outcome = pacer("checklist", "--out", "mine.md")
    assert outcome.code == 0, outcome.error
    assert "TRIPOD-LLM: of 49 items" in outcome.out and "CLAIM 2024: of 44 items" in outcome.out
    assert "- [x] **5b** " in Path("mine.md").read_text()
    for name, said in (("metrics/scores.json", "is not valid JSON"), ("dvc.lock", "is not valid YAML; mend it")):
        Path(name).write_text("{")
        refused = pacer("checklist")
        assert refused.code == 1 and f"error: {name} {said}" in refused.error
        Path(name).unlink()
    assert not Path("checklist.md").exists()
