"""Sections of MIMIC-CXR report files; the texts are invented.

``mimic_headings.tsv`` holds headings of MIMIC-CXR that public code lists (the official section
parser, and two projects that collected theirs), what the official parser takes each for (``other``:
a section of its own; ``no heading``: it does not see one), and what this project takes it for
(``stays``: a heading inside its section)."""

import csv
from pathlib import Path
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from pacer.corpus.readers.mimic_sections import Sections, find_sections, meaning_of
from tests.support.cases import cases

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


@cases(__file__, "forms")
def test_sections_are_the_official_ones_but_for_named_differences(
    kind: str, case: dict[str, Any]
) -> None:
    found = find_sections(case["text"])
    assert found == Sections(**case["ours" if "difference" in case else "official"])
    assert "difference" not in case or case["ours"] != case["official"]


_LINES = st.lists(
    st.one_of(
        st.text(st.characters(exclude_categories=())),
        st.sampled_from(
            [
                *("FINDINGS:", " FINDINGS: Clear.", "FINDINGS", "IMPRESSION: No.", "HISTORY:"),
                *("LUNGS: Clear", "FINAL REPORT", "WET READ: x", "FINDINGS AND IMPRESSION:"),
                *("A" * 90 + ":", "a  b", "INDICATION: c", "", " ", "CHEST, TWO VIEWS:", "PFI: d"),
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
