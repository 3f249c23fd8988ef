"""Whole reports of a table, cut into sections, without what stands below them."""

import re

import pytest

from pacer.data.sections import MAY_HOLD_MORE, Sections, cut_report, more_than_a_section
from tests.support.cases import listed_cases

RESULTS = [case.values[0] for case in listed_cases(__file__, "results")]


@pytest.mark.parametrize(("text", "sections", "notes"), listed_cases(__file__, "sections"))
def test_whole_reports(text: str, sections: dict[str, str], notes: list[str]) -> None:
    for heading in RESULTS if "{}" in text else [""]:
        found, odd = cut_report(text.replace("{}", heading))
        assert Sections(*(words and " ".join(words.split()) for words in found)) == Sections(**sections), heading
        assert odd["whole_reports"] == notes
    assert re.search(MAY_HOLD_MORE, text) or not any(more_than_a_section(text).values())


@pytest.mark.parametrize("text", listed_cases(__file__, "about the patient"))
def test_no_sentence_about_the_patient_is_a_signature(text: str) -> None:
    for whole in (text, f"Clear. {text}", f"Clear.\n{text}"):
        assert more_than_a_section(whole)["signatures"] == []
        assert cut_report(f"IMPRESSION: {whole}")[0].impression == whole
