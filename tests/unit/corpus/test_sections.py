"""Sections of MIMIC-CXR report files; the texts are invented.

``mimic_headings.tsv`` holds headings of MIMIC-CXR that public code lists (the official section
parser, and two projects that collected theirs), what the official parser takes each for (``other``:
a section of its own; ``no heading``: it does not see one), and what this project takes it for
(``stays``: a heading inside its section)."""

import csv
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pacer.corpus.sections import (
    MAY_HOLD_MORE,
    Sections,
    cut_report,
    find_sections,
    meaning_of,
    more_than_a_section,
)
from tests.support.cases import cases, listed_cases

with open(Path(__file__).with_name("mimic_headings.tsv"), newline="") as file:
    HEADINGS = [
        (row["heading"], row["official"], row["ours"])
        for row in csv.DictReader(file, delimiter="\t")
    ]


def test_headings() -> None:
    for heading, _, ours in HEADINGS:
        assert (meaning_of(" ".join(heading.split())) or "stays") == ours, heading
        if ours in Sections._fields:
            assert (
                getattr(find_sections(f" FINAL REPORT\n {heading}:  Words.\n"), ours) == "Words."
            ), heading


def test_where_the_official_parser_finds_a_section_another_is_found_only_on_purpose() -> None:
    other = {
        heading
        for heading, official, ours in HEADINGS
        if official in Sections._fields and ours != official
    }
    combined = {name for name in other if "FINDINGS" in name and "IMPRESSION" in name}
    assert other - combined == {"PFI", "NDICATION", "PORTABLE INDICATION", "REASON FOR CHEST X-RAY"}
    assert all(meaning_of(name) == "findings" for name in combined)


@cases(
    __file__,
    "findings",
    "impression",
    "whole reports",
    "headings in small letters",
    "times of day in a title",
)
def test_sections_of_a_report_file(kind: str, case: dict[str, Any]) -> None:
    """Of all sections, or of one that a kind names."""
    for words in case.get("each", [""]):
        found = find_sections(case["text"].replace("{}", words))
        if "sections" in case:
            assert found == Sections(
                **{name: text.replace("{}", words) for name, text in case["sections"].items()}
            )
        else:
            assert getattr(found, kind) == case[kind]


_LINES = st.lists(
    st.one_of(
        st.text(st.characters(exclude_categories=())),
        st.sampled_from(
            [
                *(
                    "FINDINGS:",
                    " FINDINGS: Clear.",
                    "FINDINGS",
                    "IMPRESSION: No.",
                    "LUNGS: Clear",
                    "FINAL REPORT",
                ),
                *(
                    "WET READ: x",
                    "FINDINGS AND IMPRESSION:",
                    "A" * 90 + ":",
                    "a  b",
                    "INDICATION: c",
                    "",
                    " ",
                ),
                *("CHEST, TWO VIEWS:", "PFI: d", "HISTORY:"),
            ]
        ),
    )
).map("\n".join)


@given(_LINES)
@example("FINDINGS:x\nFINDINGS")
@example(" " * 20_000 + "FINDINGS")
@example("A " * 20_000)
def test_sections_are_words_of_the_report_in_their_order(text: str) -> None:
    found = find_sections(text)
    whole = "".join(text.split())
    for section in found[:4]:
        if section is not None:
            assert section and section == " ".join(section.split())
            assert "".join(section.split()) in whole


RESULTS = [case.values[0] for case in listed_cases(__file__, "results")]


@pytest.mark.parametrize(("text", "sections", "notes"), listed_cases(__file__, "sections"))
def test_whole_reports(text: str, sections: dict[str, str], notes: list[str]) -> None:
    for heading in RESULTS if "{}" in text else [""]:
        found, odd = cut_report(text.replace("{}", heading))
        assert Sections(*(words and " ".join(words.split()) for words in found)) == Sections(
            **sections
        ), heading
        assert odd["whole_reports"] == notes
    assert re.search(MAY_HOLD_MORE, text) or not any(more_than_a_section(text).values())


@pytest.mark.parametrize("text", listed_cases(__file__, "about the patient"))
def test_no_sentence_about_the_patient_is_a_signature(text: str) -> None:
    for whole in (text, f"Clear. {text}", f"Clear.\n{text}"):
        assert more_than_a_section(whole)["signatures"] == []
        assert cut_report(f"IMPRESSION: {whole}")[0].impression == whole
