"""Sections of MIMIC-CXR report files; the texts are invented.

``mimic_headings.tsv`` holds headings of MIMIC-CXR that public code lists (the official section parser, and two projects
that collected theirs), what the official parser takes each for (``other``: a section of its own; ``no heading``: it
does not see one), and what this project takes it for (``stays``: a heading inside its section).
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pacer.data.sections import Sections, find_sections, meaning_of
from tests.support.cases import cases

with open(Path(__file__).with_name("mimic_headings.tsv"), newline="") as file:
    HEADINGS = [(row["heading"], row["official"], row["ours"]) for row in csv.DictReader(file, delimiter="\t")]

FULL = """                                 FINAL REPORT
 EXAMINATION:  CHEST (PA AND LAT)

 INDICATION:  ___ year old woman with cough  // pneumonia?

 COMPARISON:  ___

 FINDINGS: 

 The heart is of normal size.  A 1.2 cm nodule
 projects over the left base.

 LINES AND TUBES:  None.
 
 IMPRESSION: 

 Nodule at the left base.
"""


def test_headings() -> None:
    for heading, _, ours in HEADINGS:
        assert (meaning_of(" ".join(heading.split())) or "stays") == ours, heading
        if ours in Sections._fields:
            assert getattr(find_sections(f" FINAL REPORT\n {heading}:  Words.\n"), ours) == "Words.", heading


def test_where_the_official_parser_finds_a_section_another_is_found_only_on_purpose() -> None:
    other = {heading for heading, official, ours in HEADINGS if official in Sections._fields and ours != official}
    combined = {name for name in other if "FINDINGS" in name and "IMPRESSION" in name}
    assert other - combined == {"PFI", "NDICATION", "PORTABLE INDICATION", "REASON FOR CHEST X-RAY"}
    assert all(meaning_of(name) == "findings" for name in combined)


def test_every_section_of_a_report() -> None:
    assert find_sections(FULL) == Sections(
        findings="The heart is of normal size. A 1.2 cm nodule projects over the left base. LINES AND TUBES: None.",
        impression="Nodule at the left base.",
        indication="___ year old woman with cough // pneumonia?",
    )


@cases(__file__)
def test_sections_of_a_report_file(kind: str, case: dict[str, Any]) -> None:
    """Of all sections, or of one that a kind names."""
    found = find_sections(case["text"])
    assert found == Sections(**case["sections"]) if "sections" in case else getattr(found, kind) == case[kind]


@pytest.mark.parametrize(
    "words", ["Comparison", "Recommendation", "Technique", "Exam", "Addendum", "History", "Impression"]
)
def test_a_heading_in_small_letters_stays_in_its_section(words: str) -> None:
    text = (
        f" FINAL REPORT\n FINDINGS:\n Clear.\n {words}: CT chest.\n No effusion.\n IMPRESSION: Normal.\n {words}: CT.\n"
    )
    expected = Sections(findings=f"Clear. {words}: CT chest. No effusion.", impression=f"Normal. {words}: CT.")
    assert find_sections(text) == expected
    assert find_sections(text.replace("FINDINGS:", "FINDINGS")) == expected


@pytest.mark.parametrize(
    "title", ["", " FINAL REPORT\n", " WET READ: ___\n Clear.\n FINAL REPORT\n", " FINAL ADDENDUM\n"]
)
def test_headings_in_small_letters_count_where_none_is_in_capitals(title: str) -> None:
    text = " Indication: Cough.\n Comparison: ___.\n Findings: Clear.\n Impression: Normal.\n Recommendation: CT.\n"
    assert find_sections(title + text) == Sections("Clear.", "Normal.", "Cough.")


@pytest.mark.parametrize(
    "title", ["AP CHEST, 8:13 A.M., ___", "PORTABLE CHEST AT 10:35", "COMPARISON:\n PORTABLE CHEST 5:30 TODAY"]
)
def test_the_time_of_day_in_a_title_makes_it_no_heading(title: str) -> None:
    text = f" FINAL REPORT\n {title}\n \n Lungs clear.\n"
    assert find_sections(text) == Sections(impression="Lungs clear.")
    text = f" FINAL REPORT\n {title}\n \n HISTORY: Cough.\n \n IMPRESSION:1. Lungs clear.\n"
    assert find_sections(text) == Sections(impression="1. Lungs clear.", history="Cough.")


_LINES = st.lists(
    st.one_of(
        st.text(st.characters(exclude_categories=())),
        st.sampled_from(
            [
                *("FINDINGS:", " FINDINGS: Clear.", "FINDINGS", "IMPRESSION: No.", "LUNGS: Clear", "FINAL REPORT"),
                *("WET READ: x", "FINDINGS AND IMPRESSION:", "A" * 90 + ":", "a  b", "INDICATION: c", "", " "),
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
