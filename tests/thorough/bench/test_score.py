"""Scoring beside pycocoevalcap, on a few reports."""

import sys
from pathlib import Path

import polars as pl
import pytest
import score

from pacer.phantom.language import sample_texts


def test_both_workloads_are_scored_alike(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    texts = [report.text for report in sample_texts(3, 12)]
    pl.DataFrame({"id": range(12), "report": texts}).write_csv(tmp_path / "reports.csv")
    sizes = ["--pairs", "20", "--many", "30", "--out", str(tmp_path / "score.md")]
    monkeypatch.setattr(sys, "argv", ["score.py", str(tmp_path / "reports.csv"), *sizes])
    score.main()
    written = (tmp_path / "score.md").read_text()
    assert "\n| real | " in written and "\n| repeated | " in written
    assert "\n30 pairs: " in written
