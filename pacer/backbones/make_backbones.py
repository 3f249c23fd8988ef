"""Collect the four frozen models in one directory: as pointers, unpacked or copied."""

import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file

from pacer.backbones.external import check_backbone, point_to
from pacer.backbones.observations import CHECKPOINT
from pacer.backbones.pointers import PROVENANCE
from pacer.config import Params
from pacer.config.backbones import CARD, ROLES
from pacer.core.io import read_json, write_json

#: Weights of the bundled models; CheXbert's pickle is written from them.
WEIGHTS = "model.safetensors"


def make_backbones(params: Params, standins: Path, out: Path) -> None:
    """Point to the models of providers ``hub`` and ``local``, unpack the bundled ones, and copy
    those of provider ``standin`` from ``standins``. Raises a BackboneError if weights are missing
    (the message says what to download or where to put them), or a model cannot take its role."""
    for role in ROLES:
        backbone = getattr(params.backbones, role)
        target = check_backbone(params, role)
        if target is not None:
            point_to(target, backbone, out / role)
        elif backbone.provider == "bundled":
            unpack(role, out / role)
        else:
            shutil.copytree(standins / role, out / role, copy_function=shutil.copyfile)


def unpack(role: str, out: Path) -> None:
    """Write a model that comes with the package into ``out``, in the format of the model that it
    replaces."""
    card = read_json(CARD)
    shutil.copytree(CARD.parent / role, out, copy_function=shutil.copyfile, dirs_exist_ok=True)
    if role == "chexbert":
        weights = load_file(out / WEIGHTS).items()
        state = {
            name: weight.float() if weight.is_floating_point() else weight
            for name, weight in weights
        }
        torch.save({"model_state_dict": state}, out / CHECKPOINT)
        (out / WEIGHTS).unlink()
    origin = {"provider": "bundled", "data": card["data"], "seed": card["settings"]["seed"]}
    write_json(out / PROVENANCE, origin | card["models"][role]["training"])
