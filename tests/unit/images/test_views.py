"""Views in the words of tables and DICOM headers."""

from typing import Any

from pacer.images.views import parse_view
from tests.support.cases import cases


@cases(__file__, "texts")
def test_texts_of_views(kind: str, case: dict[str, Any]) -> None:
    for text in case["text"]:
        view = parse_view(text)
        assert view == (case["view"] and tuple(case["view"].split())), (text, view)
