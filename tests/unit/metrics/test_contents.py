"""Commitment scores, attributes, repetition, wording of comparison, counts of extraction, and
shares of copies."""

import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacer.core.anchor import FINDINGS, POLARITIES, Anchor
from pacer.metrics.cases import COLUMNS
from pacer.metrics.score_kinds import ContextCases
from pacer.metrics.scores import context_counts, score_of
from pacer.statistics.checks import warnings
from pacer.text.cleaning.repetition import repetition
from pacer.text.cleaning.wording import prior_wording
from pacer.text.rules import extract_anchor
from tests.support.cases import listed_cases
from tests.support.metrics import read_texts

#: A score of reports and one of commitments.
COMMITMENTS = ("report_positive_f1", "anchor_positive_f1")
NOTHING: dict[str, list[str]] = {"positive": [], "negative": [], "uncertain": []}


def anchor(**fields: list[str]) -> dict[str, list[str]]:
    return NOTHING | fields


def scored(cases: pl.DataFrame, *keys: str) -> dict[str, float | None]:
    """The scores of some keys that apply."""
    cases = cases if "record_id" in cases.columns else cases.with_columns(record_id=pl.lit("a"))
    context = ContextCases(cases, "llm-rg4")
    return {key: value for name in keys for key, value in score_of(name).of(context).items()}


def table(**sides: list[dict[str, list[str]] | None]) -> pl.DataFrame:
    columns = {
        f"{side}_{polarity}": [None if one is None else one[polarity] for one in anchors]
        for side, anchors in sides.items()
        for polarity in POLARITIES
    }
    return pl.DataFrame(columns, schema={name: COLUMNS[name] for name in columns})


@given(
    st.lists(st.lists(st.integers(0, 3), min_size=13, max_size=13), min_size=1, max_size=8),
    st.integers(0, 2**31),
)
def test_f1_of_denied_findings(rows: list[list[int]], seed: int):
    expected, found = np.array(rows), np.random.default_rng(seed).integers(0, 4, (len(rows), 13))
    sides = {}
    for side, matrix in (("reference", expected), ("report", found)):
        sides[side] = [
            {
                name: [f for f, state in zip(FINDINGS, row, strict=True) if state == place]
                for place, name in enumerate(POLARITIES)
            }
            for row in matrix
        ]
    both, used = ((expected == 1) & (found == 1)).sum(), (expected == 1).sum() + (found == 1).sum()
    f1 = pytest.approx(2 * both / used) if used else None
    assert scored(table(**sides), "report_negative_f1") == {"report_negative_f1": f1}


def test_reports_and_commitments_are_compared_with_the_reference_commitment():
    references = [
        anchor(positive=["edema"], negative=["pneumothorax"]),
        anchor(uncertain=["pneumonia"]),
    ]
    generated = [anchor(positive=["edema", "fracture"]), anchor(negative=["pneumonia"])]
    mixed = anchor(positive=["edema"], negative=["fracture"], uncertain=["atelectasis"])
    reports = [mixed, anchor(negative=["pneumonia"])]
    scores = scored(table(reference=references, anchor=generated, report=reports), *COMMITMENTS)
    assert scores == {
        "report_positive_f1": 1.0,
        "anchor_positive_f1": pytest.approx(2 / 3),  # the fracture is not in the reference
    }


def test_records_without_a_commitment_are_left_out_of_its_scores():
    given = [anchor(positive=["edema"]), anchor(negative=["edema"])]
    scores = scored(table(reference=given, anchor=[None, given[1]], report=given), *COMMITMENTS)
    assert scores["anchor_positive_f1"] is None  # nobody affirms anything there
    twice = [given[0], given[0]]
    scores = scored(table(reference=twice, anchor=[None, given[0]], report=twice), *COMMITMENTS)
    assert scores["anchor_positive_f1"] == 1.0
    assert not scored(table(reference=given, anchor=[None, None], report=given), *COMMITMENTS[1:])


def read(states: str) -> dict[str, list[str]]:
    """The commitment of letters with signs; see the table."""
    names = {"e": "edema", "p": "pleural effusion", "x": "pneumothorax"}
    signs = {"+": "positive", "-": "negative", "?": "uncertain"}
    return NOTHING | {signs[one[0]]: [names[one[1]]] for one in states.split()}


def stated(states: str) -> str:
    """A text with these findings."""
    words = {"positive": "{} .", "negative": "no {} .", "uncertain": "possible {} ."}
    lists = read(states).items()
    return " ".join(words[state].format(name) for state, names in lists for name in names)


@pytest.mark.parametrize(
    ("commitment", "report", "expected"), listed_cases(__file__, "contradictions")
)
def test_a_report_contradicts_its_commitment_where_it_states_the_opposite(
    commitment: str | None, report: str, expected: list[str] | None
):
    listed = None if commitment is None else Anchor.of_lists(read(commitment))
    cases, findings = read_texts([""], [stated(report)], [listed])
    for finding, state in findings.select("finding", "committed_state").iter_rows():
        assert state == (None if listed is None else listed.polarity(finding))
    assert cases["contradictions"].to_list() == [expected]
    rate = {} if expected is None else {"contradiction_rate": float(bool(expected))}
    assert scored(cases, "contradiction_rate") == rate


@pytest.mark.parametrize(("reference", "report", "counts"), listed_cases(__file__, "attributes"))
def test_attributes_that_the_reference_names_are_compared(
    reference: str, report: str, counts: list[int]
) -> None:
    cases, _ = read_texts([reference], [report])
    assert cases["attributes"].to_list() == [counts]


def test_the_number_of_sides_that_are_compared_is_counted() -> None:
    texts = ["left effusion ."] * 2
    made, _ = read_texts(texts, ["left effusion .", "edema ."])
    assert scored(made, "attributes_side") == {"attributes_side": 1.0}
    context = ContextCases(made.with_columns(hypothesis_labels=None), "llm-rg4")
    assert context_counts(context, [])["attributes_side"] == 1


def test_comparisons_without_a_previous_report() -> None:
    reports = ["heart is unchanged .", "no change from the previous exam .", "small effusion ."]
    wording = [list(prior_wording(text)) for text in reports]
    assert "unchanged" in wording[0] and not wording[2]
    cases = pl.DataFrame({"hypothesis_wording": wording})
    key = "unfounded_prior_wording_rate"
    for context in ("sn", "mn"):
        of_context = cases.with_columns(context=pl.lit(context))
        assert scored(of_context, key) == {key: pytest.approx(2 / 3)}
    for context in ("sw", "mw", "all"):  # a previous report was there, or it is not known
        assert scored(cases.with_columns(context=pl.lit(context)), key) == {}


def test_extraction_is_counted_from_the_lines():
    cases = pl.DataFrame({"fallback": [False, False, True]})
    assert scored(cases, "fallback_rate") == {"fallback_rate": 1 / 3}


@pytest.mark.parametrize(("text", "share"), listed_cases(__file__, "repeats"))
def test_words_that_repeat(text: str, share: str | int | None) -> None:
    assert repetition(text) == (None if share is None else pytest.approx(float(Fraction(share))))


@pytest.mark.parametrize("read", [repetition, extract_anchor])
@pytest.mark.parametrize("part", ["clear ", "\n", "\n\n ", ", "])
def test_a_long_text_costs_no_more_than_its_length(
    read: Callable[[str], object], part: str
) -> None:
    def seconds(parts: int) -> float:
        start = time.process_time()
        read(f"no effusion {part * parts} pneumothorax .")
        return time.process_time() - start

    # each text is another one, because readings are cached
    short, long = (min(seconds(parts + turn) for turn in range(5)) for parts in (20_000, 40_000))
    assert long < 3 * short


def test_repetition_far_above_that_of_the_references_is_said() -> None:
    for share, said in ((0.04, []), (0.06, ["an earlier sentence: SN 6% (references 0%)."])):
        cases = pl.DataFrame(
            {
                "context": ["sn"] * 2,
                "hypothesis": ["a", "b"],
                "reference": ["a", "b"],
                "hypothesis_repetition": [0.0, 2 * share],
                "reference_repetition": [None, 0.0],
                "anchor_positive": [None, None],
                "reference_positive": [["edema"], []],
            },
            schema_overrides={"anchor_positive": pl.List(pl.String)},
        )
        found = warnings(cases, "llm-rg4")
        assert [line.rpartition("or ")[2] for line in found] == said


def test_commitments_that_affirm_too_little_and_equal_reports_are_said() -> None:
    """A third of the references affirm nothing, and no two of them are equal."""
    columns = {
        "context": ["mw"] * 6,
        "hypothesis": ["a", "a", "a", "b", "c", "d"],
        "reference": [*"abcdef"],
        "hypothesis_repetition": [0.0] * 6,
        "reference_repetition": [0.0] * 6,
        "anchor_positive": [[], [], [], ["edema"], ["edema"], None],
        "reference_positive": [["edema"]] * 4 + [[]] * 2,
        "another_patient_unchanged": [True] * 3 + [False] * 3,
    }
    found = warnings(pl.DataFrame(columns), "llm-rg4")
    assert [line.partition(":")[2] or line for line in found] == [
        " MW 50% (references 17%).",
        " MW 60% (references 33%).",
        " MW 50%.",
    ]
    better = columns | {
        "hypothesis": [*"abcdef"],
        "anchor_positive": columns["reference_positive"],
        "another_patient_unchanged": [True] * 2 + [False] * 4,
    }
    assert warnings(pl.DataFrame(better), "llm-rg4") == []
    of_an_earlier_version = pl.DataFrame(columns).drop("hypothesis_repetition")
    assert warnings(of_an_earlier_version, "llm-rg4") == found
