"""Views of images: what a text says, and tables of them."""

from pathlib import Path
from typing import Any

import pytest

from pacer.core.errors import DataError
from pacer.data.readers.views import image_key, parse_view, read_views, view_of
from tests.support.cases import cases


@cases(__file__, "texts", "keys")
def test_texts_and_names(kind: str, case: dict[str, Any]) -> None:
    if kind == "keys":
        assert image_key(case["name"]) == case["key"]
        return
    for text in case["text"]:
        assert (view := parse_view(text)) == (case["view"] and tuple(case["view"].split())), (text, view)


@cases(__file__, "tables", "broken")
def test_tables_of_views(kind: str, case: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text(case["content"])
    if kind == "broken":
        with pytest.raises(DataError, match=case["message"]):
            read_views(tmp_path / "v.csv")
        return
    views = read_views(tmp_path / "v.csv")
    assert {key: " ".join(view) for key, view in views.items()} == case["views"]
    for image, view in case.get("images", {}).items():
        found = view_of(views, image)
        assert (found and " ".join(found)) == view, image
