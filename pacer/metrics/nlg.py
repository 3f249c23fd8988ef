"""Language scores: BLEU-1 to 4, ROUGE-L, METEOR 1.5 and CIDEr as computed by ``pycocoevalcap``.

The texts are compared as they are: tokens are what stands between blanks, nothing is lower-cased or tokenised
further, as in LLM-RG4's code (paper, appendix "Clinical and Language Metrics": "the repository evaluation
implementation", against cleaned references). BLEU is the corpus score with the closest reference length; ROUGE-L
(beta 1.2) and CIDEr are means of the rows; METEOR is its own corpus aggregate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.rouge.rouge import Rouge

from pacer.core.errors import DataError
from pacer.metrics.meteor import Meteor
from pacer.metrics.pairing import check_pairs

#: The scores given, in this order.
NLG_SCORES: tuple[str, ...] = ("bleu1", "bleu2", "bleu3", "bleu4", "rougeL", "meteor", "cider")

Texts = Mapping[str, str | Sequence[str]]


@dataclass(frozen=True)
class LanguageScores:
    """``scores`` by name, and by row: ``rouge``, ``meteor`` and what METEOR counted, ``meteor_statistics``."""

    scores: dict[str, float | None]
    rouge: list[float]
    meteor: list[float]
    meteor_statistics: list[list[float]]


def nlg_scores(references: Texts, hypotheses: Texts, meteor: Meteor | None = None) -> dict[str, float | None]:
    """The language scores of ``hypotheses`` against ``references``, paired by id.

    Args:
        references: id -> text (or a list with one text).
        hypotheses: the same ids -> text (or a list with one text).
        meteor: a running METEOR; default: one is started and ended here (its start-up takes seconds).

    Returns:
        :data:`NLG_SCORES` by name, each 0 to 1, CIDEr 0 to 10. CIDEr weighs n-grams by how few references have them and
        is undefined (``None``) for a single pair.

    Raises:
        DataError: no pairs, ids that differ, or a value that is not one text. MeteorError: Java failed.
    """
    expected, found = _one_text_each(references, "references"), _one_text_each(hypotheses, "hypotheses")
    check_pairs(list(expected), list(found), "references", "hypotheses")
    pairs = list(expected.values()), [found[key] for key in expected]
    with Meteor() if meteor is None else nullcontext(meteor) as running:
        return language_scores(*pairs, running).scores


def language_scores(references: Sequence[str], hypotheses: Sequence[str], meteor: Meteor) -> LanguageScores:
    """All language scores of texts paired by position.

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


def _one_text_each(texts: Texts, what: str) -> dict[str, str]:
    single = {}
    for key, value in texts.items():
        if isinstance(value, list | tuple) and len(value) == 1:
            value = value[0]
        if not isinstance(value, str):
            raise DataError(f"{what}, id {key}: expected one text, got {type(value).__name__}")
        single[key] = value
    return single
