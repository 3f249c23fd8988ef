"""Findings by what the previous report and the lateral view say of them, and F1 that needs no training."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl
import pytest

from pacer.data.findings import FINDINGS
from pacer.metrics.scores import SCORES, Context
from pacer.metrics.source_use import source_columns, with_frontal_references
from pacer.metrics.statistics.bootstrap import intervals
from pacer.metrics.statistics.intervals import context_sums, resampled_units
from pacer.metrics.statistics.sources import warnings

#: The letters of the cases below.
NAMES = {"e": "edema", "f": "fracture", "p": "pneumonia", "c": "cardiomegaly"}
assert set(NAMES.values()) <= set(FINDINGS)


class Case(NamedTuple):
    """Affirmed findings of each record, separated by blanks (``-``: none, ``?``: no such text), and the scores."""

    what: str
    reference: str
    report: str
    prior: str | None = None
    no_prior: str | None = None
    frontal: str | None = None
    no_lateral: str | None = None
    scores: dict[str, float | None] = {}  # noqa: RUF012
    warning: str = ""


CASES = (
    Case("nothing is known of the sources", "ef -", "e -"),
    Case(
        "one record: e persists, f is gone, p is new",
        *("ep", "e", "ef", "fp"),
        scores={
            **{"persisting_stated": 1, "persisting_stated_without_prior": 0},
            **{"gone_stated": 0, "gone_stated_without_prior": 1},
            **{"new_stated": 0, "new_stated_without_prior": 1},
            **{"with_prior_f1": 2 / 3, "without_prior_f1": 2 / 4, "prior_itself_f1": 2 / 4, "united_f1": 4 / 5},
        },
        warning="SN 0.667 (united with the report written without it 0.800)",
    ),
    Case(
        "sums over records: not a mean of records",
        *("e ef efp", "e f -", "e e e", "- - efp"),
        scores={
            **{"persisting_stated": 1 / 3, "persisting_stated_without_prior": 1 / 3},
            **{"gone_stated": None, "gone_stated_without_prior": None},
            **{"new_stated": 1 / 3, "new_stated_without_prior": 2 / 3},
            **{"with_prior_f1": 4 / 8, "without_prior_f1": 6 / 9, "prior_itself_f1": 6 / 9, "united_f1": 10 / 11},
        },
        warning="SN 0.500 (the previous report itself 0.667, united with the report written without it 0.909)",
    ),
    Case(
        "without the control, what needs it is left out",
        *("e c", "ec c", "e f"),
        scores={
            "persisting_stated": 1,
            "gone_stated": 0,
            "new_stated": 1,
            "with_prior_f1": 4 / 5,
            "prior_itself_f1": 0.5,
        },
    ),
    Case(
        "a record without a previous report counts nowhere",
        *("e c", "e f", "e ?"),
        scores={
            "persisting_stated": 1,
            "gone_stated": None,
            "new_stated": None,
            "with_prior_f1": 1,
            "prior_itself_f1": 1,
        },
    ),
    Case(
        "nothing is affirmed anywhere, so nothing has a denominator",
        *("-", "-", "-"),
        scores=dict.fromkeys(("persisting_stated", "gone_stated", "new_stated", "with_prior_f1", "prior_itself_f1")),
    ),
    Case(
        "the frontal reference lacks p; the other study has no frontal record",
        *("ep c", "p c"),
        frontal="e ?",
        no_lateral="e c",
        scores={"lateral_only_stated": 1, "lateral_only_stated_without_lateral": 0},
    ),
    Case("all records of a study have one target", "ep", "e", frontal="ep", scores={"lateral_only_stated": None}),
)
KEYS = {key for case in CASES for key in case.scores}


def table(case: Case) -> pl.DataFrame:
    sides = {"reference": case.reference, "report": case.report, "prior": case.prior, "no_prior": case.no_prior}
    sides |= {"frontal": case.frontal, "no_lateral": case.no_lateral}
    lists = {
        f"{side}_positive": [
            None if one == "?" else [NAMES[letter] for letter in one.strip("-")] for one in text.split()
        ]
        for side, text in sides.items()
        if text is not None
    }
    cases = pl.DataFrame(lists, schema=dict.fromkeys(lists, pl.List(pl.String)))
    return cases.with_row_index("record_id").with_columns(pl.col("record_id").cast(pl.String), context=pl.lit("sn"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.what)
def test_scores_warning_and_their_intervals(case: Case) -> None:
    cases = table(case)
    chosen = [score for score in SCORES if score.key in KEYS]
    context = Context(cases, None, "llm-rg4")
    found = {key: value for score in chosen for key, value in score.of(context).items()}
    assert found == pytest.approx(case.scores)
    sums = context_sums(cases, "llm-rg4", [score for score in chosen if score.key in found], resampled_units(cases))
    assert {key: one.value for key, one in (intervals(sums, 20)["sn"] if sums else {}).items()} == pytest.approx(found)
    said = warnings({"sn": found}, cases, "llm-rg4")
    assert said == [f"F1 of affirmed findings is below what needs no training: {case.warning}."] * bool(case.warning)


def test_the_rules_read_previous_reports_and_controls() -> None:
    """Only what is affirmed counts, and a text that is missing has no findings rather than none."""
    texts = {
        "prior_report": ["edema . no fracture .", None],
        "no_prior_hypothesis": ["possible pneumonia .", "edema ."],
    }
    read = {column.name: column.to_list() for column in source_columns(pl.DataFrame(texts))}
    assert read == {"prior_positive": [["edema"], None], "no_prior_positive": [[], ["edema"]]}
    assert source_columns(pl.DataFrame({"prior_report": [None]}, schema={"prior_report": pl.String})) == []


def test_the_frontal_reference_is_that_of_the_same_study_in_the_context_without_the_lateral_view() -> None:
    rows = [
        ("sn-1", "1", "edema ."),
        ("sn-1b", "1", "fracture ."),
        ("mn-1", "1", "no edema ."),
        ("sw-1", "1", "pneumonia ."),
    ]
    rows += [("mn-2", "2", "edema ."), ("sw-3", "3", "edema ."), ("mw-3", "3", "edema . pneumonia .")]
    records = pl.DataFrame(rows, schema=["record_id", "study_id", "report_raw"], orient="row")
    records = records.with_columns(context=pl.col("record_id").str.head(2))
    cases = with_frontal_references(records, records, None)
    assert dict(cases.select("record_id", "frontal_positive").iter_rows()) == dict.fromkeys(records["record_id"]) | {
        "mn-1": ["edema"],
        "mw-3": ["edema"],
    }
