"""The extractor gives what a plain loop over sentences and patterns gives, on generated, written and real reports."""

from __future__ import annotations

from hypothesis import given

from pacer.commitments.rules.extract import extract_anchor
from pacer.data.cleaning import clean_report
from pacer.phantom.language import sample_texts
from tests.support.plain_rules import plain_anchor
from tests.unit.commitments.test_mentions import TEXTS


@given(text=TEXTS)
def test_any_text(text: str) -> None:
    assert extract_anchor(text) == plain_anchor(text)


def test_reports_of_the_phantom() -> None:
    for number, report in enumerate(sample_texts(3, 1000)):
        for text in (report.text, clean_report(report.text)):
            assert extract_anchor(text) == plain_anchor(text), f"report {number}"
