"""docs/data.md has the whole format of a table, and every line of polars that the audit prints."""

from pathlib import Path
from typing import get_args

import pytest

from pacer.config import DATE_FORMS
from pacer.config.corpus import COLUMNS, Delimiter, TableOfStudies
from pacer.corpus.checks import TOPICS

PAGE = (Path(__file__).parents[3] / "docs" / "data.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "words",
    [
        [f"`{name}`" for name in COLUMNS],
        [f"`{name}`" for name in TableOfStudies.model_fields],
        DATE_FORMS,
        get_args(Delimiter),
        [f"`{topic['line']}`" for topic in TOPICS.values() if "line" in topic],
    ],
    ids=["columns", "settings", "dates", "delimiters", "lines"],
)
def test_the_page_has_the_whole_format(words: list[str]) -> None:
    assert len(words) > 3 and [word for word in words if word not in PAGE] == []
