"""Learning-rate and route schedules."""

from __future__ import annotations

import math


def learning_rate_factor(update: int, updates: int, warmup_updates: int) -> float:
    """Linear warm-up to 1, then a cosine to 0 at the last update. ``update`` counts from 0."""
    if update < warmup_updates:
        return (update + 1) / warmup_updates
    progress = (update - warmup_updates) / max(updates - warmup_updates, 1)
    return 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))


def direct_probability(update: int, start: float, end: float, rise: int) -> float:
    """rho: linear from ``start`` to ``end`` over ``rise`` updates, constant afterwards."""
    if rise == 0 or update >= rise:
        return end
    return start + (end - start) * update / rise
