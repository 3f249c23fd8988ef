"""The conventions of clinical efficacy: which labels count as present, and what is averaged.

Paper, appendix "Clinical and Language Metrics": over 14 observations, positive and uncertain count
as present, blank and negative as absent; precision, recall and F1 are micro-averaged over cases and
observations. Other groups use other conventions, and the same labels give different numbers under
each, so a number without its convention cannot be compared.
"""

from dataclasses import dataclass
from typing import Literal, get_args

from pacer.backbones.observations import OBSERVATIONS, POSITIVE, UNCERTAIN

#: micro: over all cells of records x observations; macro: mean over observations; weighted: mean
#: over observations, weighted by the number of references with the observation; example: mean over
#: records.
Average = Literal["micro", "macro", "weighted", "example"]
Ratio = Literal["precision", "recall", "f1"]
#: The three ratios, in the order of reporting.
RATIOS: tuple[Ratio, ...] = get_args(Ratio)


@dataclass(frozen=True)
class Convention:
    """How labels become scores; ``docs/scores.md`` lists which published evaluations follow
    which convention. ``present``: classes that count as present; all others are absent.
    ``observations``: the labels that are scored. ``averages``: what the convention reports; the
    first is its headline, and never ``example``, which cannot be computed from sums over cases.
    ``duplicates``: ``all`` rows, or the ``first`` of each study.

    In averages over observations or records (all but ``micro``), those whose precision, recall or
    F1 is undefined count as 0. All published code does this: LLM-RG4, R2Gen, f1chexbert and RadEval
    by scikit-learn's default, CvT2DistilGPT2, CXRMate and MLRG by ``fillna(0)``.
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
        (POSITIVE, UNCERTAIN),
        ("Cardiomegaly", "Edema", "Consolidation", "Atelectasis", "Pleural Effusion"),
    ),
    "weighted": Convention((POSITIVE, UNCERTAIN), averages=("weighted",)),
}
