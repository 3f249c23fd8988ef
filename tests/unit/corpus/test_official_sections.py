"""Sections of report files beside those that MIT-LCP's published parser finds."""

from typing import Any

from pacer.corpus.sections import Sections, find_sections
from tests.support.cases import cases


@cases(__file__, "forms")
def test_sections_are_the_official_ones_but_for_named_differences(
    kind: str, case: dict[str, Any]
) -> None:
    found = find_sections(case["text"])
    assert found == Sections(**case["ours" if "difference" in case else "official"])
    assert "difference" not in case or case["ours"] != case["official"]
