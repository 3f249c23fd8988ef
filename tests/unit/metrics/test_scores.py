"""The registry of scores: whoever lists scores reads it."""

from collections import Counter

import numpy as np
import polars as pl

from pacer.metrics.clinical import CONVENTIONS
from pacer.metrics.score_kinds import Context, by_case
from pacer.metrics.scores import SCORES, score_of
from pacer.metrics.statistics.bootstrap import intervals
from pacer.metrics.statistics.intervals import context_sums, units_of
from tests.support.documented_scores import PAGE, score_table, with_table


def test_no_two_scores_have_the_same_key_or_the_same_heading_beside_others() -> None:
    keys = [score.key for score in SCORES]
    headings = [score.heading for score in SCORES if not score.key.endswith("n")]
    assert [name for names in (keys, headings) for name, times in Counter(names).items() if times > 1] == []


def test_a_score_of_cases_is_one_row() -> None:
    """The mean over the cases that have a value, with the same value in the interval; left out without any."""
    score = by_case("words", "Words", pl.col("written") / 2, "half the words", "lower", interval=True, place="contents")
    cases = pl.DataFrame({"record_id": ["a", "b", "c"], "context": "sn", "written": [2.0, None, 6.0]})
    context = Context(cases, "llm-rg4")
    assert score.of(context) == {"words": 2.0}
    sums = context_sums(cases, "llm-rg4", [score], units_of(cases))
    assert intervals(sums, 100)["sn"]["words"].value == 2.0
    for none in (cases.drop("written"), cases.with_columns(written=pl.lit(None, pl.Float64))):
        assert score.of(Context(none, "llm-rg4")) == {}


def test_what_a_score_counts_is_what_it_is_a_share_of() -> None:
    """One case with ones in the columns that it counts has a value, one with ones in all others has none."""
    counting = [score for score in (*SCORES, score_of("mine")) if score.sums and score.sums.counted]
    assert {"attributes", "attributes_side", "new_stated", "uncommitted_sides", "mine"} <= {s.key for s in counting}
    for score in counting:
        counted = np.isin(
            np.arange(6 if "attributes" in score.key else 3 if "stated" in score.key else 2), score.sums.counted
        )
        for rows, defined in ((counted, True), (~counted, False)):
            with np.errstate(divide="ignore"):
                value = score.sums.score(rows.astype(float), CONVENTIONS["llm-rg4"])
            assert np.isfinite(value) == defined, score.key


def test_a_column_of_the_user_has_no_direction() -> None:
    score = score_of("my_score")
    assert (score.column, score.better, score.tested, score.place) == ("my_score", None, True, "columns")


def test_the_docs_have_the_table_of_the_registry() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_table(page), "run `python -m tests.support.documented_scores`"
    assert score_table() in page
