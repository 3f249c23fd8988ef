"""``pacer import-llm-rg4``; imports wait for the command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pacer.cli.terminal import BACKBONES, PARAMS, check_exists, console, say
from pacer.config.profiles import load_profile


def import_llm_rg4(
    file: Annotated[Path, typer.Argument(help="Released weights of either stage, .pth or .ckpt.")],
    out: Annotated[Path, typer.Option(help="Folder for the checkpoint; an earlier import is replaced.")],
) -> None:
    """Convert LLM-RG4's released weights to a checkpoint: for parent.start, or from its second stage for decoding."""
    params = load_profile(PARAMS)
    check_exists(file, remedy="download LLM-RG4's released weights and name the file")
    from pacer.core.io import check_replaceable
    from pacer.model.checkpoint import RECORD, WEIGHTS
    from pacer.model.llm_rg4 import adopt_llm_rg4

    check_replaceable(out, (RECORD, WEIGHTS))
    weights = adopt_llm_rg4(file, params, BACKBONES, out)
    settings = ", ".join(f"{name} {value}" for name, value in weights.settings.items())
    console.print(f"{len(weights.interface)} tensors of the source interface, {len(weights.lora)} of LoRA ({settings})")
    frozen = len(weights.unused) - len(weights.surplus)
    if frozen:
        console.print(f"{frozen} tensors of frozen models not taken: those of {BACKBONES} are used")
    for name in weights.surplus:
        say(f"unused: {name}")
    if weights.first_stage:
        console.print(f"written to {out}, a warm-up; to train on from it, set parent.start: {out}")
    else:
        console.print(f"written to {out}; decode with `pacer decode --model {out}`, or set parent.start: {out}")
