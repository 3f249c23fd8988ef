"""The frozen language model in 4 bits; without bitsandbytes it is refused."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch
from peft.tuners.lora import LoraLayer

from pacer.core.errors import BackboneError
from pacer.model import assemble
from pacer.model.assemble import build_model, load_model
from pacer.model.checkpoint import read_record
from pacer.model.pacer import Pacer
from tests.support import drive
from tests.support.models import MODEL, save_model, specification

installed = pytest.mark.skipif(
    importlib.util.find_spec("bitsandbytes") is None, reason="bitsandbytes is not installed; it is the extra nf4"
)


def quantised(phase: str = "parent"):
    return specification(phase).model_copy(update={"quantization": "nf4"})


def test_without_the_package_it_is_refused(backbones: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assemble, "is_bitsandbytes_available", lambda: False)
    with pytest.raises(BackboneError, match=r"quantization = nf4 needs the package bitsandbytes.*'.\[nf4\]'"):
        build_model(backbones, quantised())


def test_the_type_is_normal_float(backbones: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dettmers et al. 2023: NF4 with double quantisation, multiplied in the given type."""
    asked: dict[str, Any] = {}

    def from_pretrained(directory: Path, **options: Any) -> None:
        asked.update(options)
        raise KeyboardInterrupt

    monkeypatch.setattr(assemble, "is_bitsandbytes_available", lambda: True)
    monkeypatch.setattr(assemble.AutoModelForCausalLM, "from_pretrained", from_pretrained)
    with pytest.raises(KeyboardInterrupt):
        assemble.load_nf4(backbones / "language", torch.bfloat16)
    config = asked["quantization_config"]
    assert config.load_in_4bit and config.bnb_4bit_quant_type == "nf4" and config.bnb_4bit_use_double_quant
    assert config.bnb_4bit_compute_dtype == torch.bfloat16


def lora_of(model: Pacer) -> list[LoraLayer]:
    return [module for module in model.language.modules() if isinstance(module, LoraLayer)]


@installed
def test_the_blocks_are_quantised_and_close(backbones: Path) -> None:
    torch.manual_seed(1)
    usual = build_model(backbones, specification("parent")).eval()
    torch.manual_seed(1)
    model = build_model(backbones, quantised()).eval()
    linear = [n for n, p in model.language.named_parameters() if p.dtype == torch.uint8]
    assert len(linear) == 2 * 7  # of two blocks, and neither embeddings nor head
    assert not any("lm_head" in name or "embed" in name for name in linear)
    assert all(p.dtype == torch.float32 and p.requires_grad for n, p in model.named_parameters() if "lora_" in n)
    inputs = torch.randn(2, 9, 24)
    with torch.no_grad():
        ours, theirs = model.hidden(inputs), usual.hidden(inputs)
    gap = (ours - theirs).norm() / theirs.norm()
    assert 0.01 < gap < 0.5


@installed
def test_results_are_as_wide_as_beside_ordinary_matrices(backbones: Path) -> None:
    """The states between the blocks are float32, what a block keeps of its matrices' results is not."""
    found: list[torch.dtype] = []
    for own in (specification("parent"), quantised()):
        model = build_model(backbones, own, torch.bfloat16).eval()
        block = model.language.model.layers[1]
        for part in (block.self_attn.q_proj, block.mlp.gate_proj):
            part.register_forward_hook(lambda module, inputs, output: found.append(output.dtype))
        assert model.hidden(torch.randn(1, 5, 24, requires_grad=True)).dtype == torch.float32
    assert found == [torch.bfloat16] * 4


@installed
def test_lora_stays_beside_quantised_weights(backbones: Path, tmp_path: Path) -> None:
    """Merged nowhere: what is loaded from a checkpoint computes what was trained, to the last bit."""
    torch.manual_seed(1)
    model = build_model(backbones, quantised()).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.5)
    inputs = torch.randn(2, 9, 24, requires_grad=True)
    trained = model.hidden(inputs)
    trained.sum().backward()
    assert inputs.grad is not None and all(p.grad is not None for n, p in model.named_parameters() if "lora_" in n)
    model.merge_lora()
    assert not any(layer.merged for layer in lora_of(model))
    with torch.no_grad():
        assert torch.equal(model.hidden(inputs), trained)
    save_model(tmp_path, model, backbones, quantised())
    assert read_record(tmp_path).model.quantization == "nf4"
    loaded, _ = load_model(tmp_path, backbones)
    assert len(lora_of(loaded)) == 4 and not any(layer.merged for layer in lora_of(loaded))
    with torch.no_grad():
        assert torch.equal(loaded.hidden(inputs), trained)


@installed
def test_the_three_phases_train_beside_quantised_weights(backbones: Path, tmp_path: Path) -> None:
    """In Calibrate the pass for the parent has no gradient, the one after it needs one."""
    params = drive.parameters(MODEL, train={"quantization": "nf4", "checkpointing": "on"})
    inputs = drive.write_inputs(tmp_path, backbones, params)
    for name in ("warmup", "parent", "calibrate"):
        drive.perform(drive.job(name, params, inputs, tmp_path / name))
    assert read_record(tmp_path / "parent").model.quantization == "nf4"
    model, _ = load_model(tmp_path / "calibrate", backbones)
    assert model.calibrator is not None and model.calibrator.up.weight.abs().max() > 0  # it starts at zero
    assert any(parameter.abs().max() > 0 for name, parameter in model.named_parameters() if "lora_B" in name)
    assert not any(layer.merged for layer in lora_of(model))
