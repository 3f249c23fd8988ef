"""What the entries of a store depend on: the recipe that the key of each covers."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from pacer.backbones.pointers import fingerprint, resolve
from pacer.config import Features
from pacer.core.errors import BackboneError
from pacer.core.io import hash_file
from pacer.features import prepare, rounding
from pacer.features.store import Encoding

#: File of an encoder's directory that says how its images are prepared.
_PROCESSOR = "preprocessor_config.json"

Recipe = dict[str, str | int | list[int]]


class Recipes(NamedTuple):
    """What images and previous reports (``priors``) are encoded with, besides the image or text itself."""

    images: Recipe
    priors: Recipe


def encoding_of(config: Features, vision: Path, text: Path) -> Encoding:
    """How the states of a store come about, for those who read them and who encode pixels when they are asked for."""
    encoders = {"vision": fingerprint(vision), "text": fingerprint(text)}
    return Encoding(config.mode, encoders, config.depths, config.dtype, config.precision, rounding.VERSION)


def recipes(config: Features, encoding: Encoding, vision: Path) -> Recipes:
    """The recipes of a store. Prepared pixels do not depend on the encoder, only on its image processor.

    Raises:
        BackboneError: the encoder comes without its image processor.
    """
    images: Recipe = {"mode": config.mode, "preparation": prepare.VERSION}
    stored: Recipe = {"dtype": config.dtype, "precision": config.precision, "rounding": rounding.VERSION}
    if config.mode == "pixels":
        path = resolve(vision) / _PROCESSOR
        if not path.is_file():
            raise BackboneError(f"{path} is missing; it says how images are prepared and comes with the encoder")
        images["processor"] = hash_file(path)
    else:
        images |= {"vision": encoding.encoders["vision"], "depths": config.depths, **stored}
    return Recipes(images, {"text": encoding.encoders["text"], "prior_tokens": config.prior_tokens, **stored})
