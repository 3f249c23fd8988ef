"""A receipt gives the comparison of the run itself, and holds none of its texts and ids."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from pacer.cli.command import app
from pacer.core.errors import ConfigError, DataError
from pacer.metrics.calls import compare, score

REFERENCES = {
    f"study-{n}": f"there is {finding} . the heart is normal ."
    for n, finding in enumerate(
        ("pneumothorax", "edema", "a pleural effusion", "no pneumonia", "cardiomegaly", "atelectasis") * 4
    )
}


def systems(folder: Path) -> tuple[Path, Path]:
    texts = list(REFERENCES.values())
    first = dict(zip(REFERENCES, [*texts[:12], *texts[:1] * 12], strict=True))
    second = dict(zip(REFERENCES, [*texts[:20], *texts[:1] * 4], strict=True))
    for name, reports in (("first", first), ("second", second)):
        score(REFERENCES, reports, out=folder / name)
    return folder / "first", folder / "second"


def receipt_of(run: Path, salt: Path, folder: Path) -> Path:
    for name in ("references", "reports"):
        column = {"references": "reference", "reports": "hypothesis"}[name]
        cases = pl.read_parquet(run / "cases.parquet")
        cases.select(pl.col("record_id").alias("id"), pl.col(column).alias("text")).write_csv(folder / f"{name}.csv")
    done = CliRunner().invoke(
        app,
        [
            *("score", "--references", str(folder / "references.csv"), "--hypotheses", str(folder / "reports.csv")),
            *("--out", str(folder / "again"), "--receipt", str(folder / "receipt.json"), "--salt", str(salt)),
        ],
    )
    assert done.exit_code == 0, done.output
    return folder / "receipt.json"


@pytest.fixture
def salt(tmp_path: Path) -> Path:
    (tmp_path / "salt").write_text("0123456789abcdef" * 2 + "\n")
    return tmp_path / "salt"


def test_a_receipt_stands_for_the_run(tmp_path: Path, salt: Path) -> None:
    first, second = systems(tmp_path)
    receipt = receipt_of(second, salt, tmp_path)
    text = receipt.read_text()
    assert not any(word in text for word in ("study-1", "pneumothorax .", "the heart"))
    assert "findings_original" not in json.loads(text)["cases"][0]
    whole, hidden = compare(first, second), compare(first, receipt, salt=salt)
    assert replace(hidden, scores={}) == replace(whole, scores={}, groups=[])
    for key, expected in whole.scores["all"].items():  # hashes put the patients in another order, so resamples differ
        found = hidden.scores["all"][key]
        assert (found.first, found.second, found.difference) == (expected.first, expected.second, expected.difference)
        assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=0.02), key
    assert whole.scores["all"]["bleu4"].difference


def test_receipts_need_their_salt(tmp_path: Path, salt: Path) -> None:
    first, second = systems(tmp_path)
    receipt = receipt_of(second, salt, tmp_path)
    with pytest.raises(ConfigError, match="--salt"):
        compare(first, receipt)
    other = tmp_path / "other"
    other.write_text("x" * 32)
    with pytest.raises(DataError, match="another salt"):
        compare(first, receipt, salt=other)
    other.write_text("short")
    with pytest.raises(ConfigError, match="at least 16 random characters"):
        compare(first, receipt, salt=other)
    (tmp_path / "none.json").write_text("{}")
    with pytest.raises(DataError, match="is no receipt"):
        compare(first, tmp_path / "none.json", salt=salt)


def test_receipt_and_salt_go_together(tmp_path: Path) -> None:
    files = ("--references", "a.csv", "--hypotheses", "b.csv", "--out", "o", "--receipt", "r.json")
    done = CliRunner().invoke(app, ["score", *files])
    assert isinstance(done.exception, ConfigError) and "--receipt and --salt go together" in str(done.exception)
