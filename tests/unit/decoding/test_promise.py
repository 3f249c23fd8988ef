"""A promise on what reports state: it holds as often as it says, by simulation, and refuses with
numbers."""

import re

import numpy as np
import polars as pl
import pytest

from pacer.config.decode import Risk
from pacer.core.errors import DataError
from pacer.decoding.promise import ASYMPTOTIC, GRID, counts, make_promise, risk_test
from tests.support.cases import listed_cases

LEVEL = 0.1


@pytest.mark.parametrize(("patients", "limit", "low", "high"), listed_cases(__file__, "tests"))
def test_p_value(patients: list[list[int]], limit: float, low: float, high: float) -> None:
    errors, findings = zip(*(one for *one, number in patients for _ in range(number)), strict=True)
    assert low <= risk_test(np.array(errors), np.array(findings), limit, LEVEL, 0.9).p <= high


@pytest.mark.parametrize(
    ("report", "reference", "wrong", "missed"), listed_cases(__file__, "counts")
)
def test_counts(report: str, reference: str, wrong: list[int], missed: list[int]) -> None:
    counted = counts([report], [reference])
    assert counted["false_present"].tolist() == [wrong] and counted["missed"].tolist() == [missed]


def val(patients: int) -> pl.DataFrame:
    rows = [
        {"record_id": f"sn-{number}", "subject_id": f"p-{number}"} for number in range(patients)
    ]
    return pl.DataFrame(rows).with_columns(
        context=pl.lit("sn"), report_raw=pl.lit("There is edema.")
    )


def written(records: pl.DataFrame, wrong: dict[float, float]) -> dict[float, dict[str, str]]:
    """A report for each threshold: this share of them also affirms what is not there."""
    keys = records["record_id"].to_list()
    return {
        at: {
            key: "There is edema."
            + " There is a pneumothorax." * (place < wrong.get(at, 1.0) * len(keys))
            for place, key in enumerate(keys)
        }
        for at in GRID
    }


@pytest.mark.parametrize(
    ("promised", "wrong", "expected", "patients"), listed_cases(__file__, "thresholds")
)
def test_threshold_of_a_context(
    promised: dict, wrong: dict, expected: float | str, patients: int
) -> None:
    risk, records = Risk(**promised), val(patients)
    if isinstance(expected, str):
        with pytest.raises(DataError, match=expected):
            make_promise(risk, records, written(records, wrong))
    else:
        assert (
            make_promise(risk, records, written(records, wrong))["contexts"]["sn"]["threshold"]
            == expected
        )


def stated(
    records: pl.DataFrame, told: list[float], wrong: list[float]
) -> dict[float, dict[str, str]]:
    """A report for each threshold: the first patients have a finding, and a share of these also a
    wrong one."""
    keys, texts = records["record_id"].to_list(), ("No edema.", "Edema.", "Edema. Pneumothorax.")
    return {
        at: {
            key: texts[
                (place < round(share * len(keys))) + (place < round(share * mistaken * len(keys)))
            ]
            for place, key in enumerate(keys)
        }
        for at, share, mistaken in zip(GRID, told, wrong, strict=True)
    }


@pytest.mark.parametrize(("told", "wrong", "patients"), listed_cases(__file__, "refusals"))
def test_a_refusal_names_the_patients_that_are_enough(
    told: list[float], wrong: list[float], patients: int
) -> None:
    risk = Risk(false_present=0.2)
    with pytest.raises(DataError, match="sn: false_present") as refused:
        make_promise(risk, val(patients), stated(val(patients), told, wrong))
    (enough,) = map(int, re.findall(r"about (\d+) patients would be enough", str(refused.value)))
    assert enough > patients
    fewer, more = int(0.8 * enough), int(1.1 * enough)
    make_promise(risk, val(more), stated(val(more), told, wrong))
    with pytest.raises(DataError):
        make_promise(risk, val(fewer), stated(val(fewer), told, wrong))


def test_a_threshold_at_which_few_patients_have_a_finding_is_skipped() -> None:
    few = (ASYMPTOTIC - 1) / 200
    reports = stated(val(200), [few, few, 0.5, 0.7, 0.8, 0.9], [1.0, 0.0, 0.05, 0.05, 1.0, 0.05])
    promise = make_promise(Risk(false_present=0.2), val(200), reports)
    assert promise["contexts"]["sn"]["threshold"] == 0.6
    assert [test["told"] for test in promise["contexts"]["sn"]["tests"]["false_present"]][:3] == [
        49,
        49,
        100,
    ]
