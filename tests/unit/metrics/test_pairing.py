"""Reports of other systems: how they pair, and what is changed before they are scored."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacer.config import validated
from pacer.core.errors import ConfigError, DataError
from pacer.data.cleaning import clean_report
from pacer.metrics.pairing import Protocol, last_box, without_repeats
from tests.support.metrics import paired

ONE, TEN, THREE = {"a": "one"}, {"x": "ten"}, {"a": "1", "b": "2", "c": "3"}


def frame(ids: str, **columns: str) -> pl.DataFrame:
    """A row for each letter; ``columns``: words, one a row."""
    texts = [f"text {number}" for number in range(len(ids))]
    return pl.DataFrame({"id": list(ids), "text": texts} | {name: words.split() for name, words in columns.items()})


@pytest.mark.parametrize(
    ("references", "hypotheses", "protocol", "problem"),
    [
        (ONE, ["one"], {}, "hypotheses has no ids, references has"),
        (ONE, {"a": None}, {}, "missing in hypotheses: a; .*null with --missing empty"),
        (
            frame("abcdex"),
            frame("vwxyz"),
            {},
            "missing in hypotheses: a, b, c and 2 more; in hypotheses but not in references: v, w, y and 1 more; "
            ".*remove these rows",
        ),
        (ONE, frame("aa"), {}, "more than once in hypotheses: a"),
        (frame("a", context="sn-x"), ONE, {}, "column context must hold sn, sw, mn, mw"),
        (frame("aa", context="sn mn"), ONE, {}, "in references: a; .*select references with --split and --context"),
        (
            frame("a", split="test", context="sn"),
            ONE | TEN,
            {"split": "test", "context": "sn"},
            "in hypotheses but not in references, split test, context sn: x",
        ),
        (frame("a", split="test"), ONE, {"split": "val"}, "val: there is no reference; its splits are test"),
        (ONE, ONE, {"split": "test"}, "references has no column split, so split test cannot be chosen"),
        # an id too many stays an error, also without a text
        (ONE, {"x": None}, {"missing": "empty"}, "but not in"),
        (ONE, pl.DataFrame({"id": ["a", "a"], "text": ["1", None]}), {"missing": "empty"}, "once in hypotheses: a"),
    ],
)
def test_what_does_not_pair_is_refused(references, hypotheses, protocol, problem):
    with pytest.raises(DataError, match=problem):
        paired(references, hypotheses, **protocol)


def test_the_protocols_change_the_reports():
    found, counts = paired(THREE, {"a": "one", "c": None}, missing="empty")
    assert found == {"a": ("1", "one"), "b": ("2", ""), "c": ("3", "")} and counts["missing_hypotheses"] == 2
    texts = [r"thinking \boxed{No effusion. No effusion. Heart (normal).}", "no box", r"\boxed{cut"]
    options = {"extract": "boxed", "deduplicate": True, "clean_hypotheses": "upstream", "clean_references": "upstream"}
    found, _ = paired(THREE, dict(zip("abc", texts, strict=True)), **options)
    assert found == {"a": ("1 .", clean_report("No effusion. Heart (normal).")), "b": ("2 .", ""), "c": ("3 .", "")}
    with pytest.raises(ConfigError, match=r"missing = .*must be"):
        validated({"missing": "zero"}, "pacer score", Protocol)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"First \boxed{draft}, then \boxed{the lungs are clear .}", "the lungs are clear ."),
        (r"\boxed{a {nested {deeply}} box} and words", "a {nested {deeply}} box"),
        (r"\boxed{}", ""),
        (r"\boxed{closed} but \boxed{not closed", ""),
        (r"\boxed{ends {too early}", ""),
        ("\\boxed{over\ntwo lines}", "over\ntwo lines"),
    ],
)
def test_the_last_box_by_brace_depth(text, expected):
    assert last_box(text) == expected


@given(st.lists(st.sampled_from(["a b .", "c .", "d?", "no e ."]), max_size=12))
def test_sentences_stand_once(sentences):
    once = without_repeats(" ".join(sentences))
    assert once == without_repeats(once) == " ".join(dict.fromkeys(sentences))
    assert without_repeats("No effusion. no  effusion . Size 1.2 cm") == "No effusion. Size 1.2 cm"
