"""The controls of decoding: another patient's inputs, and a source left out."""

import polars as pl
import pytest

from pacer.core.contexts import availability
from pacer.core.errors import DataError
from pacer.decoding.controls import INPUTS, another_patient, without
from tests.support.made_records import few_records

RECORDS = few_records(".jpg")


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
        assert availability(context) == (
            lateral and source != "lateral",
            prior and source != "prior_report",
        )
