"""The extractor gives what a plain loop over sentences and patterns gives, on generated, written and real reports."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings

from pacer.corpus.text.cleaning import clean_report
from pacer.phantom.language import sample_texts
from pacer.rules.extract import extract_anchor
from tests.support.openi_labels import read_openi, whole
from tests.support.plain_rules import plain_anchor
from tests.unit.rules.test_mentions import TEXTS

DATA = Path(__file__).resolve().parents[4] / "shared" / "data"


@settings(max_examples=300)
@given(text=TEXTS)
def test_any_text(text: str) -> None:
    assert extract_anchor(text) == plain_anchor(text)


def test_reports_of_the_phantom() -> None:
    for number, report in enumerate(sample_texts(3, 1000)):
        for text in (report.text, clean_report(report.text)):
            assert extract_anchor(text) == plain_anchor(text), f"report {number}"


def test_real_reports() -> None:
    if not (DATA / "openi" / "reports.jsonl.gz").is_file():
        pytest.skip(f"the Open-I reports are not at {DATA}")
    for row in read_openi(DATA):
        assert extract_anchor(whole(row)) == plain_anchor(whole(row)), row["uid"]
