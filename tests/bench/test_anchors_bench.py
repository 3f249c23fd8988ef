"""The bench of the anchors' rules in miniature."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

from pacer.anchors.anchor import Anchor
from pacer.metrics.chexbert.observations import OBSERVATION_OF

pytestmark = pytest.mark.slow

BENCH = Path(__file__).resolve().parents[2] / "bench"


@pytest.fixture
def anchors(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("anchors")


def test_speed_and_size(anchors: ModuleType) -> None:
    lines, found = anchors.speed({"few": list(anchors.invented(12))}, 1)
    assert len(lines) == 4
    assert set(found) == {"rate", "faster"}
    lines, found = anchors.size(90)
    assert [line.split("|")[1].strip() for line in lines[2:-1]] == ["9", "90"]
    assert found["seconds"] > 0


def test_a_loop_that_reads_otherwise_is_refused(anchors: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anchors, "plain_anchor", lambda text: Anchor())
    with pytest.raises(anchors.Unequal, match="few: the plain loop gives other anchors"):
        anchors.speed({"few": list(anchors.invented(3))}, 1)


def test_agreement(anchors: ModuleType) -> None:
    empty = dict.fromkeys(
        (
            "Atelectasis",
            "Cardiomegaly",
            "Effusion",
            "Pneumonia",
            "Pneumothorax",
            "Consolidation",
            "Edema",
            "Pleural_Thickening",
            "Nodule",
            "Mass",
        ),
        0,
    )
    chexpert = dict.fromkeys(OBSERVATION_OF.values())
    rows = [
        {
            "findings": "Small effusion. No edema.",
            "impression": None,
            "gold14_mesh": empty | {"Effusion": 1},
            "chexpert14_auto": chexpert | {"Pleural Effusion": 1, "Edema": 0},
        },
        {"findings": None, "impression": "Nodule.", "gold14_mesh": empty, "chexpert14_auto": chexpert},
    ]
    lines, found = anchors.agreement(rows)
    assert found == {"positives": pytest.approx(2 / 3), "denials": 1.0}
    assert any(line.startswith("| micro (95 %) | 1 | **0.667**") for line in lines)
