"""The cards: a dose is what the rules read, other words change nothing, and a seed is one table."""

import random
import re
from collections import Counter
from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacer.core.attributes import Attributes
from pacer.core.io import hash_bytes
from pacer.extras.certify.cards import (
    COMPARED,
    FAULTS,
    INVENTED,
    OPPOSITE,
    REPEATED,
    UNCHANGED,
    WORDS,
    exchanged,
    facts,
    make_cards,
    of_reports,
    of_synthetic,
    reworded_texts,
)
from pacer.text.cleaning.repetition import repetition
from pacer.text.cleaning.wording import compares_with_prior

#: What a fault changes in a finding: its state before and after, or an attribute.
STATES = {
    "finding denied": ("positive uncertain", "negative"),
    "finding dropped": ("positive uncertain", None),
    INVENTED: (None, "positive"),
}
PARTS = {"side swapped": 0, "severity changed": 1, "course reversed": 2}


@pytest.fixture(scope="module")
def made() -> pl.DataFrame:
    return make_cards(of_synthetic(5, 80))


@given(st.integers(0, 10_000))
def test_a_dose_is_the_number_of_facts_that_differ(seed: int) -> None:
    table = make_cards(of_synthetic(seed, 2))
    for reference, text, kind, dose in table["reference", "text", "kind", "dose"].iter_rows():
        pairs = [
            (before, after)
            for before, after in zip(facts(reference), facts(text))
            if before != after
        ]
        if kind in STATES:
            before_it, after_it = STATES[kind]
            assert len(pairs) == dose
            for (before, _), (after, _) in pairs:
                assert before == before_it or before in (before_it or "").split()
                assert after == after_it
        elif kind in PARTS:
            assert len(pairs) == dose
            for (state, attributes), (after, others) in pairs:
                assert state == after
                pair = zip(attributes or Attributes(), others or Attributes())
                differ = [place for place, (one, other) in enumerate(pair) if one != other]
                assert differ == [PARTS[kind]]
        elif kind == OPPOSITE:
            assert len(pairs) == dose
            # the rules read no finding in "the heart is abnormal"
            states = {"positive": "negative", "uncertain": "negative", "negative": None}
            assert all(after == states[before] for (before, _), (after, _) in pairs)
        else:
            assert not pairs


def test_comparisons_are_added_only_where_there_is_no_previous_report(made: pl.DataFrame) -> None:
    compared = made.filter(kind=COMPARED)
    assert not compared.is_empty()
    for reference, text, dose in compared["reference", "text", "dose"].iter_rows():
        assert not compares_with_prior(reference) and compares_with_prior(text)
        assert sum(map(text.lower().count, ("prior study", "radiograph,", "image,"))) >= dose


def test_a_repeated_sentence_stands_once_more(made: pl.DataFrame) -> None:
    for reference, text, dose in made.filter(kind=REPEATED)[
        "reference", "text", "dose"
    ].iter_rows():
        assert (repetition(text) or 0) > (repetition(reference) or 0)
        assert text.count(".") >= reference.count(".") + dose


def test_an_opposite_changes_one_word_for_each_fault(made: pl.DataFrame) -> None:
    pairs = {"present": "absent", "likely": "unlikely", "normal": "abnormal"}
    used = set()
    for reference, text, dose in made.filter(kind=OPPOSITE)[
        "reference", "text", "dose"
    ].iter_rows():
        before, after = (re.findall(r"\w+", of.lower()) for of in (reference, text))
        changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
        assert len(changed) == dose
        assert all(pairs[old] == new for old, new in changed)
        used |= {old for old, _ in changed}
    assert used == {*pairs}


def test_the_references_of_opposites_affirm_what_the_others_do(made: pl.DataFrame) -> None:
    """They have other words for the same facts, too."""
    opposites = made.filter(kind=OPPOSITE, dose=1)
    natural = made.filter(kind=UNCHANGED).unique("patient_id", keep="first")
    both = opposites.join(natural, on="patient_id", suffix="_natural")
    assert len(both) == len(opposites) >= 60
    for plain, text in both["reference", "reference_natural"].iter_rows():
        affirmed = [
            [fact if fact[0] in ("positive", "uncertain") else None for fact in facts(one)]
            for one in (plain, text)
        ]
        assert affirmed[0] == affirmed[1]
    reworded = made.filter(kind="other report")
    assert len({*opposites["reference"]} & {*reworded["reference"]}) >= 30


def test_doses_are_nested_and_the_last_has_all_for_which_there_is_room(made: pl.DataFrame) -> None:
    doses = made.filter(pl.col("dose") > 0).group_by("reference", "kind").agg("dose", "change")
    for _, kind, of_kind, changes in doses.iter_rows():
        assert of_kind[:3] == [1, 2, 3][: len(of_kind)], kind
        assert len(of_kind) <= 4 and of_kind == sorted(of_kind)
        for change, next_change in pairwise(changes):
            assert next_change.startswith(change)


def test_every_kind_has_texts_of_many_references(made: pl.DataFrame) -> None:
    counts = Counter(made.unique(["patient_id", "reference", "kind"])["kind"])
    assert {*counts} == {UNCHANGED, *FAULTS, *WORDS}
    assert made["patient_id"].n_unique() == 80
    assert counts[UNCHANGED] == 80 + counts[OPPOSITE]
    assert min(counts.values()) >= 15
    assert made["id"].is_unique().all()


def test_other_words_change_the_text(made: pl.DataFrame) -> None:
    for kind in WORDS:
        part = made.filter(kind=kind)
        assert (part["text"] != part["reference"]).all()
    order = made.filter(kind="other order")
    for reference, text in order["reference", "text"].iter_rows():
        assert sorted(text.split()) == sorted(reference.split())


def test_a_seed_is_one_table() -> None:
    text = make_cards(of_synthetic(0, 12)).write_csv()
    assert text == make_cards(of_synthetic(0, 12)).write_csv()
    assert text != make_cards(of_synthetic(1, 12)).write_csv()
    assert hash_bytes(text.encode())[:12] == "4ccbb7d7ff79"


def own(*texts: str | None) -> pl.DataFrame:
    ids = [f"r{number}" for number in range(len(texts))]
    schema = {"id": pl.String, "subject_id": pl.String, "text": pl.String}
    return pl.DataFrame({"id": ids, "subject_id": [None] * len(texts), "text": texts}, schema)


REPORT = "Moderate edema. Tumor in the right\nlower lobe. No pneumothorax."


def test_own_references_get_other_words_alone() -> None:
    table = make_cards(of_reports(own(REPORT, REPORT, None), 0, 10))
    assert table["kind"].to_list() == [
        UNCHANGED,
        "other order",
        "British spelling",
        "numbered list",
    ]
    assert set(table["patient_id"]) == {"r0"} and set(table["dose"]) == {0}
    texts = dict(table["kind", "text"].iter_rows())
    assert "\n" not in texts[UNCHANGED]
    assert texts["British spelling"].startswith("Moderate oedema. Tumour in")
    assert texts["numbered list"].startswith("1. Moderate edema. 2. Tumor")
    assert all(facts(text) == facts(texts[UNCHANGED]) for text in texts.values())


def test_a_numbered_list_keeps_its_order() -> None:
    """In another order without its numbers, its form would change, too."""
    listed = "1. Moderate edema. 2. Tumor in the right lower lobe. 3. No pneumothorax."
    kinds = [one.kind for one in reworded_texts(listed, random.Random(0))]
    assert kinds == ["British spelling"]


@pytest.mark.parametrize(
    ("sentence", "kept"),
    [
        ("Mild edema, worse on the left.", True),
        ("The lungs are clear.", True),
        ("The heart is large.", False),  # "small" states no cardiomegaly
        ("The heart size is unchanged.", False),  # nor does "increased" state the same
    ],
)
def test_a_sentence_is_kept_if_its_faults_are_read_as_planned(sentence: str, kept: bool) -> None:
    table = make_cards(of_reports(own(f"No effusion. {sentence}"), 0, 10))
    assert set(table["reference"]) == {f"No effusion. {sentence}" if kept else "No effusion."}
    assert table["text"].str.contains(sentence, literal=True).any() == kept


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Left effusion, right base.", "Right effusion, left base."),
        ("leftward", "leftward"),
    ],
)
def test_words_are_exchanged_whole(text: str, expected: str) -> None:
    assert exchanged("left right right left", text) == expected


def test_choices_depend_on_seed_and_reference_alone() -> None:
    few, many = (make_cards(of_synthetic(3, 6)) for _ in range(2))
    random.seed(1)
    assert few.equals(many)
