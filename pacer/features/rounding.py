"""States in the type in which they are stored, and back.

``fp8_e4m3`` is an 8-bit float of three mantissa bits. What the tokens of an image have in common takes most of a
state's length and would be rounded with it, so it is kept apart: the mean over the tokens, and for each token a scale
that puts the largest rest at the type's largest number.
"""

from __future__ import annotations

import torch
from torch import Tensor

#: Counts the changes after which the same states are stored as other bytes; part of each entry's key.
VERSION = 1

#: Stored types by the names of ``features.dtype``.
DTYPES = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "fp8_e4m3": torch.float8_e4m3fn,
}

_LARGEST = torch.finfo(torch.float8_e4m3fn).max
_SMALLEST = torch.finfo(torch.bfloat16).tiny


class NotFinite(ValueError):
    """States of one entry of a batch, its place ``row``, are not finite in the stored type."""

    def __init__(self, row: int):
        super().__init__(f"the states of entry {row} are not finite")
        self.row = row

    def about(self, entry: str) -> str:
        """The error for those who know what the entry is."""
        return (
            f"the states of {entry} are not finite in the stored type; choose another features.dtype (float16 ends "
            "at 65504, bfloat16 does not), else the encoder is broken"
        )


def rounded(states: Tensor, dtype: torch.dtype) -> dict[str, Tensor]:
    """States [B, ..., tokens, d] as they are stored.

    Returns:
        ``states`` in ``dtype``; with fp8 also ``scales`` [B, ..., tokens] and ``centre`` [B, ..., d], both bfloat16,
        so that a state is ``centre + scale * states``.

    Raises:
        NotFinite: an entry has a value that is not finite, or that the type has no number for.
    """
    if dtype != torch.float8_e4m3fn:
        stored = {"states": states.to(dtype)}
        _refuse_infinite(stored["states"])
        return stored
    centre = states.float().mean(-2).bfloat16()
    rest = states.float() - centre.float().unsqueeze(-2)
    _refuse_infinite(rest)
    scales = _up(rest.abs().amax(-1) / _LARGEST)
    return {"states": (rest / scales.float().unsqueeze(-1)).to(dtype), "scales": scales, "centre": centre}


def restored(states: Tensor, scales: Tensor, centre: Tensor, out: Tensor) -> Tensor:
    """The inverse of :func:`rounded` with fp8: fills and returns ``out`` [B, ..., tokens, d]."""
    for target, state, scale, mean in zip(out, states, scales, centre):  # an entry at a time stays in the cache
        target.copy_(torch.addcmul(mean.float().unsqueeze(-2), state.float(), scale.float().unsqueeze(-1)))
    return out


def as_stored(states: Tensor, dtype: torch.dtype) -> Tensor:
    """What a store of ``dtype`` gives back for these states: bfloat16 where that is fp8.

    Raises:
        NotFinite: as :func:`rounded`.
    """
    stored = rounded(states, dtype)
    if dtype != torch.float8_e4m3fn:
        return stored["states"]
    return restored(**stored, out=torch.empty_like(stored["states"], dtype=torch.bfloat16))


def _up(scales: Tensor) -> Tensor:
    """To bfloat16, never down: a number above the largest has no fp8."""
    near = scales.clamp(min=_SMALLEST).bfloat16()
    above = (near.view(torch.int16) + 1).view(torch.bfloat16)
    return torch.where(near.float() < scales, above, near)


def _refuse_infinite(values: Tensor) -> None:
    bad = ~values.isfinite().flatten(1).all(1)
    if bad.any():
        raise NotFinite(int(bad.int().argmax()))
