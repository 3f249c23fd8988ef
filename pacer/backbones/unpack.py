"""The stand-ins that come with the package, below ``bundled/``: unpacked in the format of what they stand for.

They take the place of what real corpora download. :mod:`pacer.backbones.bundle` makes them.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from pacer.backbones.pointers import PROVENANCE
from pacer.config.backbones import CARD
from pacer.core.errors import BackboneError
from pacer.core.io import hash_file, read_json, write_json

#: Weights in the package; CheXbert's format is a pickle, which is written from them.
WEIGHTS = "model.safetensors"


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


def _as_checkpoint(folder: Path) -> None:
    """CheXbert's own file from safetensors."""
    import torch
    from safetensors.torch import load_file

    from pacer.metrics.chexbert.observations import CHECKPOINT

    weights = {name: w.float() if w.is_floating_point() else w for name, w in load_file(folder / WEIGHTS).items()}
    torch.save({"model_state_dict": weights}, folder / CHECKPOINT)
    (folder / WEIGHTS).unlink()
