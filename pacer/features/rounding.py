"""States in the type in which they are stored."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pacer.core.errors import DataError

#: Counts the changes after which the same states are stored as other bytes; part of each entry's key.
VERSION = 1

#: Stored types by the names of ``features.dtype``.
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def as_stored(states: Tensor, dtype: torch.dtype, entries: Sequence[str]) -> Tensor:
    """States [B, ...] as a store of ``dtype`` holds them.

    Args:
        entries: what each of the B entries is, for the error.

    Raises:
        DataError: an entry has a value that is not finite in the stored type.
    """
    stored = states.to(dtype)
    finite = stored.isfinite().flatten(1).all(1)
    if not finite.all():
        raise DataError(
            f"the states of {entries[int(finite.int().argmin())]} are not finite in the stored type; choose another "
            "features.dtype (float16 ends at 65504, bfloat16 does not), else the encoder is broken"
        )
    return stored
