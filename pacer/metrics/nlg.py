"""Language scores: BLEU-1 to 4, ROUGE-L and METEOR 1.5 as computed by ``pycocoevalcap``.

The texts are compared as they are: tokens are what stands between blanks, nothing is lower-cased or tokenised
further (paper, appendix "Evaluation Details"; both sides are in the cleaned form). BLEU is the corpus score with
the closest reference length; ROUGE-L (beta 1.2) is the mean of the rows; METEOR is its own corpus aggregate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.rouge.rouge import Rouge

from pacer.core.errors import DataError
from pacer.metrics.meteor import Meteor
from pacer.metrics.pairing import check_pairs

#: The scores given, in this order.
NLG_SCORES: tuple[str, ...] = ("bleu1", "bleu2", "bleu3", "bleu4", "rougeL", "meteor")

Texts = Mapping[str, str | Sequence[str]]


def nlg_scores(references: Texts, hypotheses: Texts, meteor: Meteor | None = None) -> dict[str, float]:
    """BLEU-1 to 4, ROUGE-L and METEOR of ``hypotheses`` against ``references``, paired by id.

    Args:
        references: id -> text (or a list with one text).
        hypotheses: the same ids -> text (or a list with one text).
        meteor: a running METEOR; default: one is started and ended here (its start-up takes seconds).

    Returns:
        ``{"bleu1", "bleu2", "bleu3", "bleu4", "rougeL", "meteor"}``, each 0 to 1.

    Raises:
        DataError: no pairs, ids that differ, or a value that is not one text. MeteorError: Java failed.
    """
    expected, found = _one_text_each(references, "references"), _one_text_each(hypotheses, "hypotheses")
    check_pairs(list(expected), list(found), "references", "hypotheses")
    if not expected:
        raise DataError("no pairs to score: references and hypotheses are empty")
    ids = list(expected)
    bleu, _ = Bleu(4).compute_score({i: [expected[i]] for i in ids}, {i: [found[i]] for i in ids}, verbose=0)
    rows = rouge_rows([expected[i] for i in ids], [found[i] for i in ids])
    scores = {f"bleu{order}": float(value) for order, value in enumerate(bleu, start=1)}
    scores["rougeL"] = sum(rows) / len(rows)
    pairs = [expected[i] for i in ids], [found[i] for i in ids]
    if meteor is not None:
        scores["meteor"] = meteor(*pairs)[0]
    else:
        with Meteor() as own:
            scores["meteor"] = own(*pairs)[0]
    return scores


def rouge_rows(references: Sequence[str], hypotheses: Sequence[str]) -> list[float]:
    """ROUGE-L of each pair, row by row."""
    rouge = Rouge()
    return [float(rouge.calc_score([found], [expected]))
            for expected, found in zip(references, hypotheses, strict=True)]


def _one_text_each(texts: Texts, what: str) -> dict[str, str]:
    single = {}
    for key, value in texts.items():
        if isinstance(value, list | tuple) and len(value) == 1:
            value = value[0]
        if not isinstance(value, str):
            raise DataError(f"{what}, id {key}: expected one text, got {type(value).__name__}")
        single[key] = value
    return single
