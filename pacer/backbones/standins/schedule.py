"""Learning-rate factor of the stand-ins' training."""

from __future__ import annotations

import math


def peak_schedule(step: int, steps: int) -> float:
    """Linear rise over the first twentieth, then a cosine to zero. ``step`` counts from 0."""
    rise = max(1, steps // 20)
    if step < rise:
        return (step + 1) / rise
    return 0.5 * (1 + math.cos(math.pi * (step - rise) / max(1, steps - rise)))
