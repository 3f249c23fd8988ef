"""`pacer show` as a user types it."""

import re
import shutil
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


def test_a_study_by_two_runs_beside_radiograph_and_previous_report(pacer, run: Run) -> None:
    cases = pl.read_parquet("metrics/cases.parquet")
    study = cases.filter(context="mw")["study_id"][0]
    Path("theirs").mkdir()
    cases.with_columns(hypothesis=pl.lit("small effusion .")).write_parquet("theirs/cases.parquet")
    shutil.copy("metrics/signature.json", "theirs")
    command = ("show", study, "--systems", "PACER=metrics", "theirs")
    outcome = pacer(*command, "--context", "sn", "--context", "mw")
    assert outcome.code == 0, outcome.error
    assert outcome.out == f"written to shown/study-{study}.html\n"
    page = Path(f"shown/study-{study}.html")
    for shown in (">PACER<", ">theirs<", "<h3>SN ", "<h3>MW ", "Previous report", "in italics"):
        assert shown in page.read_text(), shown
    prior = pl.read_parquet("data/corpus/records.parquet").filter(record_id=f"mw-{study}")["prior_report"][0]
    assert page.read_text().count('src="data:image/jpeg') == 2 and prior in page.read_text()
    columns = [re.sub("<[^>]*>", "", text) for text in page.read_text().split('<section class="reading">')[1:]]
    for place, context in enumerate(("sn", "mw")):
        row = cases.filter(context=context, study_id=study)
        texts = row["reference"][0], row["hypothesis"][0], "small effusion ."
        assert all(text in column for text, column in zip(texts, columns[3 * place :]))
    Path("data/corpus/images.parquet").unlink()
    assert pacer(*command).code == 0
    assert "No radiograph" in page.read_text() and "<h3>SW " in page.read_text()
