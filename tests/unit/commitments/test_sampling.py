"""The stratified sample: size, strata, independence of order, and no held-out record."""

import polars as pl
import pytest

from pacer.commitments.sampling import SAMPLE_SCHEMA, STRATA, sample_records
from pacer.core.errors import DataError


def test_size_schema_and_split(records: pl.DataFrame) -> None:
    sample = sample_records(records, 20, seed=3)
    assert dict(sample.schema) == SAMPLE_SCHEMA
    assert sample.group_by("context").len().sort("context").rows() == [("mw", 12), ("sn", 20)]
    chosen = records.join(sample, on="record_id", how="semi")
    assert set(chosen["split"]) == {"train"}
    assert sample["record_id"].n_unique() == 32


def test_function_of_seed_and_records_not_of_their_order(records: pl.DataFrame) -> None:
    sample = sample_records(records, 20, seed=3)
    assert sample_records(records.reverse(), 20, seed=3).equals(sample)
    assert not sample_records(records, 20, seed=4).equals(sample)
    assert sample_records(records, 0, seed=3).height == 0


def test_strata_name_what_a_report_shows(records: pl.DataFrame) -> None:
    sample = sample_records(records, 40, seed=3).join(records.select("record_id", "report_raw"), on="record_id")
    strata = {row["report_raw"]: set(row["strata"]) for row in sample.iter_rows(named=True)}
    assert strata == {
        "Possible pneumonia. No effusion.": {"uncertainty", "negation", "common_findings"},
        "Right PICC. Heart size is normal.": {"devices"},
        "Unchanged small left effusion.": {"common_findings", "temporal_comparison"},
        "Lungs clear.": set(),
    }


def test_rare_strata_are_emphasised(records: pl.DataFrame) -> None:
    """Ten of forty reports show nothing of interest; they come last."""
    sample = sample_records(records, 20, seed=3).filter(context="sn")
    assert sample.filter(pl.col("strata").list.len() == 0).height == 0
    for stratum in STRATA:
        assert sample.filter(pl.col("strata").list.contains(stratum)).height >= 4


@pytest.mark.parametrize("column", ["study_id", "subject_id"])
def test_held_out_study_or_subject_is_refused(records: pl.DataFrame, column: str) -> None:
    leak = pl.when(pl.col("record_id") == "sn-train0sn").then(pl.lit(f"{column[:-3]}-test1sn"))
    leaked = records.with_columns(leak.otherwise(column).alias(column))
    with pytest.raises(DataError, match=f"1 {column}s in the labelling sample also occur in val or test"):
        sample_records(leaked, 40, seed=3)
