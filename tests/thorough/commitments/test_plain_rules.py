"""The rules against their plain form on Open-I's reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from pacer.commitments.rules.extract import extract_anchor
from tests.support.openi_labels import read_openi, whole
from tests.support.plain_rules import plain_anchor

DATA = Path(__file__).resolve().parents[4] / "shared" / "data"


def test_real_reports() -> None:
    if not (DATA / "openi" / "reports.jsonl.gz").is_file():
        pytest.skip(f"the Open-I reports are not at {DATA}")
    for row in read_openi(DATA):
        assert extract_anchor(whole(row)) == plain_anchor(whole(row)), row["uid"]
