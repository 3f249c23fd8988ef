"""A receipt gives the comparison of the run itself, and holds none of its texts and ids."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from pacer.cli.command import app
from pacer.core.errors import ConfigError, PacerError
from pacer.metrics.calls import compare, score

REFERENCES = {
    f"study-{n}": f"there is {finding} . the heart is normal ."
    for n, finding in enumerate(
        ("pneumothorax", "edema", "a pleural effusion", "no pneumonia", "cardiomegaly", "atelectasis") * 4
    )
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the runs of two systems, and a receipt of the second with its salt."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "salt").write_text("0123456789abcdef" * 2 + "\n")
    texts = list(REFERENCES.values())
    for name, right in (("first", 12), ("second", 20)):
        reports = [*texts[:right], *texts[:1] * (24 - right)]
        score(REFERENCES, dict(zip(REFERENCES, reports, strict=True)), out=folder / name)
    for name, written in (("references", texts), ("reports", reports)):
        pl.DataFrame({"id": list(REFERENCES), "text": written}).write_csv(folder / f"{name}.csv")
    files = (
        "--references",
        folder / "references.csv",
        "--hypotheses",
        folder / "reports.csv",
        "--out",
        folder / "again",
    )
    receipt = ("--receipt", folder / "receipt.json", "--salt", folder / "salt")
    done = CliRunner().invoke(app, ["score", *map(str, files + receipt)])
    assert done.exit_code == 0, done.output
    return folder


def test_a_receipt_stands_for_the_run(made: Path) -> None:
    text = (made / "receipt.json").read_text()
    assert not any(word in text for word in ("study-1", "pneumothorax .", "the heart"))
    assert "findings_original" not in json.loads(text)["cases"][0]
    whole = compare(made / "first", made / "second")
    hidden = compare(made / "first", made / "receipt.json", salt=made / "salt")
    assert replace(hidden, scores={}) == replace(whole, scores={}, groups=[])
    for key, expected in whole.scores["all"].items():  # hashes put the patients in another order, so resamples differ
        found = hidden.scores["all"][key]
        assert (found.first, found.second, found.difference) == (expected.first, expected.second, expected.difference)
        assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=0.02), key
    assert whole.scores["all"]["bleu4"].difference


@pytest.mark.parametrize(
    ("receipt", "salt", "problem"),
    [
        ("receipt.json", None, "--salt"),
        ("receipt.json", "x" * 32, "another salt"),
        ("receipt.json", "short", "at least 16 random characters"),
        ("none.json", "x" * 32, "is no receipt"),
    ],
)
def test_receipts_need_their_salt(made: Path, tmp_path: Path, receipt: str, salt: str | None, problem: str) -> None:
    (made / "none.json").write_text("{}")
    (tmp_path / "other").write_text(salt or "")
    with pytest.raises(PacerError, match=problem):
        compare(made / "first", made / receipt, salt=salt and tmp_path / "other")


def test_receipt_and_salt_go_together(tmp_path: Path) -> None:
    files = ("--references", "a.csv", "--hypotheses", "b.csv", "--out", "o", "--receipt", "r.json")
    done = CliRunner().invoke(app, ["score", *files])
    assert isinstance(done.exception, ConfigError) and "--receipt and --salt go together" in str(done.exception)
