"""Making the stand-ins that come with the package: half-precision weights below ``bundled/``, and their card.

They take the place of what real corpora download; :func:`~pacer.backbones.make_backbones.unpack` reads them.
"""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import torch
from safetensors.torch import load_file, save_file

from pacer.backbones.make_backbones import MODELS, WEIGHTS, make_standins
from pacer.backbones.pointers import PROVENANCE, provenance
from pacer.config import Backbone
from pacer.config.backbones import CARD
from pacer.config.profiles import load_profile
from pacer.core.errors import run_cleanly
from pacer.core.io import hash_file, write_json
from pacer.metrics.chexbert.observations import CHECKPOINT
from pacer.model.prompt import instruction


def main() -> None:
    """``make stand-ins``: train the models of the default profile again, in place of those of the package.

    Losses and qualities of the card say whether they are the same models: ``git diff`` shows them.
    """
    params = load_profile("configs/phantom.yaml")
    config = params.backbones.model_copy(update={role: Backbone(provider="standin") for role in MODELS})
    instruct = partial(instruction, unknown_view=params.prompt.unknown_view)
    models = {}
    with TemporaryDirectory() as scratch:
        make_standins(config, pl.DataFrame(), pl.DataFrame(), instruct, Path(scratch))
        for role in MODELS:
            out = CARD.parent / role
            shutil.rmtree(out, ignore_errors=True)
            _halve(Path(scratch, role), out)
            training = provenance(Path(scratch, role))
            about = {key: value for key, value in training.items() if key not in ("provider", "data", "seed")}
            models[role] = {"training": about, "files": {file.name: hash_file(file) for file in sorted(out.iterdir())}}
    settings = {"seed": config.seed, "train_on": config.train_on}
    settings |= {f"{role}_standin": getattr(config, f"{role}_standin").model_dump() for role in MODELS}
    write_json(CARD, {"data": training["data"], "settings": settings, "models": models})


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


if __name__ == "__main__":
    run_cleanly(main)
