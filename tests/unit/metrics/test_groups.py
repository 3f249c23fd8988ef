"""Groups of records: their F1 and its interval."""

import numpy as np
import polars as pl
import pytest

from pacer.metrics.statistics.bootstrap import LEAST_UNITS
from pacer.metrics.statistics.intervals import GroupScore, group_scores
from pacer.reporting.score_tables import group_table
from tests.support.metrics import efficacy

VIEWS = ("AP", "PA", "other")


@pytest.fixture
def cases() -> pl.DataFrame:
    """Patients with two examinations in two contexts; some patients are harder than others."""
    draw = np.random.default_rng(0)
    rows = []
    for patient in range(60):
        hard, sex = draw.uniform(0.05, 0.4), str(draw.choice(["F", "M"]))
        for study in range(2):
            labels = (draw.random(14) < 0.3).astype(int)
            view = str(draw.choice(VIEWS))
            for context in ("sn", "mw"):
                found = np.where(draw.random(14) < hard, draw.random(14) < 0.3, labels).astype(int)
                rows.append(
                    {"record_id": f"{context}-{patient}-{study}", "context": context, "study_id": f"{patient}-{study}"}
                    | {"subject_id": str(patient), "view": view, "sex": sex}
                    | {"reference_labels": labels.tolist(), "hypothesis_labels": found.tolist()}
                )
    return pl.DataFrame(rows)


def by_group(cases: pl.DataFrame, convention: str = "llm-rg4", resamples: int = 50) -> dict[tuple, GroupScore]:
    return {(one.column, one.value): one for one in group_scores(cases, convention, ["sex"], resamples)}


@pytest.mark.parametrize("convention", ["llm-rg4", "weighted"])
def test_values_are_the_scores_of_the_groups_records(cases: pl.DataFrame, convention: str) -> None:
    found = by_group(cases, convention)
    assert set(found) == {("sex", "F"), ("sex", "M"), *(("view", view) for view in VIEWS)}
    for (column, value), one in found.items():
        members = cases.filter(pl.col(column) == value)
        expected = efficacy(members["reference_labels"].to_list(), members["hypothesis_labels"].to_list(), convention)
        assert one.n == len(members) and one.f1.value == pytest.approx(expected["f1"])
        assert one.f1.low <= one.f1.value <= one.f1.high


def test_intervals_are_those_of_a_bootstrap_over_patients(cases: pl.DataFrame) -> None:
    draw, one = np.random.default_rng(0), by_group(cases, resamples=500)["view", "PA"].f1
    labels = [np.array(cases[f"{side}_labels"].to_list()) for side in ("reference", "hypothesis")]
    patient, shown = cases["subject_id"].to_numpy().astype(int), (cases["view"] == "PA").to_numpy()
    rows = [np.flatnonzero((patient == number) & shown) for number in range(60)]
    samples = (np.concatenate([rows[number] for number in draw.integers(0, 60, 60)]) for _ in range(200))
    drawn = [efficacy(*(side[sample] for side in labels), "llm-rg4")["f1"] for sample in samples]
    assert (one.high - one.low) / 4 == pytest.approx(np.std(drawn), rel=0.15)


def test_small_groups_and_unknown_values(cases: pl.DataFrame) -> None:
    place = pl.int_range(pl.len())
    rare = pl.when(place < 4).then(pl.lit("rare")).when(place >= 40).then(pl.lit("usual"))
    found = by_group(cases.with_columns(sex=rare, view=pl.lit("PA")))
    assert found["sex", "rare"].n == 4 < LEAST_UNITS
    assert found["sex", "rare"].f1.value is not None and found["sex", "rare"].f1.low is None
    assert found["sex", "usual"].n == len(cases) - 40, "records without a value stand in neither group"
    assert {column for column, _ in found} == {"sex"}, "one value is no group"
    table = group_table(list(found.values()))
    assert table.rows[-2][:3] == ("sex", "rare", "4") and table.rows[-2][-1] == ""
