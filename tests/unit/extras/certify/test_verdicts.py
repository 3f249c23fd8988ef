"""Verdicts on metrics whose behaviour is known, and what a user gives."""

import contextlib
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import pacer
from pacer.core.errors import ConfigError, DataError
from pacer.extras.certify import metrics
from pacer.extras.certify.cards import (
    COMPARED,
    FAULTS,
    OPPOSITE,
    REPEATED,
    WORDS,
    facts,
    make_cards,
    of_synthetic,
)
from pacer.extras.certify.metrics import scores_of
from pacer.extras.certify.verdicts import Judged, chart, judge, notes, tables, verdict
from pacer.metrics.scores import SCORE_OF
from pacer.statistics.halves import Interval

OF_FINDINGS = [kind for kind in FAULTS if kind not in (COMPARED, REPEATED)]


@pytest.fixture(scope="module")
def cards() -> pl.DataFrame:
    return make_cards(of_synthetic(7, 100))


def judged(cards: pl.DataFrame, scores: Sequence[float]) -> tuple[Judged, dict[str, str]]:
    found = judge(cards, np.array(scores, dtype=float))
    return found, {kind: found[kind]["verdict"] for kind in FAULTS if kind in found}


def wrong_facts(cards: pl.DataFrame) -> list[float]:
    pairs = cards["reference", "text"].iter_rows()
    return [sum(a != b for a, b in zip(facts(one), facts(other))) for one, other in pairs]


def test_a_perfect_metric_sees_what_the_rules_read(cards: pl.DataFrame) -> None:
    found, verdicts = judged(cards, [-count for count in wrong_facts(cards)])
    assert [kind for kind in FAULTS if verdicts[kind] == "sees"] == OF_FINDINGS
    for kind in OF_FINDINGS:
        assert found[kind]["below"].value == found[kind]["lowered"].value == 1
        assert found[kind]["cost"].value == 1
        assert found[kind]["by dose"].value == pytest.approx(-1)
    assert all(found[kind]["cost"].value == found[kind]["in faults"].value == 0 for kind in WORDS)


def test_a_constant_is_blind(cards: pl.DataFrame) -> None:
    found, verdicts = judged(cards, [0.3] * len(cards))
    assert {*verdicts.values()} == {"blind"}
    assert {found[kind][of].value for kind in FAULTS for of in ("below", "lowered")} == {0.5}
    assert found["other order"]["in faults"].value is None


def test_noise_and_rounding_errors_are_blind(cards: pl.DataFrame) -> None:
    noise = np.random.default_rng(0).normal(size=len(cards))
    _, verdicts = judged(cards, noise)
    assert list(verdicts.values()).count("blind") >= len(FAULTS) - 1
    found, _ = judged(cards, 0.3 + 1e-12 * noise)
    assert {found[kind]["below"].value for kind in FAULTS} == {0.5}


def test_the_length_is_found_out(cards: pl.DataFrame) -> None:
    _, verdicts = judged(cards, [-len(text) for text in cards["text"]])
    assert verdicts["finding dropped"] == verdicts["finding denied"] == "rewards"
    assert verdicts[REPEATED] == "sees"


def test_a_metric_of_words_rewards_what_changes_few_of_them() -> None:
    """Words in common fall more with other words for the same facts than with a wrong side."""
    cards = make_cards(of_synthetic(7, 200))  # many reports are normal and have no side
    pairs = cards["reference", "text"].iter_rows()
    shared = [len({*a.split()} & {*b.split()}) / len({*a.split(), *b.split()}) for a, b in pairs]
    found, verdicts = judged(cards, shared)
    assert verdicts["side swapped"] == "rewards"
    assert found["side swapped"]["cost"].low > 0
    assert found["other report"]["in faults"].value > 1
    costs = tables({"overlap": found})[1].rows
    assert re.search(r"\), \d\.\d+ faults$", costs[-1][1])


def test_exact_f1_sees_all_seven_kinds_of_wrong_findings(cards: pl.DataFrame) -> None:
    scores = scores_of(cards, {}, ["exact_f1"])
    found, verdicts = judged(cards, scores["exact_f1"])
    assert [kind for kind in FAULTS if verdicts[kind] == "sees"] == OF_FINDINGS
    assert min(found[kind]["below"].value for kind in OF_FINDINGS) >= 0.9
    assert {found[kind]["cost"].value for kind in WORDS} == {0}


def test_a_metric_that_takes_opposites_for_paraphrases_does_not_see_them(
    cards: pl.DataFrame,
) -> None:
    """Like METEOR, it gives almost all points for a word's opposite."""
    pairs = {"absent": "present", "unlikely": "likely", "abnormal": "normal"}
    scores = []
    for reference, text in cards["reference", "text"].iter_rows():
        before, after = (re.findall(r"\w+", of.lower()) for of in (reference, text))
        alike = [pairs.get(word, word) for word in after]
        same = sum(a == b for a, b in zip(before, alike)) - 0.1 * (alike != after)
        scores.append(same / max(len(before), len(after)))
    found, verdicts = judged(cards, scores)
    assert verdicts[OPPOSITE] == "rewards" and found[OPPOSITE]["lowered"].value == 1


def test_the_references_of_opposites_serve_their_own_row_alone(cards: pl.DataFrame) -> None:
    scores = np.random.default_rng(1).normal(size=len(cards))
    of_opposites = cards["reference"].is_in(cards.filter(kind=OPPOSITE)["reference"].implode())
    with_them, _ = judged(cards, scores)
    without, _ = judged(cards.filter(~of_opposites), scores[~of_opposites.to_numpy()])
    for kind in (*without.keys() - {OPPOSITE},):
        kept = without[kind].keys() - {"in faults"}
        assert {of: with_them[kind][of] for of in kept} == {of: without[kind][of] for of in kept}


def test_scores_of_this_package_are_those_of_single_reports(cards: pl.DataFrame) -> None:
    few = cards.gather_every(len(cards) // 6)
    scores = scores_of(few, {}, ["bleu4", "rougeL", "cider", "repetition", "report_positive_f1"])
    for place, (reference, text) in enumerate(few["reference", "text"].iter_rows()):
        alone = pacer.score([reference], [text], without=["meteor"]).scores["all"]
        for name in ("bleu4", "rougeL", "report_positive_f1"):
            expected = np.nan if alone[name] is None else alone[name]
            assert scores[name][place] == pytest.approx(expected, nan_ok=True)
        assert scores["repetition"][place] == -alone["repetition"]
    assert scores["cider"].max() == pytest.approx(10) and scores["cider"].min() < 9


def test_a_reward_gets_its_arguments_by_name(cards: pl.DataFrame) -> None:
    few = cards[:2].with_columns(reference=pl.lit("Left effusion."), text=pl.lit("Effusion."))
    (score,) = scores_of(few, {}, ["pacer:reward"]).values()
    assert list(score) == pacer.reward(
        completions=["Effusion."] * 2, references=["Left effusion."] * 2
    )
    assert max(score) < 1


def test_few_patients_have_no_verdict(cards: pl.DataFrame) -> None:
    few = cards.filter(pl.col("patient_id").is_in(cards["patient_id"].unique()[:8].implode()))
    _, verdicts = judged(few, [-len(text) for text in few["text"]])
    assert {*verdicts.values()} == {""}


@pytest.mark.parametrize(
    ("below", "lowered", "expected"),
    [
        ((0.6, 0.9), (0.7, 0.8), "sees"),
        ((0.4, 0.9), (0.7, 0.8), "blind"),
        ((0.6, 0.9), (0.4, 0.6), "blind"),
        ((0.1, 0.3), (0.4, 0.6), "blind"),
        ((0.1, 0.3), (0.7, 0.8), "rewards"),
        ((0.6, 0.9), (0.1, 0.2), "rewards"),
        ((None, None), (0.7, 0.8), ""),
    ],
)
def test_verdicts(below: tuple, lowered: tuple, expected: str) -> None:
    shares = {"below": Interval(0.5, *below), "lowered": Interval(0.5, *lowered)}
    assert verdict(shares) == expected
    assert verdict({"cost": Interval(1.0, 0.9, 1.1)}) == ""


def test_undefined_scores_do_not_count(cards: pl.DataFrame) -> None:
    scores = np.array([-float(count) for count in wrong_facts(cards)])
    scores[cards["kind"].to_numpy() == "side swapped"] = np.nan
    found, verdicts = judged(cards, scores)
    assert found["side swapped"]["cost"].value is None and verdicts["side swapped"] == ""
    assert verdicts["finding denied"] == "sees"


def test_tables_have_the_metrics_side_by_side(cards: pl.DataFrame) -> None:
    found = {name: judge(cards, np.full(len(cards), 0.5)) for name in ("one", "other")}
    shown = tables(found)
    assert [table.columns for table in shown] == [
        ("Verdict, share of pairs", *found),
        ("Cost of one text", *found),
    ]
    assert [row[0] for row in shown[0].rows] == [*FAULTS]
    assert shown[0].rows[0][1].startswith("blind 0.500 (")
    assert shown[0].rows[0][1].endswith("), lowered 0.500")
    assert [row[0] for row in shown[1].rows] == [*FAULTS, *WORDS]
    assert shown[1].rows[0][1].endswith("), 0.000 per fault")
    assert "faults" not in shown[1].rows[-1][1]  # of no cost, which is no unit
    drawn = chart(found)
    assert drawn.startswith("<?xml") and all(kind in drawn for kind in FAULTS)


def test_own_cards_have_no_faults(cards: pl.DataFrame) -> None:
    table = cards.filter(pl.col("kind").is_in(["unchanged", *WORDS[:3]]))
    found = {"length": judge(table, np.array([-float(len(text)) for text in table["text"]]))}
    assert [*found["length"]] == [*WORDS[:3]]
    (shown,) = tables(found)
    assert shown.columns[0] == "Cost of one text"
    assert found["length"]["numbered list"]["cost"].value > 0
    assert "fault" not in notes(found)


@pytest.mark.parametrize("name", ["order", "empty", "more columns"])
def test_tables_are_read_by_id(tmp_path: Path, cards: pl.DataFrame, name: str) -> None:
    scores = pl.Series("score", [0.1 * number for number in range(len(cards))])
    table = cards.select("id", scores) if name != "more columns" else cards.with_columns(scores)
    expected = scores.to_numpy().copy()
    if name == "empty":
        place = cards["kind"].to_list().index("finding denied")
        is_given = pl.int_range(pl.len()) != place
        table = table.with_columns(pl.when(is_given).then("score").alias("score"))
        expected[place] = np.nan
    table.sample(fraction=1, shuffle=True, seed=0).write_csv(tmp_path / "mine.csv")
    read = scores_of(cards, {"mine": tmp_path / "mine.csv"}, [])["mine"]
    np.testing.assert_allclose(read, expected)
    both = dict.fromkeys(("one", "other"), tmp_path / "mine.csv")
    higher, lower = scores_of(cards, both, [], lower_is_better=["other"]).values()
    np.testing.assert_allclose(higher, read)
    np.testing.assert_allclose(lower, -read)


@pytest.mark.parametrize(
    ("header", "cell", "message"),
    [
        ("id,points", "1", "needs a column score; it has"),
        ("name,score", "1", "needs a column id with the ids"),
        ("id,score", "high", "expected numbers"),
    ],
)
def test_what_is_wrong_with_a_table(
    tmp_path: Path, cards: pl.DataFrame, header: str, cell: str, message: str
) -> None:
    lines = [header, *(f"{key},{cell}" for key in cards["id"])]
    (tmp_path / "mine.csv").write_text("\n".join(lines))
    with pytest.raises(DataError, match=message):
        scores_of(cards, {"mine": tmp_path / "mine.csv"}, [])


def test_unchanged_texts_need_scores(
    tmp_path: Path, cards: pl.DataFrame, caplog: pytest.LogCaptureFixture
) -> None:
    """All other texts are compared with them, so every kind would count as not seen."""
    for kind in ("unchanged", "other report"):
        scored = cards.select("id", score=pl.when(pl.col("kind") != kind).then(1.0))
        scored.write_csv(tmp_path / f"{kind}.csv")
    with pytest.raises(DataError, match="texts of kind unchanged have no score"):
        scores_of(cards, {"mine": tmp_path / "unchanged.csv"}, [])
    scores_of(cards, {"mine": tmp_path / "other report.csv"}, [])
    assert re.search(r"[\d,]+ of [\d,]+ texts have no score", caplog.text)


def test_a_fault_that_is_rewarded_is_no_unit(cards: pl.DataFrame) -> None:
    judged = judge(cards, np.array([-float(len(text)) for text in cards["text"]]))
    assert judged["numbered list"]["in faults"].value is None


def test_a_table_without_some_ids_is_refused(tmp_path: Path, cards: pl.DataFrame) -> None:
    cards.select("id", score=1.0).head(5).write_csv(tmp_path / "mine.csv")
    with pytest.raises(DataError, match="do not match; missing in"):
        scores_of(cards, {"mine": tmp_path / "mine.csv"}, [])


def test_every_score_of_this_package_has_values_or_a_reason(
    cards: pl.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, known = cards.head(6), []
    scored = pacer.score(few["reference"], few["text"], without=["meteor"])
    monkeypatch.setattr(metrics, "score", lambda *texts, **options: scored)
    for key in SCORE_OF:
        if key != "meteor":
            with contextlib.suppress(ConfigError):
                known += scores_of(few, {}, [key])
    assert {"bleu1", "rougeL", "exact_f1", "attributes_side", "repetition"} <= {*known}


@pytest.mark.parametrize("name", ["f1", "meteor_x", "n", "nowhere:f", "pacer:nothing"])
def test_metrics_without_scores_of_one_text_are_refused(cards: pl.DataFrame, name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        scores_of(cards.head(4), {}, [name])
