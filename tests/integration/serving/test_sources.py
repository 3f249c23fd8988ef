"""Every bad source gets one sentence, and nothing that it holds is quoted."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from pacer.core.errors import DataError
from pacer.serving import sources
from pacer.serving.case import Case
from pacer.serving.reporter import Reporter
from pacer.serving.sources import load_image, load_text
from tests.support.cases import listed_cases

SMALL = Image.linear_gradient("L")


@pytest.mark.parametrize(("source", "sentence"), listed_cases(__file__, "no_images"))
def test_what_is_no_image(source: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sources, "MAX_BYTES", 40)
    for name, content in {"empty.png": "", "text.png": "patient named somebody", "large.png": "x" * 41}.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=f"^image frontal of x.*{sentence}") as error:
        load_image(source, "frontal of x")
    assert "somebody" not in str(error.value)


@given(
    content=st.binary(max_size=400),
    start=st.sampled_from([b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0", b"II*\0", b"BM", b"\0" * 128 + b"DICM"]),
)
def test_any_bytes_are_an_image_or_a_sentence(content: bytes, start: bytes) -> None:
    try:
        image, _ = load_image(start + content, "frontal of x")
    except DataError as error:
        assert str(error).startswith("image frontal of x: ") and "\n" not in str(error)
    else:
        assert image.mode in ("L", "RGB")


def test_texts_that_are_refused() -> None:
    for text, sentence in (
        ("secret \0", r"character 8 is the control character U\+0000"),
        ("secret " * 3000, "21,000"),
    ):
        with pytest.raises(DataError, match=f"^previous report of x: .*{sentence}") as error:
            load_text(text, "previous report of x")
        assert "secret" not in str(error.value)


@pytest.mark.parametrize("texts", [("N/A", "None", "nan"), (" \n", "", "-")])
def test_a_word_for_no_text_and_one_without_a_visible_character_are_none(reporter: Reporter, texts: tuple) -> None:
    prepared = reporter.prepare(Case(SMALL, **dict(zip(("prior", "indication", "history"), texts, strict=True))))
    assert (prepared.context, prepared.prior, prepared.indication, prepared.history) == ("sn", None, None, None)


@pytest.mark.parametrize(
    ("changes", "sentence"), [*listed_cases(__file__, "cases"), ({"lateral": b""}, "the file is not an image")]
)
def test_a_case_is_refused_by_name(reporter: Reporter, changes: dict[str, Any], sentence: str) -> None:
    same = {name: SMALL for name, value in changes.items() if value == "SAME"}
    with pytest.raises(DataError, match=sentence):
        reporter.prepare(Case(**{"frontal": SMALL, "name": "one"} | changes | same))
