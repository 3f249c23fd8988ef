"""Named conventions that turn CheXbert's classes into precision, recall and F1, as used in published work.

The same labels give different numbers under each convention, so a number without its convention cannot be compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pacer.metrics.chexbert.observations import OBSERVATIONS, POSITIVE, UNCERTAIN

#: micro: over all cells of records x observations; macro: mean over observations; weighted: mean over observations,
#: weighted by the number of references with the observation; example: mean over records.
Average = Literal["micro", "macro", "weighted", "example"]


@dataclass(frozen=True)
class Convention:
    """How labels become scores; ``docs/evaluation.md`` lists which published evaluations follow which convention.

    ``present``: classes that count as present; all others are absent. ``observations``: the labels that are scored.
    ``averages``: what the convention reports, its headline first. ``duplicates``: ``all`` rows, or only the ``first``
    of each study.

    An undefined precision, recall or F1 of an observation or record counts as 0 in every average. All published code
    does this: LLM-RG4, R2Gen, f1chexbert and RadEval by scikit-learn's default, CvT2DistilGPT2, CXRMate and MLRG by
    ``fillna(0)``.
    """

    present: tuple[int, ...]
    observations: tuple[str, ...] = OBSERVATIONS
    averages: tuple[Average, ...] = ("micro",)
    duplicates: Literal["all", "first"] = "all"


CONVENTIONS: dict[str, Convention] = {
    "llm-rg4": Convention((POSITIVE, UNCERTAIN), averages=("micro", "macro")),
    "r2gen": Convention((POSITIVE,), averages=("micro", "macro")),
    "nicolson": Convention((POSITIVE,), averages=("micro", "macro", "example"), duplicates="first"),
    "top5": Convention(
        (POSITIVE, UNCERTAIN), ("Cardiomegaly", "Edema", "Consolidation", "Atelectasis", "Pleural Effusion")
    ),
    "weighted": Convention((POSITIVE, UNCERTAIN), averages=("weighted",)),
}
