"""What encoding will take on the disk, printed before the work and refused where it does not fit."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from accelerate import PartialState
from accelerate.utils import broadcast_object_list

from pacer.config import Features
from pacer.core.errors import PacerError
from pacer.features.rounding import DTYPES

WORDS = {"images": "images", "priors": "previous reports"}

#: Part of the free disk that may be filled.
_USABLE = 0.95


class Need(NamedTuple):
    """Entries of one kind that are to be encoded, and the bytes of one by ``features.mode``."""

    kind: str
    entries: int
    sizes: Mapping[str, int]


def image_bytes(config: Features, mode: str, patches: int, width: int, pixels: int) -> int:
    """Bytes of an image in a store.

    Args:
        patches: N. width: d of the encoder. pixels: of a prepared image, which is taken to be grey.
    """
    return pixels if mode == "pixels" else len(config.depths) * patches * width * DTYPES[config.dtype].itemsize


def prior_bytes(config: Features, width: int) -> int:
    """Bytes of a previous report in a store: the states of all its positions, and their mask."""
    return config.prior_tokens * (width * DTYPES[config.dtype].itemsize + 1)


def fits(size: float, free: float) -> bool:
    """Whether features of this many bytes may be put on a disk with this many free."""
    return size <= _USABLE * free


def announce(needs: Sequence[Need], mode: str, out: Path, state: PartialState) -> None:
    """Print what is to be encoded, and refuse what the disk cannot hold.

    Raises:
        PacerError: the disk cannot hold it (on all processes); the mode with which it could is named.
    """
    if not needs:
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    free = broadcast_object_list([shutil.disk_usage(out.parent).free])[0]
    other_mode = "pixels" if mode == "states" else "states"
    size, other = (sum(need.entries * need.sizes[own] for need in needs) for own in (mode, other_mode))
    setting = f"features.mode: {other_mode}"
    if state.is_main_process:
        parts = (f"{need.entries:,} {WORDS[need.kind]} ({_size(need.entries * need.sizes[mode])})" for need in needs)
        print(f"features: {' and '.join(parts)} to encode; {_size(size)} of {_size(free)} free", flush=True)
        if other != size:
            print(f"features: with {setting} it would be {_size(other)}", flush=True)
    if not fits(size, free):
        helps = other != size and fits(other, free)
        remedy = f"set {setting}, or free some space" if helps else "free some space: no other setting fits"
        raise PacerError(f"the features need {_size(size)} more, but {out.parent} has {_size(free)} free; {remedy}")


def _size(size: int) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:.3g} MB"
