"""Making the stand-ins that come with the package: half-precision weights below ``bundled/``, and their card."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
from ruamel.yaml import YAML

from pacer.backbones.make_backbones import MODELS, make_standins
from pacer.backbones.pointers import PROVENANCE
from pacer.backbones.standins.data import Instruct
from pacer.backbones.unpack import WEIGHTS
from pacer.config import parse_params
from pacer.config.backbones import CARD, Backbones
from pacer.config.profiles import profile_text
from pacer.core.errors import BackboneError, run_cleanly
from pacer.core.io import hash_file, read_json, write_json
from pacer.model.prompt.instruction import instruction

#: How far a model that is made again may be from the one described, as a share of its quality and in its first losses.
QUALITY, LOSSES = 0.02, 1e-3


def make_bundle(config: Backbones, instruct: Instruct, out: Path) -> list[str]:
    """Train the models of ``config`` and write them into ``out`` with a card.

    Args:
        config: every provider is ``standin``, ``train_on`` is ``phantom``.

    Returns:
        How they differ from the models that the card of the package describes, where that is more than
        :data:`QUALITY` or :data:`LOSSES`; each in one sentence.
    """
    models: dict[str, Any] = {}
    with TemporaryDirectory() as scratch:
        nothing = pl.DataFrame()
        make_standins(config, nothing, nothing, instruct, Path(scratch))
        for role in MODELS:
            folder = Path(scratch, role)
            training = read_json(folder / PROVENANCE)
            shutil.rmtree(out / role, ignore_errors=True)
            _halve(folder, out / role)
            files = sorted((out / role).iterdir())
            about = {key: value for key, value in training.items() if key not in ("provider", "data", "seed")}
            models[role] = {"training": about, "files": {file.name: hash_file(file) for file in files}}
    settings = {"seed": config.seed, "train_on": config.train_on}
    settings |= {f"{role}_standin": getattr(config, f"{role}_standin").model_dump() for role in MODELS}
    known = read_json(CARD)["models"] if CARD.exists() else {}
    write_json(out / CARD.name, {"data": training["data"], "settings": settings, "models": models})
    return [sentence for role in known for sentence in _differences(role, known[role], models[role])]


def _halve(folder: Path, out: Path) -> None:
    """Copy a trained model with its weights in half precision."""
    import torch
    from safetensors.torch import load_file, save_file

    from pacer.metrics.chexbert.observations import CHECKPOINT

    shutil.copytree(folder, out, ignore=shutil.ignore_patterns(PROVENANCE, WEIGHTS, CHECKPOINT))
    if (folder / CHECKPOINT).exists():
        weights = torch.load(folder / CHECKPOINT, weights_only=True)["model_state_dict"]
    else:
        weights = load_file(folder / WEIGHTS)
    halved = {name: (w.half() if w.is_floating_point() else w).contiguous() for name, w in weights.items()}
    save_file(halved, out / WEIGHTS, metadata={"format": "pt"})
    (out / WEIGHTS).chmod(0o644)  # safetensors makes files that only their owner can read


def _differences(role: str, known: dict[str, Any], made: dict[str, Any]) -> list[str]:
    """Where a model that was made again is not as good as the known one, or another."""
    found = []
    losses = zip(known["training"]["first_losses"], made["training"]["first_losses"], strict=True)
    worst = max(abs(one - other) for one, other in losses)
    if worst > LOSSES:
        found.append(f"{role}: the first losses differ by {worst:.1e} from those of the card")
    one, other = (_quality(card["training"]) for card in (known, made))
    if abs(one - other) > QUALITY * one:
        found.append(f"{role}: quality {other:.4f}, {one:.4f} in the card")
    return found


def _quality(training: dict[str, Any]) -> float:
    """The one number that a model is judged by."""
    if "held_out_accuracy" not in training:
        return training.get("held_out_auroc", training.get("held_out_loss"))
    return fmean(_leaves(training["held_out_accuracy"]))


def _leaves(value: Any) -> list[float]:
    return [leaf for part in value.values() for leaf in _leaves(part)] if isinstance(value, dict) else [value]


def main() -> None:
    """``make stand-ins``: make the models of the default profile again, in place of those of the package."""
    values = YAML(typ="safe").load(profile_text("configs/phantom.yaml"))
    values["backbones"] |= {role: {"provider": "standin"} for role in MODELS}
    params = parse_params(values)
    instruct = partial(instruction, unknown_view=params.prompt.unknown_view)
    differences = make_bundle(params.backbones, instruct, CARD.parent)
    size = sum(file.stat().st_size for file in CARD.parent.rglob("*") if file.is_file())
    print(f"{CARD.parent}: {size / 1e6:.1f} MB")
    if differences:
        raise BackboneError("; ".join(differences))


if __name__ == "__main__":
    run_cleanly(main)
