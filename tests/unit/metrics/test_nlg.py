"""Language scores are those of the original package, of texts that stand in one line."""

import polars as pl
import pytest
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.rouge.rouge import Rouge

from pacer.metrics.nlg import meteor_columns, single_line, with_overlap
from pacer.metrics.score_kinds import Context
from pacer.metrics.scores import LANGUAGE
from tests.support.metrics import random_texts


def scored(references: list[str], hypotheses: list[str]) -> dict[str, float | None]:
    pairs = pl.DataFrame({"reference": references, "hypothesis": hypotheses})
    context = Context(with_overlap(pairs).with_columns(meteor_columns(pairs)[0]), "llm-rg4")
    return {key: value for score in LANGUAGE for key, value in score.of(context).items()}


def rouge(reference: str, hypothesis: str) -> float:
    return with_overlap(pl.DataFrame({"reference": [reference], "hypothesis": [hypothesis]}))["rougeL"][0]


def test_equals_the_original_package(quick_meteor):
    texts = random_texts(1, 30, least=5), random_texts(2, 30, least=5)
    scores, pairs = scored(*texts), [{place: [text] for place, text in enumerate(side)} for side in texts]
    assert list(scores) == ["bleu1", "bleu2", "bleu3", "bleu4", "rougeL", "meteor", "cider"]
    assert scores["rougeL"] == pytest.approx(Rouge().compute_score(*pairs)[0])
    assert scores["cider"] == Cider().compute_score(*pairs)[0]
    bleu = [scores[f"bleu{order}"] for order in range(1, 5)]
    assert bleu == pytest.approx(Bleu(4).compute_score(*pairs, verbose=0)[0], rel=1e-14)


def test_texts_are_compared_as_they_are():
    for other in ("the heart is normal.", "The heart is normal .", "the heart is  normal ."):
        assert rouge("the heart is normal .", other) != 1.0
    assert (rouge("", ""), rouge("a b", "")) == (1.0, 0.0)


def test_empty_hypotheses_have_a_score_and_equal_references_no_cider(quick_meteor):
    scores = scored(random_texts(1, 4, least=5), [""] * 4)
    assert all(value == pytest.approx(0.0, abs=1e-6) for value in scores.values())
    for equal in (["the heart is normal ."], ["the heart is normal .", "the  heart is normal . "], ["", ""]):
        scores = scored(equal, equal)
        assert scores["cider"] is None and scores["rougeL"] == 1.0


def test_line_breaks_and_tabs_are_spaces_and_doubled_spaces_stay():
    """pycocoevalcap's ROUGE-L splits words only at single spaces: a line break glues two words into one."""
    lines = {"no\n effusion  .\n": "no effusion  .", "no\teffusion\u2028.": "no effusion .", "x  y ": "x  y "}
    assert {text: single_line(text) for text in lines} == lines
    glued = "no\neffusion\n."
    assert rouge("no effusion .", glued) < rouge("no effusion .", single_line(glued)) == 1.0
