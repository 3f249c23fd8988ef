"""The registry of scores: whoever lists scores reads it."""

from __future__ import annotations

import re
from collections import Counter

import polars as pl
import pytest

from pacer.metrics.scores import SCORES, Context, by_case, score_of
from pacer.metrics.statistics.bootstrap import intervals
from pacer.metrics.statistics.intervals import context_sums, resampled_units
from tests.support.repository import ROOT


def test_no_two_scores_have_the_same_key_or_the_same_heading_beside_others() -> None:
    keys = [score.key for score in SCORES]
    headings = [score.heading for score in SCORES if not score.key.endswith("n")]
    assert [name for names in (keys, headings) for name, times in Counter(names).items() if times > 1] == []


def test_a_score_of_cases_is_one_row() -> None:
    """The mean over the cases that have a value, with the same value in the interval; left out without any."""
    score = by_case("words", "Words", pl.col("written") / 2, better="lower", place="contents")
    cases = pl.DataFrame({"record_id": ["a", "b", "c"], "context": "sn", "written": [2.0, None, 6.0]})
    context = Context(cases, None, "llm-rg4")
    assert score.of(context) == {"words": 2.0}
    sums = context_sums(cases, "llm-rg4", [score], resampled_units(cases))
    assert intervals(sums, 100)["sn"]["words"].value == 2.0
    for none in (cases.drop("written"), cases.with_columns(written=pl.lit(None, pl.Float64))):
        assert score.of(Context(none, None, "llm-rg4")) == {}


@pytest.mark.parametrize("key", ["radgraph", "my_score"])
def test_a_column_of_the_user_has_no_direction_until_he_gives_one(key: str) -> None:
    score = score_of(key)
    assert (score.column, score.better, score.tested, score.place) == (key, None, True, "columns")


def test_the_docs_name_the_scores_with_an_interval_or_a_test_and_those_where_lower_is_better() -> None:
    page = (ROOT / "docs" / "evaluation.md").read_text(encoding="utf-8")
    section = page.partition("### Scores with an interval")[2].partition("##")[0]
    named = [re.findall(r"`(\w+)`", part) for part in re.split("`pacer compare`|Lower is better", section)]
    assert named == [
        [score.key for score in SCORES if score.sums],
        [score.key for score in SCORES if score.tested],
        sorted((score.key for score in SCORES if score.better == "lower"), key=named[2].index),
    ]
