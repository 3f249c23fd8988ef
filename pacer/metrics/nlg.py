"""Language scores: BLEU-1 to 4, ROUGE-L, METEOR 1.5 and CIDEr as computed by ``pycocoevalcap``.

The texts are compared as they are: tokens are what stands between blanks, nothing is lower-cased or tokenised
further, as in LLM-RG4's code (paper, appendix "Clinical and Language Metrics": "the repository evaluation
implementation", against cleaned references). BLEU is the corpus score with the closest reference length; ROUGE-L
(beta 1.2) and CIDEr are means of the rows; METEOR is its own corpus aggregate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.rouge.rouge import Rouge

from pacer.core.errors import DataError
from pacer.metrics.meteor import Meteor

#: The scores given, in this order.
NLG_SCORES: tuple[str, ...] = ("bleu1", "bleu2", "bleu3", "bleu4", "rougeL", "meteor", "cider")


@dataclass(frozen=True)
class LanguageScores:
    """``scores`` by name, and by row: ``rouge``, ``meteor`` and what METEOR counted, ``meteor_statistics``."""

    scores: dict[str, float | None]
    rouge: list[float]
    meteor: list[float]
    meteor_statistics: list[list[float]]


def language_scores(references: Sequence[str], hypotheses: Sequence[str], meteor: Meteor) -> LanguageScores:
    """All language scores of texts paired by position: :data:`NLG_SCORES`, each 0 to 1, CIDEr 0 to 10. CIDEr weighs
    n-grams by how few references have them, and is None for a single pair.

    Raises:
        DataError: no pairs, or not as many of each. MeteorError: Java failed.
    """
    if not references or len(references) != len(hypotheses):
        raise DataError(f"no pairs to score: {len(references)} references and {len(hypotheses)} hypotheses")
    expected, found = ({row: [text] for row, text in enumerate(texts)} for texts in (references, hypotheses))
    bleu, _ = Bleu(4).compute_score(expected, found, verbose=0)
    rouge = rouge_rows(references, hypotheses)
    by_meteor = meteor.score(references, hypotheses)
    scores: dict[str, float | None] = {f"bleu{order}": float(value) for order, value in enumerate(bleu, start=1)}
    scores["rougeL"] = sum(rouge) / len(rouge)
    scores["meteor"] = by_meteor.total
    scores["cider"] = float(Cider().compute_score(expected, found)[0]) if len(references) > 1 else None
    return LanguageScores(scores, rouge, by_meteor.rows, by_meteor.statistics)


def rouge_rows(references: Sequence[str], hypotheses: Sequence[str]) -> list[float]:
    """ROUGE-L of each pair, row by row."""
    rouge = Rouge()
    return [
        float(rouge.calc_score([found], [expected])) for expected, found in zip(references, hypotheses, strict=True)
    ]
