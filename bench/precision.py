"""What bfloat16 gains in training, by the width of the language model, and what it costs Calibrate.

    python bench/precision.py --language DIR

1. A Commit step with the language model in float32 and in bfloat16, for language models of growing size: where
   `train.precision: auto` draws its line on CPUs.
2. Calibrate with a small residual on visual tokens of unit size: residual, divergence and gradient against float32,
   with a prefix that is rounded to bfloat16 on its way into the language model and with one that is not.

Without --language the second part has random weights in SmolLM2-135M's shape. Times are those of one core, counted
while it works for this process: a busy machine does not change them.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from measuring import Bench, hardware, in_turns, megabytes, milliseconds, ratio, table
from shapes import CPU, PARAMS, Preset, make_model, make_records
from steps import COMMIT, optimizer_of, our_batches, our_side, timed_step
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from pacer.model.assemble import wire
from pacer.model.pacer import Pacer
from pacer.model.specification import ModelSpecification, specification_of
from pacer.training.head import HeadLosses, head_losses

#: Width, layers, vocabulary: the default profile's stand-in, three sizes between, and SmolLM2-135M's.
SIZES = ((128, 4, 900), (256, 6, 8_000), (384, 8, 16_000), (512, 8, 32_000), (576, 30, 49_152))
SMOLLM2 = LlamaConfig(
    vocab_size=49_152,
    hidden_size=576,
    intermediate_size=1536,
    num_hidden_layers=30,
    num_attention_heads=9,
    num_key_value_heads=3,
    tie_word_embeddings=True,
)
RECORDS, BEFORE, VISUAL, AFTER, REPORT = 4, 24, 128, 30, 80
#: Root mean square of the residual; visual tokens have 1.
RESIDUALS = (3e-3, 3e-2)
#: How the prefix reaches the language model: rounded to bfloat16 before Calibrate and after it, after it alone, or not.
WAYS = ("rounded before and after", "rounded after", "not rounded")
TEXT = (
    "the heart is normal in size . the mediastinum is unremarkable . there is a small left pleural effusion with "
    "adjacent atelectasis . no pneumothorax . degenerative changes of the spine are noted . the right lung is clear . "
    "a left subclavian pacemaker is in place with its leads in the right atrium and right ventricle . mild pulmonary "
    "vascular congestion is improved compared to the prior examination . no focal consolidation is seen . "
)


class OneCore(Bench):
    """Counts the time in which a core works for this process."""

    def seconds(self, call: Callable[[], Any]) -> float:
        started = time.process_time()
        call()
        return time.process_time() - started


def sized(width: int, layers: int, vocabulary: int, dtype: torch.dtype) -> Preset:
    """The CPU preset around another language model."""
    return replace(
        CPU,
        dtype=dtype,
        d_model=width,
        d_ffn=width * 8 // 3,
        layers=layers,
        heads=width // 64,
        vocabulary=vocabulary,
        batches=1,
    )


def step_rows(device: torch.device, repeats: int) -> list[list[str]]:
    """Milliseconds of a Commit step in both types, and how many times faster bfloat16 is, for each of the sizes."""
    rows = []
    for size in SIZES:
        sides, batches = [], []
        for dtype in (torch.float32, torch.bfloat16):
            preset = sized(*size, dtype)
            bench = OneCore(preset, device)
            bench.say(f"width {size[0]}, {size[1]} layers, {dtype}")
            side = our_side(make_model(preset, device), COMMIT)
            step = timed_step(bench, side, optimizer_of(side))
            batches.append(our_batches(bench, make_records(preset.texts[1], preset), COMMIT)[0])
            step(batches[-1])
            sides.append(step)
        exact, half = in_turns(sides, [batches], repeats)
        rows.append([f"{size[0]} × {size[1]}", milliseconds(exact), milliseconds(half), ratio(exact, half)[1]])
    return rows


@dataclass
class Case:
    """Prefixes and reports: text ``ids`` [B, T], visual tokens [B, Q, d] and what the gate sees beside them."""

    ids: Tensor
    visual: Tensor
    availability: Tensor

    @property
    def prefix(self) -> int:
        return BEFORE + VISUAL + AFTER


def make_case(language: Any, words: Tensor) -> Case:
    """Records whose texts start at different ``words`` [n]."""
    torch.manual_seed(1)
    width, length = language.config.hidden_size, BEFORE + VISUAL + AFTER + REPORT
    ids = torch.stack([words.roll(-17 * record)[torch.arange(length) % len(words)] for record in range(RECORDS)])
    return Case(ids, F.layer_norm(torch.randn(RECORDS, VISUAL, width), (width,)), torch.zeros(RECORDS, 2).bool())


def calibrated(language: Any, residual: float, case: Case) -> Pacer:
    """A model whose calibrator adds a residual of this size to the visual tokens."""
    torch.manual_seed(2)
    groups = specification_of("calibrate", PARAMS).written() | {"lora": None}
    groups["interface"] |= {"num_heads": 1, "d_hidden": 8}
    model = wire(language, nn.LayerNorm(8), 8, ModelSpecification.model_validate(groups)).eval()
    with torch.no_grad():
        model.calibrator.up.weight.normal_()
        found = correct(model, case, "not rounded")[1][:, BEFORE : BEFORE + VISUAL]
        model.calibrator.up.weight *= residual / found.square().mean().sqrt()
    return model


def correct(model: Pacer, case: Case, way: str) -> tuple[Tensor, Tensor, Tensor]:
    """Input embeddings [B, T, d] before and after Calibrate's residual, which stands between them."""
    first = torch.bfloat16 if way == "rounded before and after" else torch.float32
    last = torch.float32 if way == "not rounded" else torch.bfloat16
    text = model.language.get_input_embeddings()(case.ids).float()
    before = torch.cat([text[:, :BEFORE], case.visual.to(first).float(), text[:, BEFORE + VISUAL :]], 1)
    prefix = before[:, : case.prefix]
    sources = torch.stack([case.visual, *[torch.zeros_like(case.visual)] * 2], 1)
    found = model.calibrator(prefix, torch.ones(prefix.shape[:2]).bool(), sources, case.availability)
    return before.to(last), found.residual, torch.cat([found.prefix, before[:, case.prefix :]], 1).to(last)


def losses(model: Pacer, before: Tensor, after: Tensor, case: Case) -> HeadLosses:
    """Mean negative log-likelihood of the reports and divergence from the parent, weighted as in training."""

    def hidden(inputs: Tensor) -> Tensor:
        return model.hidden(inputs)[:, case.prefix : -1].flatten(0, 1)

    with torch.no_grad():
        teacher = hidden(before)
    targets = case.ids[:, case.prefix + 1 :].flatten()
    weight = torch.full([len(targets)], 1 / len(targets))
    divergence_weight = PARAMS.calibrate.lambda_cons * weight
    return head_losses(hidden(after), model.language.lm_head.weight, targets, weight, teacher, divergence_weight)


def effect(model: Pacer, case: Case, way: str) -> tuple[Tensor, float, Tensor]:
    """The residual that arrives at the visual tokens, the mean divergence, and the calibrator's gradient."""
    model.calibrator.zero_grad()
    before, _, after = correct(model, case, way)
    found = losses(model, before, after, case)
    found.total.backward()
    assert found.divergence is not None
    gradient = torch.cat([p.grad.flatten() for p in model.calibrator.parameters() if p.grad is not None])
    arrived = (after.float() - before.float())[:, BEFORE : BEFORE + VISUAL].detach()
    return arrived, float(found.divergence.mean()), gradient


def prefix_rows(language: Any, case: Case) -> list[list[str]]:
    """For each size of the residual the errors of the ways against float32 on the same rounded weights."""
    exact = copy.deepcopy(language).float()
    rows = []
    for residual in RESIDUALS:
        reference = effect(calibrated(exact, residual, case), case, "not rounded")
        for way in WAYS:
            own = effect(calibrated(language, residual, case), case, way)
            errors = [float((a - b).norm() / b.norm()) for a, b in zip(own[::2], reference[::2])]
            rows.append(
                [
                    f"{residual:g}, {way}",
                    f"{errors[0]:.1%}",
                    f"{own[1]:.1e} ({reference[1]:.1e})",
                    f"{errors[1]:.1%}",
                    f"{float(F.cosine_similarity(own[2], reference[2], dim=0)):.4f}",
                ]
            )
    return rows


def cost_rows(language: Any, case: Case, bench: Bench, repeats: int) -> list[list[str]]:
    """Milliseconds of a step's passes with a rounded prefix and with an unrounded one, and their peak memory."""
    model = calibrated(language, RESIDUALS[0], case)

    def passes(way: str) -> Callable[[], None]:
        def step() -> None:
            before, _, after = correct(model, case, way)
            losses(model, before, after, case).total.backward()

        return step

    ways = {way: passes(way) for way in WAYS[1:]}
    for call in ways.values():
        call()
    seconds = in_turns([bench.seconds] * 2, [list(ways.values())], repeats)
    return [
        [name, milliseconds(own), ratio(own, seconds[0])[1], megabytes(bench.peak(call))]
        for (name, call), own in zip(ways.items(), seconds)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--language", type=Path, help="directory of a language model for the second part")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--steps", action=argparse.BooleanOptionalAction, default=True, help="with the first part")
    arguments = parser.parse_args()
    device = torch.device("cpu")
    torch.set_num_threads(1)
    bench = OneCore(CPU, device)
    steps = step_rows(device, arguments.repeats) if arguments.steps else []
    torch.manual_seed(0)
    words = torch.arange(3, 200)
    if arguments.language:
        language: Any = AutoModelForCausalLM.from_pretrained(arguments.language, dtype=torch.bfloat16)
        words = torch.tensor(AutoTokenizer.from_pretrained(arguments.language)(TEXT)["input_ids"])
    else:
        language = LlamaForCausalLM(SMOLLM2).to(torch.bfloat16)
    case = make_case(language, words)
    language.requires_grad_(False).eval()
    bench.say("Calibrate")
    print(f"{hardware(device)}\n")
    print("\n".join(table(["Width × layers", "float32, ms", "bfloat16, ms", "times faster"], steps)))
    heads = ["Residual, prefix", "error of the residual", "divergence (float32)", "error of the gradient", "cosine"]
    print("\n".join(table(heads, prefix_rows(language, case))))
    print(
        "\n".join(table(["Prefix", "ms", "times as long", "MB"], cost_rows(language, case, bench, arguments.repeats)))
    )


if __name__ == "__main__":
    main()
