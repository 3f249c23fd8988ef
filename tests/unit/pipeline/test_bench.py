"""What the benches compute: marks and tables of studies, the range of the default profile, promises by dataset."""

import sys
from pathlib import Path
from typing import Any

import evidence
import expected
import numpy as np
import promise
import pytest

from pacer.core.io import read_json
from tests.support.cases import listed_cases
from tests.support.repository import ROOT


def result(*apart: float, metric: str = "f1", interval: tuple[float, float] = (0.02, 0.04)) -> dict[str, Any]:
    """What two rows measured whose scores are ``apart`` by replicate."""
    base = {str(place): 0.5 for place in range(len(apart))}
    scores = {str(place): 0.5 + value for place, value in enumerate(apart)}
    rows = {"Base": {"mean": {metric: base}}, "PACER": {"mean": {metric: scores}}}
    difference = {"label": "PACER − Base", "metric": metric, "difference": 0.03, "p": 0.004, "over": "patients"}
    return {"rows": rows, "differences": [difference | dict(zip(("low", "high"), interval, strict=True))]}


@pytest.mark.parametrize(("metric", "apart", "interval", "mark"), listed_cases(__file__, "marks"))
def test_answer(metric: str, apart: list[float], interval: tuple[float, float], mark: str) -> None:
    found = result(*apart, metric=metric, interval=interval)
    assert evidence.mark(found, found["differences"][0]) == mark


def test_tables() -> None:
    found = result(0.03, 0.01)
    assert evidence.rows(found)[2:4] == ["| Base | .500 ± .000 |", "| PACER | .520 ± .014 |"]
    assert evidence.differences(found)[2] == "| PACER − Base | +.030 (+.020 to +.040) ✓ .004 |"
    found["differences"].append(found["differences"][0] | {"label": "PACER − Refine only", "difference": -0.01})
    found["rows"]["Refine only"] = found["rows"]["Base"]
    gains = "| .530, .510 | Base: +.030 (+.020 to +.040) ✓ .008; Refine only: −.010 (+.020 to +.040) ✓ .008 |"
    assert evidence.gains(found)[3].endswith(gains)


def test_scores_by_context() -> None:
    row = {name: {"f1": {"42": value, "43": value + 0.02}} for name, value in (("sn", 0.5), ("sw", 0.7), ("mean", 0.6))}
    row["mean"] |= {"bleu4": {"42": 0.1}, "truth": {"42": 0.4}}
    row["sn"] |= {evidence.UNFOUNDED: {"42": 0.94}, "gate": {"42": 0.0}}
    head, _, line, _ = evidence.contexts({"rows": {"frozen": row}})
    assert "F1 (sn sw)" in head and "unfounded (sn)" in head
    assert line == "| frozen | .610 (.51 .71) | .100 | .400 | .00 | .94 |"


def test_what_the_previous_report_contributes_is_paired() -> None:
    scores = {"prior_f1": {"1": 0.7, "2": 0.8, "3": 0.9}}
    scores |= {key: {"1": 0.6, "2": 0.7, "3": 0.8} for key in evidence.PREVIOUS.values()}
    table = evidence.previous({"rows": {"PACER": {"mean": {}, "sn": {"f1": {"1": 0.5}}, "mw": scores}}})
    assert len(table) == 4
    assert table[2].startswith("| PACER, mw | .800 ± .100 | .700 ± .100 | +.100 |")


def test_a_run_is_placed_by_the_range() -> None:
    seen = {"low": 0.653, "high": 0.68, "seeds": [42, 43, 44], "processors": 3}
    places = {0.6526: "0.653 matches", 0.6521: "0.652 is below", 0.69: "0.690 is above"}
    assert all(words in expected.verdict(f1, 42, seen) for f1, words in places.items())
    other = expected.verdict(0.66, 7, seen)
    assert "this run: seed 7" in other and "0.653 to 0.680 (seeds 42, 43, 44" in other


def test_other_parameters_are_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed = (ROOT / "configs" / "phantom.yaml").read_text(encoding="utf-8")
    files = {"configs/phantom.yaml": committed, "metrics/scores.json": '{"mean": {"f1": 0.66}}'}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(expected, "ROOT", tmp_path)
    for changed, said in ((committed, True), (committed.replace("rank: 16", "rank: 4", 1), False)):
        (tmp_path / "params.yaml").write_text(changed.replace("seed: 42", "seed: 43"))
        expected.main()
        assert bool(capsys.readouterr().out) == said


def sums(rates: dict[float, float], patients: int = 300) -> dict[float, np.ndarray]:
    """Errors and findings of patients who have ten findings each, of which a share is wrong at each threshold."""
    draw = np.random.default_rng(0)
    return {at: np.stack([draw.binomial(10, rate, patients), np.full(patients, 10)], 1) for at, rate in rates.items()}


def test_a_dataset_is_read_as_it_was_counted(tmp_path: Path) -> None:
    counted = {context: sums(dict.fromkeys(promise.GRID, 0.1), 7) for context in ("sn", "mw")}
    promise.write_sums(counted, tmp_path / "1.parquet")
    read = promise.read_sums(tmp_path / "1.parquet")
    assert [*read] == [*counted] and [*read["sn"]] == [*promise.GRID]
    for context, by_threshold in counted.items():
        for at, values in by_threshold.items():
            np.testing.assert_array_equal(read[context][at], values)


def test_the_lowest_threshold_that_passes_is_promised() -> None:
    rates = {at: 0.1 if at >= 0.6 else 0.4 for at in promise.GRID}
    assert promise.chosen(sums(rates)) == 0.6
    assert promise.chosen(sums(dict.fromkeys(rates, 0.4))) is None
    given, refused = (promise.promised(sums(one), sums(rates)) for one in (rates, dict.fromkeys(rates, 0.4)))
    assert given.threshold == 0.6 and given.excess == pytest.approx(-0.1, abs=0.02)
    assert refused.threshold is None and refused.excess == float("-inf")


def test_shares_of_promises_that_were_never_given_are_empty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["promise.py", "work"])
    monkeypatch.setattr(promise, "restored", lambda *_: [])
    monkeypatch.setattr(promise, "SPLITS", 2)
    for name in ("1", "2"):
        promise.write_sums({"sn": sums(dict.fromkeys(promise.GRID, 0.9))}, promise.OUT / f"{name}.parquet")
    promise.main()
    for datasets in read_json(tmp_path / "bench/results/promise.json").values():
        assert datasets == [[0.0, None, None, 0.0, 0.0, None]] * 2
