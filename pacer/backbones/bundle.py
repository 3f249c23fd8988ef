"""The stand-ins that come with the package: half-precision weights below ``bundled/``, and a card that describes them.

They take the place of what real corpora download: provider ``bundled`` unpacks them, provider ``standin`` trains such
models anew.
"""

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
from pacer.backbones.standins.data import Instruct
from pacer.core.errors import BackboneError, run_cleanly
from pacer.core.io import hash_file, read_json, write_json
from pacer.model.prompt.instruction import instruction
from pacer.params import parse_params
from pacer.params.backbones import CARD, Backbones
from pacer.params.profiles import profile_text
from pacer.pretrained.pointers import PROVENANCE

#: Weights in the package; CheXbert's own format is a pickle, which the stage writes from them.
WEIGHTS = "model.safetensors"
#: How far a model that is made again may be from the one described, as a share of its quality and in its first losses.
QUALITY, LOSSES = 0.02, 1e-3


def unpack(role: str, out: Path) -> None:
    """Write a bundled model into ``out`` in the format of the model that it stands for, with its provenance.

    Raises:
        BackboneError: a file of the package is missing or is not the one that the card describes.
    """
    card = read_json(CARD)
    about, folder = card["models"][role], CARD.parent / role
    out.mkdir(parents=True, exist_ok=True)
    for name, expected in about["files"].items():
        if not (folder / name).is_file() or hash_file(folder / name) != expected:
            raise BackboneError(f"{folder / name} is not the file that {CARD} describes; install the package again")
        shutil.copyfile(folder / name, out / name)
    if role == "chexbert":
        _as_checkpoint(out)
    origin = {"provider": "bundled", "data": card["data"], "seed": card["settings"]["seed"]}
    write_json(out / PROVENANCE, origin | about["training"])


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
            (out / role).mkdir(parents=True)
            _halve(folder, out / role)
            files = sorted(path for path in (out / role).iterdir())
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

    for file in folder.iterdir():
        if file.name == CHECKPOINT:
            weights = torch.load(file, weights_only=True)["model_state_dict"]
        elif file.name == WEIGHTS:
            weights = load_file(file)
        else:
            if file.name != PROVENANCE:
                shutil.copyfile(file, out / file.name)
            continue
        halved = {name: (w.half() if w.is_floating_point() else w).contiguous() for name, w in weights.items()}
        save_file(halved, out / WEIGHTS, metadata={"format": "pt"})
        (out / WEIGHTS).chmod(0o644)  # safetensors makes files that only their owner can read


def _as_checkpoint(folder: Path) -> None:
    """CheXbert's own file from safetensors."""
    import torch
    from safetensors.torch import load_file

    from pacer.metrics.chexbert.observations import CHECKPOINT

    weights = {name: w.float() if w.is_floating_point() else w for name, w in load_file(folder / WEIGHTS).items()}
    torch.save({"model_state_dict": weights}, folder / CHECKPOINT)
    (folder / WEIGHTS).unlink()


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
