"""The named conventions by which the field turns CheXbert's classes into precision, recall and F1.

The same labels give different numbers under each; a number without the name of its convention cannot be compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pacer.metrics.chexbert.observations import OBSERVATIONS, POSITIVE, UNCERTAIN

#: micro: over all cells of records x observations; macro: mean of the observations; weighted: the same by number of
#: references with the observation; example: mean of the records.
Average = Literal["micro", "macro", "weighted", "example"]


@dataclass(frozen=True)
class Convention:
    """How labels become scores; ``docs/evaluation.md`` says whose evaluations follow which.

    ``present``: classes that count as present, the others are absent. ``observations``: over which labels.
    ``averages``: what the convention quotes, its headline first. ``duplicates``: ``all`` rows, or the ``first`` of each
    study.

    The undefined precision, recall or F1 of an observation or record is 0 in every average, as in the published code of
    all of them: scikit-learn's default in LLM-RG4, R2Gen, f1chexbert and RadEval, ``fillna(0)`` in CvT2DistilGPT2,
    CXRMate and MLRG.
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
