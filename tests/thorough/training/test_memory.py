"""What saves memory in training: it changes nothing of what is learnt, and it does save."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from pacer.core.errors import ConfigError
from pacer.model.pacer import Pacer
from tests.support import drive
from tests.support.models import MODEL

PHASES = ("warmup", "parent", "calibrate")
STARTS = {"warmup": None, "parent": "warmup", "calibrate": "parent"}


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
            start = None if STARTS[name] is None else str(folder / STARTS[name])
            done[switch].append(drive.job(name, params, inputs, folder / name, start=start))
            drive.perform(done[switch][-1])
    for off, on in zip(done["off"], done["on"], strict=True):
        assert drive.logged(on) == drive.logged(off) and drive.logged(on)[-1][0] >= 1
        assert drive.weights(on) == drive.weights(off)
    # the first of two blocks once more for each micro-batch, and neither the teacher's pass nor a validation's
    assert [first - last for first, last in blocks] == [2 * getattr(params, name).updates for name in PHASES]


@pytest.mark.parametrize("phase", PHASES)
def test_checkpointing_keeps_little_of_a_block(phase: str, setting) -> None:
    model, examples = setting(phase)
    batch = examples.batch(examples.table.rows("train", ("sn",))["sn"][:4], [False] * 4, 0.35)

    def kept() -> int:
        inputs = model.embed(batch, frontal_only=phase == "warmup").inputs.requires_grad_()
        sizes: dict[int, int] = {}

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            hidden = model.hidden(inputs)
        del hidden
        return sum(sizes.values())

    before = kept()
    model.checkpoint_blocks()
    assert kept() < 0.6 * before  # of two blocks one keeps its input alone


def test_attention_goes_by_transformers_names(setting) -> None:
    model, examples = setting("parent")
    model.eval()
    batch = examples.batch(examples.table.rows("train", ("mw",))["mw"][:4], [False] * 4, 0.35)
    with torch.no_grad():
        inputs = model.embed(batch).inputs
        usual = model.hidden(inputs)[batch.predicting]
        model.set_attention("eager")
        eager = model.hidden(inputs)[batch.predicting]
    assert model.language.config._attn_implementation == "eager"
    assert not torch.equal(usual, eager)  # it was another implementation
    torch.testing.assert_close(eager, usual, rtol=1e-4, atol=1e-5)


def test_an_attention_that_is_not_installed_is_refused(setting) -> None:
    model, _ = setting("parent")
    with pytest.raises(ConfigError, match=r"train.attention = flash_attention_2 cannot be used here: .*; use sdpa"):
        model.set_attention("flash_attention_2")


def test_flash_attention_in_single_precision_is_refused(setting, monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = setting("parent")
    monkeypatch.setattr(model.language, "set_attn_implementation", lambda name: None)
    with pytest.raises(ConfigError, match=r"computes in half precision, and the language model is torch.float32"):
        model.set_attention("flash_attention_2")
