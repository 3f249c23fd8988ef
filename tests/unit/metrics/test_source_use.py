"""Findings by what the previous report and the lateral view say of them, and F1 that needs no training."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl
import pytest

from pacer import score
from pacer.core.io import write_jsonl
from pacer.data.findings import FINDINGS
from pacer.data.schemas import RECORD_SCHEMA
from pacer.metrics.score import score_decoded
from pacer.metrics.scores import SCORES, Context
from pacer.metrics.signature import DEFAULTS, ScoreInputs
from pacer.metrics.source_use import TEXTS, affirmed
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
            **{"persisting_stated": 1, "persisting_stated_without": 0},
            **{"gone_stated": 0, "gone_stated_without": 1},
            **{"new_stated": 0, "new_stated_without": 1},
            **{"prior_f1": 2 / 3, "prior_f1_without": 2 / 4, "prior_f1_itself": 2 / 4, "prior_f1_united": 4 / 5},
        },
        warning="SN 0.667 (the previous report united with reports without it 0.800)",
    ),
    Case(
        "sums over records: not a mean of records",
        *("e ef efp", "e f -", "e e e", "- - efp"),
        scores={
            **{"persisting_stated": 1 / 3, "persisting_stated_without": 1 / 3},
            **{"gone_stated": None, "gone_stated_without": None},
            **{"new_stated": 1 / 3, "new_stated_without": 2 / 3},
            **{"prior_f1": 4 / 8, "prior_f1_without": 6 / 9, "prior_f1_itself": 6 / 9, "prior_f1_united": 10 / 11},
        },
        warning="SN 0.500 (the previous report itself 0.667, the previous report united with reports without it 0.909)",
    ),
    Case(
        "without the control, what needs it is left out",
        *("e c", "ec c", "e f"),
        scores={"persisting_stated": 1, "gone_stated": 0, "new_stated": 1, "prior_f1": 4 / 5, "prior_f1_itself": 0.5},
    ),
    Case(
        "a record without a previous report counts nowhere",
        *("e c", "e f", "e ?"),
        scores={"persisting_stated": 1, "gone_stated": None, "new_stated": None, "prior_f1": 1, "prior_f1_itself": 1},
    ),
    Case(
        "nothing is affirmed anywhere, so nothing has a denominator",
        *("-", "-", "-"),
        scores=dict.fromkeys(("persisting_stated", "gone_stated", "new_stated", "prior_f1", "prior_f1_itself")),
    ),
    Case(
        "the frontal reference lacks p; the other study has no frontal record",
        *("ep c", "p c"),
        frontal="e ?",
        no_lateral="e c",
        scores={"lateral_only_stated": 1, "lateral_only_stated_without": 0},
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
    schema = dict.fromkeys((*TEXTS, "reference_positive", "report_positive"), pl.List(pl.String))
    count = len(case.reference.split())
    cases = pl.DataFrame({name: lists.get(name, [None] * count) for name in schema}, schema=schema)
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
    cases = pl.DataFrame(texts)
    assert affirmed(cases, "prior_positive") == [("edema",), None]
    assert affirmed(cases, "no_prior_positive") == [(), ("edema",)]
    assert affirmed(cases, "no_lateral_positive") == [None, None]


#: One study in its four contexts: the reference, the report, and the report without a source.
STUDY = {
    "sn": ("edema .", "edema .", {}),
    "sw": ("edema . fracture .", "edema .", {"no_prior": "pneumonia ."}),
    "mn": ("edema . pneumonia .", "pneumonia .", {"no_lateral": "edema ."}),
    "mw": ("edema . fracture . pneumonia .", "edema .", {"no_lateral": "pneumonia .", "no_prior": "fracture ."}),
}
PRIOR = "fracture . cardiomegaly ."


def test_sources_in_the_scores_of_decoded_reports_and_of_any_others(tmp_path, quick_meteor) -> None:
    """``mn`` and ``mw`` are held against the reference of ``sn`` and ``sw``, which is decoded or not; other systems
    have no controls, and their references need a column of previous reports."""
    rows = [
        {"record_id": f"{c}-1", "context": c, "study_id": "1", "subject_id": "1", "split": "test"}
        | {"report": text, "report_raw": text, "prior_report": PRIOR if c[1] == "w" else None}
        | {"lateral": "lateral.jpg" if c[0] == "m" else None}
        for c, (text, *_) in STUDY.items()
    ]
    records = pl.DataFrame(rows, schema=RECORD_SCHEMA)
    records.write_parquet(tmp_path / "records.parquet")
    for context, (_, report, controls) in STUDY.items():
        for folder, text in {"": report, **{f"controls/{name}": text for name, text in controls.items()}}.items():
            line = {"record_id": f"{context}-1", "report": text}
            write_jsonl(tmp_path / "predictions" / folder / f"{context}.jsonl", [line])

    def decoded(*contexts: str) -> dict:
        folders = tmp_path / "records.parquet", tmp_path / "predictions", tmp_path / "scores"
        return score_decoded(*folders, ScoreInputs(None), DEFAULTS, contexts=contexts).scores

    whole, part = decoded(), decoded("mn", "mw")
    assert not KEYS & set(whole["sn"]) and whole["mw"] == part["mw"]
    lateral = {"lateral_only_stated", "lateral_only_stated_without"}
    assert {key: part["mn"][key] for key in KEYS & set(part["mn"])} == dict(zip(sorted(lateral), (1, 0), strict=True))
    assert set(part["mw"]) >= KEYS
    expected = {"persisting_stated": 0, "persisting_stated_without": 0, "new_stated": 1, "new_stated_without": 0}
    expected |= {"prior_f1": 2 / 3, "prior_f1_without": 0, "prior_f1_itself": 1 / 2, "prior_f1_united": 2 / 5}
    assert {key: whole["sw"][key] for key in expected} == pytest.approx(expected)

    reports = {f"{context}-1": report for context, (_, report, _) in STUDY.items()}
    foreign = score(records.select("record_id", "report", "prior_report"), reports)
    floors = {key: foreign.scores["all"][key] for key in KEYS & set(foreign.scores["all"])}
    assert floors == pytest.approx(
        {"persisting_stated": 0, "gone_stated": 0, "new_stated": 2 / 3, "prior_f1": 4 / 7, "prior_f1_itself": 4 / 9}
    )
    assert not any("needs no training" in note for note in foreign.notes)
    silent = score(records.select("record_id", "report", "prior_report"), dict.fromkeys(reports, "clear ."))
    assert "ALL 0.000 (the previous report itself 0.444)" in silent.notes[-1]
