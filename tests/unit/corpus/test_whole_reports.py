"""Whole reports of tables, and the patterns by which the audit finds other text in them."""

from typing import Any

import polars as pl
from hypothesis import example, given
from hypothesis import strategies as st

from pacer.corpus.readers.mimic_sections import Sections
from pacer.corpus.readers.whole_reports import (
    HEADINGS_IN_SECTION,
    SIGNATURES,
    is_chest_radiograph,
    names_other_examination,
    split_report,
)
from tests.support.cases import cases


@cases(__file__, "split")
def test_sections_of_a_whole_report(kind: str, case: dict[str, Any]) -> None:
    for words in case.get("each", [""]):
        found = split_report(case["text"].replace("{}", words))
        texts = (case.get(name) for name in Sections._fields)
        expected = Sections(*(text and text.replace("{}", words) for text in texts))
        assert found.sections == expected, words
        for name in ("unused", "unknown"):
            listed = case.get(name, "").replace("{}", words).upper()
            assert " ".join(getattr(found, name)) == listed, words
        doubts = case.get("doubts", [])
        noted = found.doubts + found.bare
        assert all(map(str.__contains__, noted, doubts)), words
        assert len(noted) == len(doubts) or case.get("more"), words


_LINES = st.lists(
    st.one_of(
        st.text(st.characters(exclude_categories=())),
        st.sampled_from(
            ["FINDINGS:", "Findings: Clear.", "IMPRESSION: No.", "LUNGS: A. B. C.", "EXAM", "a  b"]
        ),
        st.sampled_from(["HISTORY: c", "Report - d", "A" * 90 + ":", "", " ", "VIEWS:", "NOTE:"]),
    )
).map("\n".join)


@given(_LINES)
@example(" " * 20_000 + "FINDINGS")
@example("A " * 20_000)
@example("FINDINGS " * 5_000)
@example("FINDINGS: a" + "\n" * 20_000 + "b" + " ." * 20_000)
@example("AA " * 20_000)
@example("HISTORY:1\nHISTORY:\n0")
def test_sections_are_lines_of_the_report(text: str) -> None:
    report = "".join(text.split())
    for name, section in split_report(text).sections._asdict().items():
        if section is not None:
            assert section == section.strip() != ""
            # an indication or history is one line, joined from several
            parts = section.split() if name in ("indication", "history") else section.split("\n")
            assert all("".join(part.split()) in report for part in parts)


@cases(__file__, "headings", "no headings", "signatures", "no signatures")
def test_the_audit_counts_headings_and_signatures_in_sections(kind: str, case: str) -> None:
    pattern = HEADINGS_IN_SECTION if "headings" in kind else SIGNATURES
    assert pl.Series([case]).str.contains(pattern).item() == (not kind.startswith("no "))


@cases(__file__, "chest radiographs", "other examinations", "neither")
def test_names_of_examinations(kind: str, case: str) -> None:
    assert is_chest_radiograph(case) == (kind == "chest radiographs")
    titled = ["EXAM: {}\nFINDINGS: Clear.", "{}\n\nIndication: Cough.\nFINDINGS: Clear."]
    titled += [
        "HISTORY: fall STUDY: {} FINDINGS: Clear.",
        "COMPARISON: None. Procedure: {}.",
        "{}\nOk.",
    ]
    texts = pl.DataFrame({"text": [text.replace("{}", case) for text in titled]})
    found = texts.select(names_other_examination(pl.col("text"))).to_series()
    assert found.to_list() == [kind == "other examinations"] * len(titled)


@cases(__file__, "chest reports", "other reports")
def test_other_examinations_count_in_titles_only(kind: str, case: str) -> None:
    texts = pl.DataFrame({"text": [case, None]})
    found = texts.select(names_other_examination(pl.col("text"))).to_series()
    assert found.to_list() == [kind == "other reports", False]
