"""The registry of scores, and each kind by hand or by the original package: clinical, language,
probabilities."""

import doctest
from collections import Counter
from types import ModuleType

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.rouge.rouge import Rouge
from sklearn.metrics import precision_recall_fscore_support, roc_auc_score

from pacer.backbones.observations import OBSERVATIONS
from pacer.core.findings import FINDINGS
from pacer.metrics import clinical, findings, language, run
from pacer.metrics.clinical import averaged, case_efficacy, label_rows
from pacer.metrics.conventions import CONVENTIONS, RATIOS
from pacer.metrics.language import rouge_l, single_line
from pacer.metrics.run import read_auroc, read_f1
from pacer.metrics.score_kinds import ContextCases, column_score
from pacer.metrics.scores import SCORES, score_of
from pacer.statistics.halves import context_sums, intervals, units_of
from tests.support.cases import listed_cases
from tests.support.metrics import efficacy, random_texts, with_meteor, with_rouge

LANGUAGE = ("bleu1", "bleu2", "bleu3", "bleu4", "rougeL", "meteor", "cider")


def test_no_two_scores_have_the_same_key_or_the_same_heading_beside_others() -> None:
    keys = [score.key for score in SCORES]
    headings = [score.heading for score in SCORES if not score.key.endswith("n")]
    assert [
        name for names in (keys, headings) for name, times in Counter(names).items() if times > 1
    ] == []


@pytest.mark.parametrize("family", [clinical, findings, language, run])
def test_the_examples_of_each_family(family: ModuleType) -> None:
    tried = doctest.testmod(family)
    assert tried.attempted and not tried.failed


def test_a_context_has_at_most_thirty_scores() -> None:
    assert len(SCORES) <= 30


def test_a_column_is_a_mean_over_its_values() -> None:
    """The mean over the cases that have a value, with the same value in the interval; left out
    without any."""
    score = column_score("words")
    cases = pl.DataFrame({"record_id": ["a", "b", "c"], "context": "sn", "words": [1, None, 3]})
    context = ContextCases(cases, "llm-rg4")
    assert score.of(context) == {"words": 2.0}
    sums = context_sums(cases, "llm-rg4", [score], units_of(cases))
    assert intervals(sums, 100)["sn"]["words"].value == 2.0
    for none in (cases.drop("words"), cases.with_columns(words=pl.lit(None, pl.Float64))):
        assert score.of(ContextCases(none, "llm-rg4")) == {}


def test_what_a_score_counts_is_what_it_is_a_share_of() -> None:
    """One case with ones in the columns that it counts has a value, one with ones in all others has
    none."""
    counting = [score for score in (*SCORES, score_of("mine")) if score.sums and score.sums.counted]
    assert {"attributes_side", "contradiction_rate", "mine"} <= {s.key for s in counting}
    for score in counting:
        columns = np.arange(6 if "attributes" in score.key else 2)
        counted = np.isin(columns, score.sums.counted)
        for rows, defined in ((counted, True), (~counted, False)):
            with np.errstate(divide="ignore"):
                value = score.sums.score(rows.astype(float), CONVENTIONS["llm-rg4"])
            assert np.isfinite(value) == defined, score.key


def test_a_column_of_the_user_has_no_direction() -> None:
    score = score_of("my_score")
    assert (score.column, score.better, score.tested, score.place) == (
        "my_score",
        None,
        True,
        "columns",
    )


#: scikit-learn's names of the averages.
AVERAGES = {"micro": "micro", "macro": "macro", "weighted": "weighted", "example": "samples"}


def random_labels(seed: int, count: int = 50) -> np.ndarray:
    labels = np.random.default_rng(seed).integers(0, 4, size=(count, 14))
    labels[:, 13] %= 2
    return labels


@given(
    st.integers(0, 2**31),
    st.integers(1, 40),
    st.sampled_from(sorted(CONVENTIONS)),
    st.sampled_from([0.0, 0.6, 0.97]),
)
@example(1, 1, "nicolson", 1.0)
@example(350, 1, "llm-rg4", 0.0)  # no positive prediction: the precision is undefined
def test_every_average_of_every_convention(seed, count, convention, blank):
    """To the digit what scikit-learn gives."""
    references, hypotheses = random_labels(seed, count), random_labels(seed + 1, count)
    hidden = (
        np.random.default_rng(seed).random((2, count, 14)) < blank
    )  # observations without a positive are common
    references[hidden[0]], hypotheses[hidden[1]] = 0, 0
    rule = CONVENTIONS[convention]
    columns = [OBSERVATIONS.index(name) for name in rule.observations]
    truth, found = (
        np.isin(labels[:, columns], rule.present) for labels in (references, hypotheses)
    )
    scores = efficacy(references, hypotheses, convention)
    for average in rule.averages:
        filling = np.nan if average == "micro" else 0.0
        expected = precision_recall_fscore_support(
            truth, found, average=AVERAGES[average], zero_division=filling
        )[:3]
        if average == "weighted" and not truth.any():
            expected = [np.nan] * 3  # nothing has a weight; scikit-learn then weighs all alike
        values = [scores[f"{name}_{average}"] for name in RATIOS]
        given = [np.nan if value is None else value for value in values]
        np.testing.assert_array_equal(given, list(expected))
    assert len(scores) == 1 + 3 * len(rule.averages) + 3 and scores["n"] == count


def test_the_first_row_of_a_study_counts_where_the_convention_says_so():
    """In each context; a row of an unknown study is not the same study's as another one."""
    labels = {"reference": random_labels(1, 9), "hypothesis": random_labels(2, 9)}
    table = {
        "context": ["sn"] * 6 + ["mw"] * 3,
        "study_id": ["a", "b", "a", None, "", "b", "a", " ", "a"],
    }
    cases = pl.DataFrame(table | {f"{side}_labels": rows.tolist() for side, rows in labels.items()})
    for convention, rule in CONVENTIONS.items():
        kept = [0, 1, 3, 4, 6, 7] if convention == "nicolson" else list(range(9))
        expected = efficacy(*(rows[kept] for rows in labels.values()), convention)
        assert case_efficacy(cases, convention).items() <= expected.items()
        f1 = averaged(label_rows(cases, rule).sum(axis=0), "f1", rule.averages[0])
        assert f1 == pytest.approx(expected["f1"])


def test_uncertain_counts_as_present_and_negative_as_absent():
    references, hypotheses = np.zeros((3, 14), int), np.zeros((3, 14), int)
    references[:, 0], hypotheses[:, 0] = (1, 1, 0), (3, 2, 1)
    scores = efficacy(references, hypotheses)
    assert (scores["precision"], scores["recall"], scores["f1"]) == (0.5, 0.5, 0.5)
    strict = efficacy(references, hypotheses, "r2gen")
    assert (strict["precision"], strict["recall"]) == (0.0, 0.0)


def scored(references: list[str], hypotheses: list[str]) -> dict[str, float | None]:
    pairs = pl.DataFrame({"reference": references, "hypothesis": hypotheses})
    context = ContextCases(with_meteor(with_rouge(pairs)), "llm-rg4")
    return {
        key: value for score in map(score_of, LANGUAGE) for key, value in score.of(context).items()
    }


def test_language_scores_equal_the_original_package(quick_meteor):
    texts = random_texts(1, 30, least=5), random_texts(2, 30, least=5)
    scores, pairs = (
        scored(*texts),
        [{place: [text] for place, text in enumerate(side)} for side in texts],
    )
    assert list(scores) == ["bleu1", "bleu2", "bleu3", "bleu4", "rougeL", "meteor", "cider"]
    assert scores["rougeL"] == pytest.approx(Rouge().compute_score(*pairs)[0])
    assert scores["cider"] == pytest.approx(Cider().compute_score(*pairs)[0], rel=1e-12)
    bleu = [scores[f"bleu{order}"] for order in range(1, 5)]
    assert bleu == pytest.approx(Bleu(4).compute_score(*pairs, verbose=0)[0], rel=1e-14)


def test_texts_are_compared_as_they_are():
    for other in ("the heart is normal.", "The heart is normal .", "the heart is  normal ."):
        assert rouge_l("the heart is normal .", other) != 1.0
    assert (rouge_l("", ""), rouge_l("a b", "")) == (1.0, 0.0)


def test_empty_hypotheses_have_a_score_and_equal_references_no_cider(quick_meteor):
    scores = scored(random_texts(1, 4, least=5), [""] * 4)
    assert all(value == pytest.approx(0.0, abs=1e-6) for value in scores.values())
    for equal in (
        ["the heart is normal ."],
        ["the heart is normal .", "the  heart is normal . "],
        ["", ""],
    ):
        scores = scored(equal, equal)
        assert scores["cider"] is None and scores["rougeL"] == 1.0


def test_line_breaks_and_tabs_are_spaces_and_doubled_spaces_stay():
    """pycocoevalcap's ROUGE-L splits words only at single spaces: a line break glues two words into
    one."""
    lines = {
        "no\n effusion  .\n": "no effusion  .",
        "no\teffusion\u2028.": "no effusion .",
        "x  y ": "x  y ",
    }
    assert {text: single_line(text) for text in lines} == lines
    glued = "no\neffusion\n."
    assert rouge_l("no effusion .", glued) < rouge_l("no effusion .", single_line(glued)) == 1.0


def predicted(rows: int = 400) -> pl.DataFrame:
    draw = np.random.default_rng(3)
    chance = draw.uniform(0, 1, (rows, 13)).round(2)
    there = draw.uniform(0, 1, (rows, 13)) < chance
    nothing = pl.Series([[]] * rows, dtype=pl.List(pl.String))
    return pl.DataFrame(
        {
            "subject_id": [f"p{row // 3}" for row in range(rows)],
            "present": chance.tolist(),
            "reference_positive": [
                [f for f, has in zip(FINDINGS, row, strict=True) if has] for row in there
            ],
            "reference_negative": nothing,
            "reference_uncertain": nothing,
        }
    )


@pytest.mark.parametrize(("chances", "positive", "area"), listed_cases(__file__, "areas"))
def test_area_under_the_curve(
    chances: list[float], positive: list[int], area: float | None
) -> None:
    """The area of edema; the other findings are never there."""
    present = np.zeros((len(chances), 13))
    present[:, FINDINGS.index("edema")] = chances
    there = pl.Series([["edema"] * one for one in positive])
    table = predicted(len(chances)).with_columns(
        present=pl.Series(present.tolist()), reference_positive=there
    )
    assert read_auroc(ContextCases(table, "llm-rg4")) == {"read_auroc": area}


@pytest.mark.parametrize("threshold", [0.3, 0.5])
def test_scores_are_those_of_scikit_learn(threshold: float) -> None:
    table = predicted()
    chance = np.array(table["present"].to_list())
    there = np.array([[f in row for f in FINDINGS] for row in table["reference_positive"]])
    stated = chance >= threshold
    context = ContextCases(table, "llm-rg4", threshold=threshold)
    scores = read_f1(context) | read_auroc(context)
    assert scores["read_f1"] == pytest.approx(
        2 * (stated & there).sum() / (stated.sum() + there.sum())
    )
    assert scores["read_auroc"] == pytest.approx(roc_auc_score(there, chance, average="macro"))
    unread = table.with_columns(present=pl.lit(None, pl.List(pl.Float64)))
    for cases in (table.drop("present"), unread, pl.concat([table, unread])):
        assert not read_f1(ContextCases(cases, "llm-rg4"))
        assert not read_auroc(ContextCases(cases, "llm-rg4"))
