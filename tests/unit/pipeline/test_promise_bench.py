"""What bench/promise.py keeps of each dataset, and what it reads from it."""

import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pacer.core.io import read_json
from tests.support.repository import ROOT


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    monkeypatch.delitem(sys.modules, "openi", raising=False)
    return runpy.run_path(str(ROOT / "bench" / "promise.py"))


def sums(rates: dict[float, float], patients: int = 300) -> dict[float, np.ndarray]:
    """Errors and findings of patients who have ten findings each, of which a share is wrong at each threshold."""
    draw = np.random.default_rng(0)
    return {at: np.stack([draw.binomial(10, rate, patients), np.full(patients, 10)], 1) for at, rate in rates.items()}


def test_a_dataset_is_read_as_it_was_counted(bench: dict[str, Any], tmp_path: Path) -> None:
    counted = {context: sums(dict.fromkeys(bench["GRID"], 0.1), 7) for context in ("sn", "mw")}
    bench["write_sums"](counted, tmp_path / "1.parquet")
    read = bench["read_sums"](tmp_path / "1.parquet")
    assert [*read] == [*counted] and [*read["sn"]] == [*bench["GRID"]]
    for context, by_threshold in counted.items():
        for at, values in by_threshold.items():
            np.testing.assert_array_equal(read[context][at], values)


def test_the_lowest_threshold_that_passes_is_promised(bench: dict[str, Any]) -> None:
    rates = {at: 0.1 if at >= 0.6 else 0.4 for at in bench["GRID"]}
    assert bench["chosen"](sums(rates)) == 0.6
    assert bench["chosen"](sums(dict.fromkeys(rates, 0.4))) is None
    given, refused = (bench["promised"](sums(one), sums(rates)) for one in (rates, dict.fromkeys(rates, 0.4)))
    assert given.threshold == 0.6 and given.excess == pytest.approx(-0.1, abs=0.02)
    assert refused.threshold is None and refused.excess == float("-inf")


def test_shares_of_promises_that_were_never_given_are_empty(
    bench: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["promise.py", "work"])
    main = bench["main"]
    main.__globals__.update(restored=lambda *_: [], SPLITS=2)
    for name in ("1", "2"):
        bench["write_sums"]({"sn": sums(dict.fromkeys(bench["GRID"], 0.9))}, bench["OUT"] / f"{name}.parquet")
    main()
    for datasets in read_json(tmp_path / "bench/results/promise.json").values():
        assert datasets == [[0.0, None, None, 0.0, 0.0, None]] * 2
