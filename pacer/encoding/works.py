"""What an entry of each kind is made of and how: the recipe that its key covers, and the work of one process."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pacer.core.errors import BackboneError, DataError
from pacer.core.io import hash_file
from pacer.encoding.plan import Tensors, Work
from pacer.encoding.shards import Entry
from pacer.features import prepare, rounding
from pacer.features.encoder import ImageEncoder, TextEncoder
from pacer.features.prepare import stacked
from pacer.features.rounding import DTYPES, rounded
from pacer.params import Features
from pacer.pretrained.pointers import fingerprint, resolve

#: Files of an encoder's directory that say how its images are prepared.
_PROCESSOR = "preprocessor_config.json"


def recipes(config: Features, vision: Path, text: Path) -> dict[str, dict[str, Any]]:
    """What an entry of each kind follows from, besides the image or text itself.

    Prepared pixels do not depend on the encoder, only on its image processor.
    """
    images: dict[str, Any] = {"mode": config.mode, "preparation": prepare.VERSION}
    if config.mode == "pixels":
        images["processor"] = _processor(vision)
    else:
        images |= {"vision": fingerprint(vision), "depths": config.depths, **_rounding(config)}
    return {
        "images": images,
        "priors": {"text": fingerprint(text), "prior_tokens": config.prior_tokens, **_rounding(config)},
    }


def _processor(vision: Path) -> str:
    path = resolve(vision) / _PROCESSOR
    if not path.is_file():
        raise BackboneError(f"{path} is missing; it says how images are prepared and comes with the encoder")
    return hash_file(path)


def encoding(config: Features, vision: Path, text: Path) -> dict[str, Any]:
    """How the states of a store come about, for those who read them and who encode pixels when they are asked for."""
    return {
        "mode": config.mode,
        "encoders": {"vision": fingerprint(vision), "text": fingerprint(text)},
        "depths": config.depths,
        **_rounding(config),
    }


def _rounding(config: Features) -> dict[str, Any]:
    return {"dtype": config.dtype, "precision": config.precision, "rounding": rounding.VERSION}


def image_work(
    config: Features,
    vision: Path,
    shards: dict[str, list[Entry]],
    paths: dict[str, str],
    contents: dict[str, str],
    device: torch.device,
) -> Work:
    """Images to their states, or to their prepared pixels (``features.mode``).

    Args:
        paths, contents: file of each image, and what it hashed to when its key was made.
    """
    encoder = ImageEncoder(resolve(vision), config.depths, device, config.precision)

    def states(levels: list[Any]) -> Tensors:
        return _on_cpu(rounded(encoder.encode_levels(stacked(levels)), DTYPES[config.dtype]))

    def levels(name: str) -> Tensor:
        found = encoder.preparation.levels(paths[name])
        if hash_file(paths[name]) != contents[name]:
            raise DataError("the file has changed since the stage began")
        return found

    work = partial(Work, "images", shards, levels, batch_size=config.batch_size, workers=max(config.workers, 1))
    if config.mode == "pixels":
        return work(encode=_pixels, settle=_same_planes, others={"features.mode: states": states})
    smaller = {} if config.dtype == "fp8_e4m3" else {"features.dtype: fp8_e4m3": _as_fp8}
    return work(encode=states, others={"features.mode: pixels": _pixels}, smaller=smaller)


def prior_work(
    config: Features, text: Path, shards: dict[str, list[Entry]], texts: dict[str, str], device: torch.device
) -> Work:
    """Previous reports to their states, and the mask of the positions that are no padding."""
    encoder = TextEncoder(resolve(text), config.prior_tokens, device, config.precision)

    def encode(batch: list[Any]) -> Tensors:
        states, mask = encoder.encode(batch)
        return _on_cpu(rounded(states, DTYPES[config.dtype]) | {"mask": mask.to(torch.uint8)})

    return Work("priors", shards, texts.__getitem__, encode, config.batch_size, workers=0)


def _on_cpu(tensors: Tensors) -> Tensors:
    return {name: tensor.cpu() for name, tensor in tensors.items()}


def _as_fp8(tensors: Tensors) -> Tensors:
    return rounded(tensors["states"][:1].float(), DTYPES["fp8_e4m3"])


def _pixels(levels: list[Any]) -> Tensors:
    return {"pixels": stacked(levels)}


def _same_planes(batches: Iterator[Tensors]) -> Iterator[Tensors]:
    """The rows of a shard have one shape: where an image of it is in colour, grey ones have their plane three times."""
    held = [batch["pixels"] for batch in batches]
    planes = max(pixels.shape[1] for pixels in held)
    return ({"pixels": pixels.expand(-1, planes, -1, -1)} for pixels in held)
