"""Eight-bit grey from deeper values, and the limits on a radiograph's size."""

from __future__ import annotations

import numpy as np

#: Limits on a radiograph's size: at least an encoder patch, and not a strip, whose short edge an encoder would enlarge.
#: Oversized images are refused before decoding, because a small file can exhaust memory.
MIN_SIDE, MAX_RATIO, MAX_PIXELS = 14, 100, 80_000_000
WRONG_SIZE = (
    f"it has fewer than {MIN_SIDE} pixels on a side, more than {MAX_PIXELS:,} in all, or is more than "
    f"{MAX_RATIO} times as long as wide"
)
FAR_PIXELS = "a few pixels are far outside the rest and do not count for the range of grey"


class Refused(Exception):
    """Reason to refuse an image."""


def check_size(width: int, height: int) -> None:
    """Refuse an image that is too small, too large or too long."""
    short, long = sorted((width, height))
    if short < MIN_SIDE or long > MAX_RATIO * short or width * height > MAX_PIXELS:
        raise Refused(WRONG_SIZE)


def full_range(values: np.ndarray, low: float, high: float) -> np.ndarray:
    """Scale ``low``..``high`` to 0..255; return all zeros if the two are equal."""
    if low == high:
        return np.zeros(values.shape, dtype=np.uint8)
    return np.rint(((values - low) / (high - low)).clip(0, 1) * 255).astype(np.uint8)


def sound_range(values: np.ndarray, counts: np.ndarray) -> tuple[float, float, bool]:
    """Return the smallest and the largest value, and whether others are left out: values of few pixels (at most 10, or
    one in 100,000, and one in 500 of a small image) that are farther from the rest than the rest is wide.

    Args:
        values: distinct values, in any order. counts: number of pixels of each.
    """
    order = np.argsort(values)
    values, counts = values[order], counts[order]
    number = int(counts.sum())
    few = min(number // 500, max(10, number // 100_000))
    is_few = (np.cumsum(counts) <= few, np.cumsum(counts[::-1])[::-1] <= few)
    core = values[~is_few[0] & ~is_few[1]]
    first, last, width = 0, len(values) - 1, np.ptp(core) if core.size else 0
    if width > 0:
        far = np.diff(values) > width  # from a value to the next
        first = max(np.flatnonzero(far & is_few[0][:-1]) + 1, default=first)
        last = min(np.flatnonzero(far & is_few[1][1:]), default=last)
    return float(values[first]), float(values[last]), bool(first or last < len(values) - 1)
