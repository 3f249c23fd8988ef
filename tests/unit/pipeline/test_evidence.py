"""The studies' tables in docs/evidence.md and docs/results.md, made by bench/evidence.py."""

from __future__ import annotations

import runpy
import sys
from typing import Any

import pytest

from tests.support.repository import ROOT


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    monkeypatch.delitem(sys.modules, "measuring", raising=False)
    return runpy.run_path(str(ROOT / "bench" / "evidence.py"))


def result(*apart: float, metric: str = "f1", interval: tuple[float, float] = (0.02, 0.04)) -> dict[str, Any]:
    """What two rows measured whose scores are ``apart`` by replicate."""
    base = {str(place): 0.5 for place in range(len(apart))}
    scores = {str(place): 0.5 + value for place, value in enumerate(apart)}
    rows = {"Base": {"mean": {metric: base}}, "PACER": {"mean": {metric: scores}}}
    difference = {"label": "PACER − Base", "metric": metric, "difference": 0.03, "p": 0.004, "over": "patients"}
    return {"rows": rows, "differences": [difference | dict(zip(("low", "high"), interval, strict=True))]}


@pytest.mark.parametrize(
    ("metric", "apart", "interval", "mark"),
    [
        ("f1", (0.03, 0.02), (0.02, 0.04), "✓"),
        ("f1", (0.03, -0.01), (0.02, 0.04), "?"),  # a replicate disagrees
        ("f1", (0.03, 0.02), (-0.02, 0.04), "?"),
        ("f1", (0.001, 0.002), (-0.01, 0.009), "✗"),  # too small to matter
        ("bleu4", (0.001, 0.002), (-0.01, 0.009), "?"),
        ("f1", (-0.03, -0.02), (-0.04, -0.02), "✗"),
        ("contradiction_rate", (-0.03, -0.02), (-0.04, -0.02), "✓"),
        ("contradiction_rate", (0.03, 0.02), (0.02, 0.04), "✗"),
    ],
)
def test_answer(
    bench: dict[str, Any], metric: str, apart: tuple[float, ...], interval: tuple[float, float], mark: str
) -> None:
    found = result(*apart, metric=metric, interval=interval)
    assert bench["mark"](found, found["differences"][0]) == mark


def test_tables(bench: dict[str, Any]) -> None:
    found = result(0.03, 0.01)
    assert bench["rows"](found)[2:4] == ["| Base | .500 ± .000 |", "| PACER | .520 ± .014 |"]
    assert bench["differences"](found)[2] == "| PACER − Base | +.030 (+.020 to +.040) ✓ .004 |"


def test_a_row_stands_with_all_its_differences(bench: dict[str, Any]) -> None:
    found = result(0.03, 0.01)
    found["differences"].append(found["differences"][0] | {"label": "PACER − Refine only", "difference": -0.01})
    found["rows"]["Refine only"] = found["rows"]["Base"]
    last = bench["gains"](found)[3]
    assert last.endswith(
        "| .530, .510 | Base: +.030 (+.020 to +.040) ✓ .008; Refine only: −.010 (+.020 to +.040) ✓ .008 |"
    )


def test_scores_by_context(bench: dict[str, Any]) -> None:
    row = {name: {"f1": {"42": value, "43": value + 0.02}} for name, value in (("sn", 0.5), ("sw", 0.7), ("mean", 0.6))}
    row["mean"] |= {"bleu4": {"42": 0.1}, "truth": {"42": 0.4}}
    row["sn"] |= {bench["UNFOUNDED"]: {"42": 0.94}, "gate": {"42": 0.0}}
    head, _, line, _ = bench["contexts"]({"rows": {"frozen": row}})
    assert "F1 (sn sw)" in head and "unfounded (sn)" in head
    assert line == "| frozen | .610 (.51 .71) | .100 | .400 | .00 | .94 |"


def test_what_the_previous_report_contributes_is_paired(bench: dict[str, Any]) -> None:
    scores = {"prior_f1": {"1": 0.7, "2": 0.8, "3": 0.9}}
    scores |= {key: {"1": 0.6, "2": 0.7, "3": 0.8} for key in bench["PREVIOUS"].values()}
    table = bench["previous"]({"rows": {"PACER": {"mean": {}, "sn": {"f1": {"1": 0.5}}, "mw": scores}}})
    assert len(table) == 4
    assert table[2].startswith("| PACER, mw | .800 ± .100 | .700 ± .100 | +.100 |")


def test_tables_of_the_pages_are_those_of_the_committed_files(bench: dict[str, Any]) -> None:
    for page in bench["PAGES"]:
        text = (ROOT / page).read_text(encoding="utf-8")
        assert bench["with_tables"](text) == text, "run `python bench/evidence.py`"


def test_charts_are_those_of_the_committed_files(bench: dict[str, Any]) -> None:
    for study, path in bench["CURVES"].items():
        assert bench["curve"](study) == (ROOT / path).read_text(encoding="utf-8"), "run `python bench/evidence.py`"
