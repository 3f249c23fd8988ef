"""``pacer import-llm-rg4``; heavy imports wait until it runs."""

from pathlib import Path

from pacer.config.params import load_profile
from pacer.core.io import check_replaceable
from pacer.display import terminal
from pacer.display.terminal import BACKBONES, PARAMS, console, echo


def import_llm_rg4(
    file: Path,
    out: Path,
) -> None:
    """Convert LLM-RG4's released weights to a checkpoint for `pacer decode` or parent.start."""
    params = load_profile(PARAMS)
    terminal.check_exists(
        file, remedy="download LLM-RG4's released weights and pass the file's path"
    )
    from pacer.extras.llm_rg4.weights import adopt_llm_rg4
    from pacer.model.checkpoint import RECORD, WEIGHTS

    check_replaceable(out, (RECORD, WEIGHTS))
    weights = adopt_llm_rg4(file, params, BACKBONES, out)
    console.print(
        f"imported {len(weights.interface)} source-interface tensors, {len(weights.lora)} LoRA "
        "tensors"
    )
    for name in weights.unused:
        echo(f"unused: {name}")
    console.print(
        f"written to {out}; decode with `pacer decode --model {out}`, or set parent.start: {out}"
    )
