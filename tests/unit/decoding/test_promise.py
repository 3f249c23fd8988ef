"""A promise on what reports state: it holds as often as it says, by simulation, and refuses with numbers."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from pacer.config.decode import Risk
from pacer.core.errors import DataError
from pacer.decoding.promise import GRID, counts, make_promise, risk_test

LEVEL = 0.1


TESTS = [  # errors and findings of each patient, share promised, p: by hand, or its bounds
    ([0] * 49, [5] * 49, 0.2, 1.0, 1.0),  # fewer patients than the test needs
    ([0] * 60, [5] * 60, 0.2, 0.0, 1e-9),
    ([0] * 60, [5] * 60, 0.01, 0.5, 1.0),  # no error, but too few patients for so small a share
    # losses -1 and 4 of 50 and 10 patients and 4 of one more: mean -6/61, deviation 1.938, skewness 1.6228, t = -.3964;
    # t + .2078 t²/3 + .2078² t³/27 + .2078/6 = -0.3510 with 60 df, where .2078 is the skewness over the root of 61
    ([0] * 50 + [5] * 10, [5] * 60, 0.2, 0.3634, 0.3635),
]


@pytest.mark.parametrize(("errors", "findings", "limit", "low", "high"), TESTS)
def test_p_value(errors: list[int], findings: list[int], limit: float, low: float, high: float) -> None:
    assert low <= risk_test(np.array(errors), np.array(findings), limit, LEVEL, 0.9).p <= high


COUNTS = [  # report, reference, wrong and stated, missed and there
    ("There is edema.", "There is edema.", (0, 1), (0, 1)),
    ("There is edema. There is a pneumothorax.", "There is edema.", (1, 2), (0, 1)),
    ("No edema.", "There is edema.", (0, 0), (1, 1)),
    ("There may be edema.", "No edema.", (0, 0), (0, 0)),
]


@pytest.mark.parametrize(("report", "reference", "wrong", "missed"), COUNTS)
def test_counts(report: str, reference: str, wrong: tuple[int, int], missed: tuple[int, int]) -> None:
    counted = counts([report], [reference])
    assert tuple(counted["false_present"][0]) == wrong and tuple(counted["missed"][0]) == missed


def val(patients: int) -> pl.DataFrame:
    ids = [f"sn-{number}" for number in range(patients)]
    return pl.DataFrame(
        {
            "record_id": ids,
            "context": "sn",
            "subject_id": [key.replace("sn", "p") for key in ids],
            "report_raw": "There is edema.",
        }
    )


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


CHOSEN = [  # promises, wrong share by threshold, threshold or the refusal, patients
    (Risk(false_present=0.2), {0.9: 0.0, 0.8: 0.1, 0.7: 0.1}, 0.7, 200),
    (Risk(false_present=0.2), {0.9: 0.0, 0.7: 0.0}, 0.9, 200),  # the sequence ends where a test fails
    (Risk(false_present=0.2, missed=0.2), {0.9: 0.0, 0.8: 0.1}, 0.8, 200),
    (Risk(missed=0.2), {}, 0.9, 200),
    (Risk(false_present=0.2), {0.9: 0.1}, "20 patients, 2 of 22 .* about 50 patients would do", 20),
    (Risk(false_present=0.2), {}, "exceeds the promised share at every threshold", 200),
]


@pytest.mark.parametrize(("risk", "wrong", "expected", "patients"), CHOSEN)
def test_threshold_of_a_context(risk: Risk, wrong: dict, expected: float | str, patients: int) -> None:
    records = val(patients)
    if isinstance(expected, str):
        with pytest.raises(DataError, match=expected):
            make_promise(risk, records, written(records, wrong))
    else:
        assert make_promise(risk, records, written(records, wrong))["contexts"]["sn"]["threshold"] == expected
