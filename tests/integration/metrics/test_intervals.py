"""Intervals of a run's scores: around the scores of the table, and as wide as an independent bootstrap says."""

import numpy as np
import polars as pl
import pytest
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.rouge.rouge import Rouge
from sklearn.metrics import f1_score, precision_score, recall_score

from pacer.metrics.chexbert.observations import OBSERVATIONS
from pacer.metrics.commitments import states
from pacer.metrics.nlg import meteor, meteor_statistics
from pacer.metrics.statistics.intervals import label_intervals, resampled_units, score_intervals
from tests.support.metrics import made_cases

SIDES = ("reference", "hypothesis")


@pytest.fixture
def cases(quick_meteor) -> pl.DataFrame:
    return made_cases(3, 0.5)


def micro(cases: pl.DataFrame, columns: slice) -> tuple[float, float, float]:
    truth, found = (np.isin(np.array(cases[f"{side}_labels"].to_list()), (1, 3))[:, columns] for side in SIDES)
    return tuple(score(truth.ravel(), found.ravel()) for score in (precision_score, recall_score, f1_score))


def test_the_values_are_the_scores_of_the_reference_packages(cases: pl.DataFrame):
    found = score_intervals(cases, "llm-rg4", resamples=200)
    assert (found.unit, found.units) == ("subject", 12) and list(found.scores) == ["sn", "mw", "mean"]
    for context in ("sn", "mw"):
        own = cases.filter(context=context)
        scores = found.scores[context]
        assert [scores[name].value for name in ("precision", "recall", "f1")] == pytest.approx(micro(own, slice(None)))
        pairs = [{place: [text] for place, text in enumerate(own[side])} for side in SIDES]
        bleu = [scores[f"bleu{order}"].value for order in range(1, 5)]
        assert bleu == pytest.approx(Bleu(4).compute_score(*pairs, verbose=0)[0])
        assert scores["rougeL"].value == pytest.approx(Rouge().compute_score(*pairs)[0])
        assert scores["meteor"].value == meteor(meteor_statistics(own["meteor_statistics"].to_list()).sum(axis=0))
        for state, name in enumerate(("positive", "negative")):
            both = ((states(own, side) == state).ravel() for side in ("reference", "report"))
            assert scores[f"report_{name}_f1"].value == pytest.approx(f1_score(*both))
    for scores in found.scores.values():
        assert all(one.low <= one.value <= one.high and one.low < one.high for one in scores.values())


def test_each_observation_over_all_contexts_and_in_each(cases: pl.DataFrame):
    found = {one.name: one for one in label_intervals(cases, "llm-rg4", resamples=200)}
    assert set(found) == set(OBSERVATIONS)
    for name, one in found.items():
        column = OBSERVATIONS.index(name)
        only = slice(column, column + 1)
        assert [one.scores[key].value for key in ("precision", "recall", "f1")] == pytest.approx(micro(cases, only))
        assert one.f1["mw"] == pytest.approx(micro(cases.filter(context="mw"), only)[2])
        counted = [np.isin(np.array(cases[f"{side}_labels"].to_list())[:, column], (1, 3)).sum() for side in SIDES]
        assert [one.present, one.predicted] == counted
    assert [*found] == sorted(found, key=lambda name: -found[name].present)
    nobody = cases.with_columns(reference_labels=pl.lit([0] * 14), hypothesis_labels=pl.lit([0] * 14))
    none = label_intervals(nobody, "llm-rg4", resamples=5)
    assert all(one.scores["f1"].value is None and set(one.f1.values()) == {None} for one in none)


def test_the_unit_is_the_coarsest_that_is_known(cases: pl.DataFrame):
    assert resampled_units(cases)[0] == "subject"
    assert resampled_units(cases.drop("subject_id"))[0] == "study"
    assert resampled_units(cases.with_columns(subject_id=pl.lit(None), study_id=pl.lit(" ")))[0] == "record"
