"""The faults that are planted are those that their names say, and the tables say which scores show them."""

from __future__ import annotations

import importlib
import random
from pathlib import Path
from types import ModuleType

import pytest

from pacer.rules.extract import extract_anchor

REPORT = "there is a small left effusion. no pneumothorax is seen. the heart is enlarged."


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "bench"))
    return importlib.import_module("believe")


def test_a_fault_changes_what_the_rules_read_as_it_says(bench: ModuleType) -> None:
    own = extract_anchor(REPORT)
    assert set(own.positive) == {"pleural effusion", "cardiomegaly"} and own.negative == ("pneumothorax",)
    denied, dropped = extract_anchor(bench.denied(REPORT)), extract_anchor(bench.dropped(REPORT))
    assert denied.positive == ("cardiomegaly",) and "pleural effusion" in denied.negative
    assert dropped.positive == ("cardiomegaly",) and "pleural effusion" not in dropped.negative
    for seed in range(30):
        invented = extract_anchor(bench.invented(REPORT, random.Random(seed)))
        assert len(invented.positive) == 3 and set(own.positive) < set(invented.positive)
    assert bench.swapped(REPORT) == REPORT.replace("left", "right")
    words = bench.shuffled(REPORT, random.Random(0))
    assert words != REPORT and sorted(words.replace(".", "").split()) == sorted(REPORT.replace(".", "").split())
    for change in (bench.denied, bench.dropped, bench.swapped):
        assert change("no acute findings.") == "no acute findings."


def test_a_score_that_does_not_fall_with_the_truth_misses_the_fault(bench: ModuleType) -> None:
    def world(shift: float) -> dict:
        values = {"own": (0.8, 0.5), "other": (0.7, 0.4), "flipped": (0.6 + shift, 0.5), "blurred": (0.3, 0.1 + shift)}
        return {
            name: dict.fromkeys(bench.SCORES, blind) | {"f1": truth, bench.TRUTH: truth}
            for name, (truth, blind) in values.items()
        }

    judged = bench.judgements([world(0.0), world(0.01)], "own", ["flipped", "blurred"])
    lines = bench.table(judged, ["flipped", "blurred"]).splitlines()
    found = {line.split(" | ")[0].strip("| "): line for line in lines[2:]}
    assert found["BLEU-1"].endswith("| flipped |") and found["CheXbert's F1"].endswith("| none |")
    assert "1.00 (1.00 to 1.00)" in found["CheXbert's F1"]
    drawn = bench.chart(judged, ["flipped", "blurred"])
    assert all(f">{text}<" in drawn for text in ("BLEU-1", "flipped", "✗ +0 %", "rank correlation with the truth"))
