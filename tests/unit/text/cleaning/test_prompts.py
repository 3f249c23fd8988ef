"""The report in a generated text."""

import pytest

from pacer.text.cleaning.prompts import without_prompt
from tests.support.cases import listed_cases


@pytest.mark.parametrize(("text", "report"), listed_cases(__file__, "prompts"))
def test_the_report_without_its_prompt(text: str, report: str | None) -> None:
    assert without_prompt(text) == (text if report is None else report)
