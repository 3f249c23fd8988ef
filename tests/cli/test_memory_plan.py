"""The memory plan against what a phase really holds, and what it advises."""

from __future__ import annotations

import os
from itertools import accumulate
from pathlib import Path

import pytest
import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

from pacer.cli.memory_plan import PHASES, VICUNA, WIDTH, MemoryPlan, memory_findings
from pacer.model.assemble import wire
from pacer.model.pacer import Batch
from pacer.model.specification import specification_of
from pacer.params import Params, load_params
from pacer.training.objective import objective
from pacer.training.phases import phase_of

ROOT = Path(__file__).parents[2]
PUBLISHED = load_params(ROOT / "configs" / "mimic_rg4.yaml")
SMALL = VICUNA | {
    "hidden_size": 256,
    "intermediate_size": 688,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "vocab_size": 8000,
}
RECORDS, PREFIX, TARGET = 2, 90, 110


def changed(**groups: dict) -> Params:
    values = PUBLISHED.model_dump()
    for group, changes in groups.items():
        values[group] |= changes
    return Params.model_validate(values)


def peak(call) -> int:
    """Most bytes that tensors hold during ``call``, beyond what they held before."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        call()
    events = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
    return max(accumulate((e.nbytes() for e in sorted(events, key=lambda event: event.start_ns())), initial=0))


@pytest.mark.slow
@pytest.mark.parametrize("checkpointing", ["off", "on"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("phase", PHASES)
def test_a_phase_holds_what_the_plan_says(
    phase: str, precision: str, checkpointing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forward and backward pass of a micro-batch on the CPU; dropout keeps its mask as on a GPU."""
    monkeypatch.setattr(
        nn.functional, "dropout", lambda x, p, training, *_: torch.native_dropout(x, p, training)[0] if training else x
    )
    params = changed(
        backbones={
            "vision": {"provider": "standin"},
            "vision_standin": PUBLISHED.backbones.vision_standin.model_dump()
            | {"width": 96, "image_size": 280, "patch_size": 14},
        },
        interface={"num_queries": 32, "d_hidden": 256, "dropout": 0.0},  # on a GPU attention keeps nothing for dropout
        train={"precision": precision, "checkpointing": checkpointing},
    )
    plan, own = MemoryPlan(params, SMALL), phase_of(phase, params)
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    torch.manual_seed(0)
    language = LlamaForCausalLM(LlamaConfig(**SMALL)).to(dtype)
    model = wire(language, nn.LayerNorm(96), WIDTH, specification_of(phase, params))
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(own.trainable(name))
        if parameter.requires_grad:
            parameter.grad = torch.zeros_like(parameter)
    model.eval()
    if phase == "parent":
        model.train()
    if phase == "calibrate":
        model.merge_lora()
    if checkpointing == "on":
        model.checkpoint_blocks()
    length, lateral = PREFIX + TARGET, phase != "warmup"
    on = torch.zeros(RECORDS, length)
    on[:, PREFIX + 1 :] = 1
    batch = Batch(
        ids=torch.randint(3, 1000, (RECORDS, length)),
        visual_start=torch.full((RECORDS,), 20),
        prefix_length=torch.full((RECORDS,), PREFIX),
        length=torch.full((RECORDS,), length),
        frontal=torch.randn(RECORDS, 3, 400, 96),
        lateral=torch.randn(RECORDS, 3, 400, 96) if lateral else None,
        prior=None,
        prior_mask=None,
        availability=torch.tensor([[lateral, False]] * RECORDS),
        weight=on,
        emphasis=0 * on,
        kappa=torch.zeros(RECORDS),
        consistency=on.bool(),
    )

    def step() -> None:
        objective(model, batch, own.losses, bare=own.bare).total.backward()

    plan.logits = 2**23  # of a chunk on a CPU
    assert plan.working(phase, RECORDS, PREFIX, TARGET) == pytest.approx(peak(step), rel=0.15)


def test_the_plan_grows_with_what_is_trained_and_shrinks_with_what_saves() -> None:
    usual = MemoryPlan(PUBLISHED, VICUNA)
    spared = usual.changed("train", checkpointing="on")
    small = usual.changed("train", quantization="nf4")
    for name in PHASES:
        assert spared.need(name).working < 0.25 * usual.need(name).working
        assert small.need(name).frozen < 0.3 * usual.need(name).frozen
    assert usual.need("parent").trained > usual.need("warmup").trained
    assert usual.need("parent").frozen == pytest.approx(2 * 6.738e9, rel=0.001)  # Vicuna's weights in bfloat16
    assert MemoryPlan(PUBLISHED, VICUNA, processes=8).need("parent").working < 0.2 * usual.need("parent").working


def test_what_is_advised_fits() -> None:
    plan = MemoryPlan(PUBLISHED, VICUNA)
    assert plan.remedy("parent", 80e9) == ""
    assert plan.remedy("parent", 32e9) == "train.checkpointing: on"
    assert plan.remedy("parent", 24e9) == "train.checkpointing: on, train.quantization: nf4"
    assert plan.remedy("parent", 8e9) is None
    assert plan.remedy("decode", 24e9) == "decode.batch_size: 16"
    assert plan.remedy("decode", 12e9) == "train.quantization: nf4, decode.batch_size: 8"
    assert plan.remedy("decode", 4e9) is None
    decode = memory_findings(PUBLISHED, 4e9)[-1]
    assert decode[1] == "missing" and "one record at a time" in decode[2] and "micro-batch" not in decode[2]


def test_the_tables_in_the_docs_are_the_plans() -> None:
    def cells(plan: MemoryPlan) -> str:
        return " | ".join(f"{plan.need(name).all / 1e9:.0f}" for name in (*PHASES, "decode"))

    usual = MemoryPlan(PUBLISHED, VICUNA)
    spared, small = {"checkpointing": "on"}, {"quantization": "nf4"}
    rows = [
        f"| as published | {cells(usual)} |",
        f"| `train.checkpointing: on` | {cells(usual.changed('train', **spared))} |",
        f"| `train.quantization: nf4` | {cells(usual.changed('train', **small))} |",
        f"| both | {cells(usual.changed('train', **spared, **small))} |",
    ]
    for size in (24, 40, 80, 141):
        remedies = [usual.remedy(name, size * 1e9) for name in ("parent", "decode")]
        plan = usual.changed("train", **spared) if remedies[0] else usual
        if remedies[0] == "train.checkpointing: on, train.quantization: nf4":
            plan = plan.changed("train", **small)
        if remedies[1]:
            plan = plan.changed("decode", batch_size=int(remedies[1].split()[-1]))
        told = ", ".join(f"`{remedy}`" for remedy in remedies if remedy) or "nothing"
        assert all(plan.need(name).all <= size * 1e9 for name in (*PHASES, "decode"))
        rows.append(f"| {size} GB | {told} | {cells(plan)} |")
    page = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    assert [row for row in rows if row not in page] == []


def test_the_package_that_quantises_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pacer.cli.memory_plan.find_spec", lambda name: None)
    (row,) = memory_findings(changed(train={"quantization": "nf4"}), 80e9)[:1]
    assert row[:2] == ("bitsandbytes", "missing") and "'.[nf4]'" in row[2]


def test_doctor_plans_for_a_gpu(pacer) -> None:
    told = " ".join(pacer("doctor", "--params", "configs/mimic_rg4.yaml", "--gpu-memory", "24").out.split())
    assert "missing GPU memory, parent" in told and "at work): set train.checkpointing: on" in told
    assert "ok GPU memory, parent" in " ".join(pacer("doctor", "--gpu-memory", "8").out.split())
