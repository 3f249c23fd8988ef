"""BLEU's counts, ROUGE-L and CIDEr equal those of pycocoevalcap for any texts."""

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pycocoevalcap.bleu import bleu_scorer
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.rouge.rouge import Rouge

from pacer.metrics import language

#: Few words, so that n-grams recur; and spaces at which `split` splits, but ROUGE-L does not.
TEXTS = st.lists(
    st.sampled_from(["no", "left", "effusion", ".", "Edema", "œdème", "", "\u00a0", "\u2028"]),
    max_size=30,
).map(" ".join)
PAIRS = st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=12)
FULL, EMPTY = "no left effusion . no left edema .", ""


def counts_of_the_package(reference: str, hypothesis: str) -> list[float]:
    found = bleu_scorer.cook_test(hypothesis, bleu_scorer.cook_refs([reference]))
    return [*found["correct"], *found["guess"], found["testlen"], *found["reflen"]]


@given(PAIRS)
@example([(FULL, FULL), (EMPTY, FULL), (FULL, EMPTY), (EMPTY, EMPTY), ("no", "no"), ("", " ")])
def test_counts_of_bleu_equal_the_package(pairs: list[tuple[str, str]]) -> None:
    references, hypotheses = zip(*pairs, strict=True)
    expected = [counts_of_the_package(*pair) for pair in pairs]
    assert language.bleu_statistics(references, hypotheses).tolist() == expected


@given(TEXTS, TEXTS)
@example(FULL, EMPTY)
@example(EMPTY, EMPTY)
def test_rouge_l_equals_the_package_to_the_last_digit(reference: str, hypothesis: str) -> None:
    assert language.rouge_l(reference, hypothesis) == Rouge().calc_score([hypothesis], [reference])


@given(PAIRS)
@example([(FULL, FULL), (EMPTY, FULL), ("no", "no"), ("no effusion", EMPTY)])
def test_cider_equals_the_package(pairs: list[tuple[str, str]]) -> None:
    found = language.cider(pl.DataFrame(pairs, ["reference", "hypothesis"], orient="row"))
    references, hypotheses = (
        {row: [text] for row, text in enumerate(side)} for side in zip(*pairs, strict=True)
    )
    if len({tuple(text.split()) for text, _ in pairs}) < 2:
        assert found is None
    else:
        expected = Cider().compute_score(references, hypotheses)[0]
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_scores_do_not_depend_on_how_many_texts_are_counted_at_a_time(monkeypatch) -> None:
    words = [f"{FULL} {'effusion ' * (row % 5)}" for row in range(40)]
    cases = pl.DataFrame({"reference": words, "hypothesis": [*words[3:], *words[:3]]})
    sides = cases["reference"].to_list(), cases["hypothesis"].to_list()
    cider, counts = language.cider(cases), language.bleu_statistics(*sides)
    monkeypatch.setattr(language, "_WORDS_AT_A_TIME", 20)
    assert language.cider(cases) == pytest.approx(cider, rel=1e-12)
    assert np.array_equal(language.bleu_statistics(*sides), counts)


def test_long_texts_and_large_vocabularies_are_counted() -> None:
    """Of 70,000 different words, the number of a 4-gram exceeds 63 bits."""
    text = " ".join(map(str, range(70_000)))
    found = language.bleu_statistics([text, "no effusion"], [text, "effusion"])
    assert found[:, :4].tolist() == [[70_000, 69_999, 69_998, 69_997], [1, 0, 0, 0]]
