"""Making the stand-ins that come with the package: half-precision weights below ``bundled/``, and their card.

They take the place of what real corpora download; :func:`~pacer.backbones.make_backbones.unpack` reads them.
"""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
import torch
from ruamel.yaml import YAML
from safetensors.torch import load_file, save_file

from pacer.backbones.make_backbones import MODELS, WEIGHTS, make_standins
from pacer.backbones.pointers import PROVENANCE, provenance
from pacer.config import parse_params
from pacer.config.backbones import CARD
from pacer.config.profiles import profile_text
from pacer.core.errors import BackboneError, run_cleanly
from pacer.core.io import hash_file, read_json, write_json
from pacer.metrics.chexbert.observations import CHECKPOINT
from pacer.model.prompt import instruction

#: How far a model that is made again may be from the one described, as a share of its quality and in its first losses.
QUALITY, LOSSES = 0.02, 1e-3


def main() -> None:
    """``make stand-ins``: train the models of the default profile again, in place of those of the package.

    Raises:
        BackboneError: they differ from the models that the card describes; each difference in one sentence.
    """
    values = YAML(typ="safe").load(profile_text("configs/phantom.yaml"))
    values["backbones"] |= {role: {"provider": "standin"} for role in MODELS}
    params = parse_params(values)
    config, instruct = params.backbones, partial(instruction, unknown_view=params.prompt.unknown_view)
    known, models, differences = read_json(CARD)["models"], {}, []
    with TemporaryDirectory() as scratch:
        make_standins(config, pl.DataFrame(), pl.DataFrame(), instruct, Path(scratch))
        for role in MODELS:
            out = CARD.parent / role
            shutil.rmtree(out, ignore_errors=True)
            _halve(Path(scratch, role), out)
            training = provenance(Path(scratch, role))
            about = {key: value for key, value in training.items() if key not in ("provider", "data", "seed")}
            models[role] = {"training": about, "files": {file.name: hash_file(file) for file in sorted(out.iterdir())}}
            differences += [f"{role}: {text}" for text in training_differences(known[role]["training"], about)]
    settings = {"seed": config.seed, "train_on": config.train_on}
    settings |= {f"{role}_standin": getattr(config, f"{role}_standin").model_dump() for role in MODELS}
    write_json(CARD, {"data": training["data"], "settings": settings, "models": models})
    if differences:
        raise BackboneError("; ".join(differences))


def _halve(folder: Path, out: Path) -> None:
    """Copy a trained model with its weights in half precision."""
    shutil.copytree(folder, out, ignore=shutil.ignore_patterns(PROVENANCE, WEIGHTS, CHECKPOINT))
    if (folder / CHECKPOINT).exists():
        weights = torch.load(folder / CHECKPOINT, weights_only=True)["model_state_dict"]
    else:
        weights = load_file(folder / WEIGHTS)
    halved = {name: (w.half() if w.is_floating_point() else w).contiguous() for name, w in weights.items()}
    save_file(halved, out / WEIGHTS, metadata={"format": "pt"})
    (out / WEIGHTS).chmod(0o644)  # safetensors makes files that only their owner can read


def training_differences(known: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Where a training is another than the known one, by its first losses, or ended with another quality."""
    differences = []
    worst = np.abs(np.subtract(known["first_losses"], new["first_losses"])).max()
    if worst > LOSSES:
        differences.append(f"the first losses differ by {worst:.1e} from those of the card")
    before, after = _quality(known), _quality(new)
    if abs(before - after) > QUALITY * before:
        differences.append(f"quality {after:.4f}, {before:.4f} in the card")
    return differences


def _quality(training: dict[str, Any]) -> float:
    """The one number that a model is judged by: an accuracy is the mean over findings (and forms of the text)."""
    if "held_out_accuracy" not in training:
        return training.get("held_out_auroc", training.get("held_out_loss"))
    by_finding = training["held_out_accuracy"]
    return float(np.mean([[*v.values()] if isinstance(v, dict) else v for v in by_finding.values()]))


if __name__ == "__main__":
    run_cleanly(main)
