"""Two runs of a study case by case, as ``pacer compare`` does it."""

from __future__ import annotations

from pathlib import Path

from pacer.metrics.compare import compare_runs
from pacer.metrics.resampling import MEAN


def paired(first: Path, second: Path) -> dict[str, tuple[float | None, float | None]]:
    """Score -> (second minus first, p value) for the mean over contexts, or for the one context.

    Raises:
        DataError: the runs do not have the same records and references.
    """
    found = compare_runs(first, second).scores
    scores = found[MEAN] if MEAN in found else next(iter(found.values()))
    return {name: (gap.difference, gap.p) for name, gap in scores.items()}
