"""Findings by what the previous report, the lateral view and the latent truth say of them."""

from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pytest

from pacer import score
from pacer.backbones.observations import OBSERVATION_OF, OBSERVATIONS
from pacer.core.errors import DataError
from pacer.core.findings import FINDINGS
from pacer.core.io import write_jsonl
from pacer.core.schemas import RECORD_SCHEMA, TRUTH_SCHEMA
from pacer.metrics.annotate import with_truth
from pacer.metrics.commitments import AFFIRMED_IN
from pacer.metrics.options import Scoring
from pacer.metrics.predictions import read_run
from pacer.metrics.score import score_cases, truth_scores
from pacer.metrics.score_kinds import ContextCases
from pacer.metrics.scores import SCORES
from pacer.statistics.halves import context_sums, intervals, units_of
from tests.support.cases import listed_cases

#: The letters of the cases below.
NAMES = {"e": "edema", "f": "fracture", "p": "pneumonia", "c": "cardiomegaly"}
assert set(NAMES.values()) <= set(FINDINGS)


def scores_of(case: dict[str, Any]) -> dict[str, float | None]:
    return {
        key: None if one is None else float(Fraction(one))
        for key, one in case.get("scores", {}).items()
    }


CASES = listed_cases(__file__, "sources")
KEYS = {key for case in CASES for key in scores_of(case.values[0])}


def table(sides: dict[str, str]) -> pl.DataFrame:
    lists = {
        f"{side}_positive": [
            None if one == "?" else [NAMES[letter] for letter in one.strip("-")]
            for one in text.split()
        ]
        for side, text in sides.items()
    }
    schema = dict.fromkeys(
        (*AFFIRMED_IN, "reference_positive", "report_positive"), pl.List(pl.String)
    )
    count = len(sides["reference"].split())
    cases = pl.DataFrame({name: lists.get(name, [None] * count) for name in schema}, schema=schema)
    return cases.with_row_index("record_id").with_columns(
        pl.col("record_id").cast(pl.String), context=pl.lit("sn")
    )


@pytest.mark.parametrize("case", CASES)
def test_scores_and_their_intervals(case: dict[str, Any]) -> None:
    cases = table(case["texts"])
    chosen = [score for score in SCORES if score.key in KEYS]
    context = ContextCases(cases, "llm-rg4")
    found = {key: value for score in chosen for key, value in score.of(context).items()}
    assert found == pytest.approx(scores_of(case))
    sums = context_sums(
        cases, "llm-rg4", [score for score in chosen if score.key in found], units_of(cases)
    )
    assert {
        key: one.value for key, one in (intervals(sums, 20)["sn"] if sums else {}).items()
    } == pytest.approx(found)


#: One study in its four contexts: the reference, the report, and the report without a source.
STUDY = {
    "sn": ("edema .", "edema .", {}),
    "sw": ("edema . fracture .", "edema .", {"no_prior": "pneumonia ."}),
    "mn": ("edema . pneumonia .", "pneumonia .", {"no_lateral": "edema ."}),
    "mw": (
        "edema . fracture . pneumonia .",
        "edema .",
        {"no_lateral": "pneumonia .", "no_prior": "fracture ."},
    ),
}
PRIOR = "fracture . cardiomegaly ."


def test_sources_in_the_scores_of_decoded_reports_and_of_any_others(tmp_path, quick_meteor) -> None:
    """``mn`` and ``mw`` are held against the reference of ``sn`` and ``sw``, which is decoded or
    not; other systems have no controls, and their references need a column of previous reports."""
    rows = [
        {"record_id": f"{c}-1", "context": c, "study_id": "1", "subject_id": "1", "split": "test"}
        | {"report": text, "report_raw": text, "prior_report": PRIOR if c[1] == "w" else None}
        | {"lateral": "lateral.jpg" if c[0] == "m" else None}
        for c, (text, *_) in STUDY.items()
    ]
    records = pl.DataFrame(rows, schema=RECORD_SCHEMA)
    records.write_parquet(tmp_path / "records.parquet")
    for context, (_, report, controls) in STUDY.items():
        for folder, text in {
            "": report,
            **{f"controls/{name}": text for name, text in controls.items()},
        }.items():
            line = {"record_id": f"{context}-1", "report": text}
            write_jsonl(tmp_path / "predictions" / folder / f"{context}.jsonl", [line])

    def decoded(*contexts: str) -> dict:
        folders = tmp_path / "records.parquet", tmp_path / "predictions"
        cases, origin = read_run(*folders, contexts=contexts)
        return score_cases(cases, Scoring(), origin).scores

    whole, part = decoded(), decoded("mn", "mw")
    assert not KEYS & set(whole["sn"]) and whole["mw"] == part["mw"]
    lateral = {"lateral_only_stated", "lateral_only_stated_without"}
    assert {key: part["mn"][key] for key in KEYS & set(part["mn"])} == dict(
        zip(sorted(lateral), (1, 0), strict=True)
    )
    assert set(part["mw"]) >= KEYS
    expected = {
        "persisting_stated": 0,
        "persisting_stated_without": 0,
        "new_stated": 1,
        "new_stated_without": 0,
    }
    expected |= {
        "prior_f1": 2 / 3,
        "prior_f1_without": 0,
        "prior_f1_itself": 1 / 2,
        "prior_f1_united": 2 / 5,
    }
    assert {key: whole["sw"][key] for key in expected} == pytest.approx(expected)

    reports = {f"{context}-1": report for context, (_, report, _) in STUDY.items()}
    foreign = score(records.select("record_id", "report", "prior_report"), reports)
    floors = {key: foreign.scores["all"][key] for key in KEYS & set(foreign.scores["all"])}
    assert floors == pytest.approx(
        {
            "persisting_stated": 0,
            "gone_stated": 0,
            "new_stated": 2 / 3,
            "prior_f1": 4 / 7,
            "prior_f1_itself": 4 / 9,
        }
    )


def true_findings(**present: list[str]) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "study_id": list(present),
            "subject_id": list(present),
            "split": "test",
            **{f: [f in names for names in present.values()] for f in FINDINGS},
            "lateral_only": [[] for _ in present],
            "prior_only": [names[:1] for names in present.values()],
            **{key: [[] for _ in present] for key in ("states", "boxes")},
        },
        schema=TRUTH_SCHEMA,
    )


def test_truth_is_read_by_study(tmp_path):
    path = tmp_path / "truth.parquet"
    true_findings(s1=["edema", "fracture"], s2=[]).write_parquet(path)
    found = with_truth(pl.DataFrame({"study_id": ["s2", "s1", "s1"]}), path)
    assert found["truth"].to_list() == [[], ["edema", "fracture"], ["edema", "fracture"]]
    with pytest.raises(DataError, match="study s3 and 1 more"):
        with_truth(pl.DataFrame({"study_id": ["s1", "s3", "s4"]}), path)


def test_scores_of_reports_and_of_controls(tmp_path):
    """Two studies with a fracture each, one with edema besides: the model finds two of three,
    without a source one."""
    edema = {"finding": "edema", "side": "bilateral", "severity": "mild", "course": "new"}
    latent = true_findings(s1=["edema", "fracture"], s2=["fracture"]).with_columns(
        pl.Series("states", [[edema], []], TRUTH_SCHEMA["states"])
    )
    latent.write_parquet(tmp_path / "truth.parquet")
    column = {name: OBSERVATIONS.index(OBSERVATION_OF[name]) for name in ("edema", "fracture")}
    without = np.zeros((2, 14), int)
    without[0, column["edema"]] = 1
    with_it = without.copy()
    with_it[1, column["fracture"]] = 3  # uncertain counts, and no finding is none
    with_it[1, OBSERVATIONS.index("No Finding")] = 1
    labels = {"hypothesis": with_it, "reference": with_it, "no_prior": without}
    texts = {"hypothesis": ["mild left edema , new .", "no fracture ."]}
    texts["no_prior_hypothesis"] = ["no edema .", "no fracture ."]
    cases = pl.DataFrame({"study_id": ["s1", "s2"], "context": "sw"} | texts).with_columns(
        pl.Series(f"{name}_labels", rows.tolist()) for name, rows in labels.items()
    )
    scores = truth_scores(with_truth(cases, tmp_path / "truth.parquet"))
    assert scores == pytest.approx(
        {
            "sw_f1": 4 / 5,
            "mean_f1": 4 / 5,
            "no_prior_f1": 2 / 4,
            "attributes_side": 0.0,
            "attributes_severity": 1.0,
            "attributes_course": 1.0,
        }
    )
