"""The promise in words and figures."""

import polars as pl

from pacer.config.decode import Risk
from pacer.reporting.score_tables import promise_table, promise_text


def test_a_promise_is_never_stated_without_its_condition() -> None:
    text = promise_text(Risk(false_present=0.2).model_dump())
    assert text == (
        "Of the findings stated as present, at most 20% are expected to be absent from the radiologist's report, for "
        "patients like those in val (90% confidence)"
    )


def test_what_was_promised_and_achieved() -> None:
    """Two patients, three findings stated, one of them wrong, and one withheld."""
    present = [[0.95, 0.5, *[0.0] * 11], [0.9, *[0.1] * 12]]
    cases = pl.DataFrame(
        {
            "context": ["sn", "sn"],
            "subject_id": ["a", "b"],
            "present": present,
            "hypothesis": ["there is atelectasis .", ""],
            "report_positive": [["atelectasis"], ["atelectasis", "edema"]],
            "reference_positive": [["atelectasis", "cardiomegaly", "fracture"], ["atelectasis"]],
        }
    )
    tested = {"threshold": 0.9, "patients": 60, "findings": 40, "errors": 2, "p": 0.01, "enough": 50}
    risk = Risk(false_present=0.2).model_dump()
    promise = {"risk": risk, "contexts": {"sn": {"threshold": 0.9, "tests": {"false_present": [tested]}}}}
    (row,) = promise_table(promise, cases, 0.45, "").rows
    assert row[:4] == ("SN", "false present at most 20%", "0.9", "2 of 40, 60 patients")
    assert row[4:] == ("0.333 (– to –)", "3", "2", "1", "1")  # two patients are too few for an interval
