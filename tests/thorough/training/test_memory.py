"""What saves memory in training changes nothing of what is learnt."""

from pathlib import Path
from typing import Any

import pytest

from pacer.model.pacer import Pacer
from tests.support import drive
from tests.support.models import MODEL

PHASES = ("warmup", "parent", "calibrate")


def test_checkpointing_changes_no_bit(backbones: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With dropout in all parts, and two micro-batches an update: weights and logged values of the three phases."""
    blocks: list[list[int]] = []
    enable = Pacer.checkpoint_blocks

    def counted(model: Pacer) -> None:
        counts = [0 for _ in model.language.model.layers]
        blocks.append(counts)
        for place, block in enumerate(model.language.model.layers):
            block.self_attn.register_forward_hook(lambda *_, place=place: counts.__setitem__(place, counts[place] + 1))
        enable(model)

    monkeypatch.setattr(Pacer, "checkpoint_blocks", counted)
    done: dict[str, list[dict[str, Any]]] = {}
    for switch in ("off", "on"):
        groups = {name: {"accumulation": 2} for name in PHASES}
        params = drive.parameters(MODEL, train={"checkpointing": switch}, **groups)
        folder = tmp_path / switch
        folder.mkdir()
        inputs, done[switch] = drive.write_inputs(folder, backbones, params), []
        for name in PHASES:
            done[switch].append(drive.job(name, params, inputs, folder / name))
            drive.perform(done[switch][-1])
    for off, on in zip(done["off"], done["on"], strict=True):
        assert drive.logged(on) == drive.logged(off) and drive.logged(on)[-1][0] >= 1
        assert drive.weights(on) == drive.weights(off)
    # the first of two blocks once more for each micro-batch, and neither the teacher's pass nor a validation's
    assert [first - last for first, last in blocks] == [2 * getattr(params, name).updates for name in PHASES]
