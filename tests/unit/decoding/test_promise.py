"""A promise on what reports state: it holds as often as it says, by simulation, and refuses with numbers."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from pacer.config.decode import Risk
from pacer.core.errors import DataError
from pacer.decoding.promise import GRID, counts, make_promise, risk_test
from tests.support.cases import listed_cases

LEVEL = 0.1


@pytest.mark.parametrize(("patients", "limit", "low", "high"), listed_cases(__file__, "tests"))
def test_p_value(patients: list[list[int]], limit: float, low: float, high: float) -> None:
    errors, findings = zip(*(one for *one, number in patients for _ in range(number)), strict=True)
    assert low <= risk_test(np.array(errors), np.array(findings), limit, LEVEL, 0.9).p <= high


@pytest.mark.parametrize(("report", "reference", "wrong", "missed"), listed_cases(__file__, "counts"))
def test_counts(report: str, reference: str, wrong: list[int], missed: list[int]) -> None:
    counted = counts([report], [reference])
    assert counted["false_present"].tolist() == [wrong] and counted["missed"].tolist() == [missed]


def val(patients: int) -> pl.DataFrame:
    rows = [{"record_id": f"sn-{number}", "subject_id": f"p-{number}"} for number in range(patients)]
    return pl.DataFrame(rows).with_columns(context=pl.lit("sn"), report_raw=pl.lit("There is edema."))


def written(records: pl.DataFrame, wrong: dict[float, float]) -> dict[float, dict[str, str]]:
    """A report for each threshold: this share of them also affirms what is not there."""
    keys = records["record_id"].to_list()
    return {
        at: {
            key: "There is edema." + " There is a pneumothorax." * (place < wrong.get(at, 1.0) * len(keys))
            for place, key in enumerate(keys)
        }
        for at in GRID
    }


@pytest.mark.parametrize(("promised", "wrong", "expected", "patients"), listed_cases(__file__, "thresholds"))
def test_threshold_of_a_context(promised: dict, wrong: dict, expected: float | str, patients: int) -> None:
    risk, records = Risk(**promised), val(patients)
    if isinstance(expected, str):
        with pytest.raises(DataError, match=expected):
            make_promise(risk, records, written(records, wrong))
    else:
        assert make_promise(risk, records, written(records, wrong))["contexts"]["sn"]["threshold"] == expected
