"""Twins of records: what is exchanged belongs to another patient, and nothing else changes."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacer.core.contexts import availability
from pacer.core.errors import DataError
from pacer.data.twins import INPUTS, another_patient, exchange, without
from tests.support.made_records import few_records

RECORDS = few_records(".jpg")


@given(st.data(), st.integers(0, 5))
def test_exchanged_inputs_are_of_another_patient(data: st.DataObject, seed: int) -> None:
    patients = data.draw(st.lists(st.sampled_from("abcde"), min_size=len(RECORDS), max_size=len(RECORDS)))
    records = RECORDS.with_columns(subject_id=pl.Series(patients), frontal=pl.col("record_id"))
    owner = dict(records.select("record_id", "subject_id").iter_rows())
    context = dict(records.select("record_id", "context").iter_rows())
    twins = exchange(records, ["frontal"], ["context"], seed)
    for record_id, frontal in twins.select("record_id", "frontal").iter_rows():
        assert owner[record_id] != owner[frontal] and context[record_id] == context[frontal]
    others = records.filter(pl.col("record_id").is_in(twins["record_id"].to_list())).drop("frontal")
    assert twins.drop("frontal").sort("record_id").equals(others.sort("record_id"))
    assert sorted(twins["frontal"]) == sorted(twins["record_id"])  # each given once
    for (name,), part in records.group_by("context"):
        most = max(part["subject_id"].value_counts()["count"].to_list())
        assert (name in twins["context"].to_list()) == (2 * most <= len(part))


def test_a_seed_chooses_other_donors() -> None:
    first, again, other = (exchange(RECORDS, ["frontal"], ["context"], seed) for seed in (0, 0, 1))
    assert first.equals(again) and not first.sort("record_id").equals(other.sort("record_id"))


def test_another_patient_refuses_a_crowd_of_one() -> None:
    assert set(another_patient(RECORDS).columns) == set(RECORDS.columns) and "view" in INPUTS
    with pytest.raises(DataError, match="context mn: one patient has 8 of 8 records"):
        of_one = pl.when(context="mn").then(pl.lit("p0")).otherwise("subject_id")
        another_patient(RECORDS.with_columns(subject_id=of_one))


@pytest.mark.parametrize("source", ["lateral", "prior_report"])
def test_without_a_source(source: str) -> None:
    twins = without(source, RECORDS)
    assert len(twins) == len(RECORDS) / 2 and twins[source].null_count() == len(twins)
    for context, record_id in twins.select("context", "record_id").iter_rows():
        lateral, prior = availability(record_id[:2])
        assert availability(context) == (lateral and source != "lateral", prior and source != "prior_report")
