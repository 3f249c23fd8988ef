"""Sections of MIMIC-CXR report files; the texts are invented.

``mimic_headings.tsv`` holds headings of MIMIC-CXR that public code lists (the official section parser, and two projects
that collected theirs), what the official parser takes each for (``other``: a section of its own; ``no heading``: it
does not see one), and what this project takes it for (``stays``: a heading inside its section).
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pacer.data.sections import Sections, find_sections, meaning_of

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


@pytest.mark.parametrize(
    ("text", "findings"),
    [
        (" FINAL REPORT\n CHEST, TWO VIEWS\n\n IMPRESSION:  No pneumonia.\n", None),
        ("", None),
        ("FINDINGS:", None),
        ("The findings: are not a heading.", None),
        (" FINDINGS:\n  \n IMPRESSION: Normal.", None),
        ("FINDINGS: One view.\nWords that go on", "One view. Words that go on"),
        (" FINDINGS AND IMPRESSION:  All is well.\n", "All is well."),
        (" FINDINGS/IMPRESSION:  All is well.\n", "All is well."),
        (" IMPRESSION AND FINDINGS:  All is well.\n", "All is well."),
        (" FINDINGS\n\n  All is well.\n\n IMPRESSION\n Normal.", "All is well."),
        (" Findings:  All is well.\n Impression: Normal.", "All is well."),
        (" FINDINGS:  First.\n IMPRESSION: A.\n FINDINGS:  Second.\n IMPRESSION: B.", "Second."),
        (" FINDINGS:  First.\n IMPRESSION: A.\n FINDINGS:  \n IMPRESSION: B.", "First."),
        (" WET READ: ___ 5:00 PM\n FINDINGS: Early.\n\n FINAL REPORT\n FINDINGS: Late.\n", "Late."),
        (" WET READ: ___ 5:00 PM\n FINDINGS: Early.\n\n FINAL REPORT\n IMPRESSION: Normal.\n", "Early."),
        (" WET READ: ___ 5:00 PM\n  Early.\n ______\n FINAL REPORT\n IMPRESSION: Normal.\n", None),
        (" FINDINGS: Text.\n FINAL ADDENDUM\n More.\n", "Text."),
        (" FINDINGS: Text.\n ADDENDUM:  More.\n", "Text."),
        (" PROVISIONAL FINDINGS IMPRESSION (PFI):  Early.\n FINDINGS: Late.\n", "Late."),
        (" PROVISIONAL FINDINGS IMPRESSION (PFI):  Early.\n", None),
        (" FINDINGS: At 9:30, HEART: normal.\n LUNGS: Clear.\n", "At 9:30, HEART: normal. LUNGS: Clear."),
        (" FINDINGS: Text.\r\n IMPRESSION: Normal.\r\n", "Text."),
        (" FINDINGS: Text.\n RECOMMENDATION(S):  A CT.\n", "Text."),
        (" FINDINGS: Text.\n NOTIFICATION:  By phone.\n", "Text."),
        # a title over the whole report is an empty section; over the text, it is the findings' heading
        (" CHEST, PA AND LATERAL:\n\n INDICATION: Cough.\n\n FINDINGS: Text.\n", "Text."),
        (" INDICATION: Cough.\n\n PORTABLE AP CHEST RADIOGRAPH:  Text.\n IMPRESSION: Normal.\n", "Text."),
        (" PORTABLE CHEST AT 10:35 A.M.:  Text.\n", "Text."),
        (" FINDINGS: Lungs clear.\n LEFT RIBS:  No fracture.\n", "Lungs clear. LEFT RIBS: No fracture."),
    ],
)
def test_findings(text: str, findings: str | None) -> None:
    assert find_sections(text).findings == findings


@pytest.mark.parametrize(
    ("text", "impression"),
    [
        (" IMPRESSION: Early.\n IMPRESSION: Late.\n", "Late."),
        (" PROVISIONAL FINDINGS IMPRESSION (PFI): Early.\n\n FINAL REPORT\n IMPRESSION: Late.\n", "Late."),
        (" PROVISIONAL FINDINGS IMPRESSION (PFI): Early.\n\n FINAL REPORT\n FINDINGS: Text.\n", "Early."),
        (" CONCLUSION: Normal.\n RECOMMENDATION(S):  A CT.\n", "Normal."),
        (" IMPRESSION:\n\n CHEST: Normal.\n ABDOMEN: Normal.\n", "CHEST: Normal. ABDOMEN: Normal."),
    ],
)
def test_impression(text: str, impression: str) -> None:
    assert find_sections(text).impression == impression


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
    ("text", "expected"),
    [
        # a report without headings concludes with what follows its first paragraph
        (
            "  FINAL REPORT\n INDICATION:  Cough.\n COMPARISON:  ___.\n \n Lungs clear.\n \n Heart normal.\n",
            Sections(None, "Lungs clear. Heart normal.", "Cough."),
        ),
        (" FINAL REPORT\n CHEST RADIOGRAPH\n \n Lungs clear.\n", Sections(None, "Lungs clear.")),
        (" INDICATION: Cough.\n", Sections(indication="Cough.")),
        (" INDICATION:\n \n Cough.\n \n Clear.\n", Sections(None, "Cough. Clear.")),
        (" INDICATION: Cough.\n \n \n", Sections(indication="Cough.")),
        (
            " INDICATION: \n \n Cough and\n fever.\n \n Lungs clear.\n \n IMPRESSION: Normal.\n",
            Sections(None, "Normal.", "Cough and fever."),
        ),
        (
            " COMPARISON: ___.\n \n Lungs clear.\n Recommendation: CT chest.\n",
            Sections(None, "Lungs clear. Recommendation: CT chest."),
        ),
        # history, findings and impression in small letters begin below other headings in capitals: else the report
        # would be part of the indication, which the prompt shows
        (" INDICATION: Cough.\n Findings: Clear.\n IMPRESSION: Normal.\n", Sections("Clear.", "Normal.", "Cough.")),
        (" INDICATION: Cough.\n Findings: Clear.\n Impression: Normal.\n", Sections("Clear.", "Normal.", "Cough.")),
        (" PORTABLE CHEST:\n Findings: Clear.\n Impression: Normal.\n", Sections("Clear.", "Normal.")),
        (" INDICATION: Cough.\n History: COPD.\n FINDINGS: Clear.\n", Sections("Clear.", None, "Cough.", "COPD.")),
        (
            " CHEST (PA AND LAT):\n Clinical history: Cough.\n Impression: Clear.\n",
            Sections(None, "Clear.", None, "Cough."),
        ),
    ],
)
def test_whole_reports(text: str, expected: Sections) -> None:
    assert find_sections(text) == expected


@pytest.mark.parametrize(
    "title", ["AP CHEST, 8:13 A.M., ___", "PORTABLE CHEST AT 10:35", "COMPARISON:\n PORTABLE CHEST 5:30 TODAY"]
)
def test_the_time_of_day_in_a_title_makes_it_no_heading(title: str) -> None:
    text = f" FINAL REPORT\n {title}\n \n Lungs clear.\n"
    assert find_sections(text) == Sections(impression="Lungs clear.")
    text = f" FINAL REPORT\n {title}\n \n HISTORY: Cough.\n \n IMPRESSION:1. Lungs clear.\n"
    assert find_sections(text) == Sections(impression="1. Lungs clear.", history="Cough.")


def test_reports_whose_headings_mislead() -> None:
    text = " INDICATION: Tube in place.\n RECOMMENDATION(S): Small effusion.\n IMPRESSION: None.\n"
    assert find_sections(text, "57936451") == Sections(impression="Tube in place.")
    found = find_sections(text, "50913680")
    assert found == Sections(impression="Small effusion.", indication="Tube in place.")
    assert find_sections("x" * 201 + " Lungs  clear. " + "x" * 400, "50525523").impression == (
        "Lungs clear. " + "x" * (349 - 201 - 15)
    )
    assert find_sections(FULL, "58235663").impression is None
    assert find_sections(FULL, "58235664").impression == "Nodule at the left base."


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
