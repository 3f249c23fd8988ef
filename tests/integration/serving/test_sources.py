"""Every bad source gets one sentence, and nothing that it holds is quoted."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from pacer.core.errors import DataError
from pacer.data import radiographs as pixels
from pacer.serving import sources
from pacer.serving.case import Case
from pacer.serving.reporter import Reporter
from pacer.serving.sources import MAX_CHARACTERS, load_image, load_prior, load_text
from tests.support.cases import listed_cases

GREY = np.arange(3600, dtype=np.uint16).reshape(60, 60)


def png(width: int, height: int, content: bytes = b"") -> bytes:
    """A PNG whose header promises a size."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", content or zlib.compress(b""))
        + chunk(b"IEND", b"")
    )


def saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


SMALL = Image.fromarray((GREY % 256).astype(np.uint8))


def test_what_is_no_image(tmp_path: Path) -> None:
    (tmp_path / "empty.png").touch()
    (tmp_path / "text.png").write_text("patient named somebody")
    whole = saved(SMALL, "PNG")
    (tmp_path / "torn.png").write_bytes(whole[: len(whole) // 2])
    for source, sentence in (
        (tmp_path, "cannot be read: Is a directory"),
        (tmp_path / "absent.png", "cannot be read: No such file or directory"),
        ("", "cannot be read: Is a directory"),  # the working directory
        ("x" * 5000, "cannot be read: File name too long"),
        (tmp_path / "empty.png", r"the file is empty \(0 bytes\)"),
        (b"", r"the file is empty \(0 bytes\)"),
        (tmp_path / "text.png", "the file is not an image"),
        (tmp_path / "torn.png", "the file cannot be decoded"),
        (whole[:40], "cannot be decoded|not an image"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'></svg>", "the file is not an image"),
        (saved(SMALL, "GIF"), "the file is not an image"),
        (saved(SMALL, "TIFF", save_all=True, append_images=[SMALL]), "it has several frames"),
        (7, "expected a path, the bytes of a file or a Pillow image, got int"),
        (["a.png"], "got list"),
        (np.zeros((30, 30), np.uint8), "got ndarray"),
    ):
        with pytest.raises(DataError, match=f"^image frontal of x.*{sentence}") as error:
            load_image(source, "frontal of x")  # type: ignore[arg-type]
        assert "somebody" not in str(error.value)


def test_decompression_bombs_are_refused_before_they_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pixels, "_orientation", lambda image: pytest.fail("went on"))  # what follows the checks
    for size in ((60_000, 60_000), (9_000, 9_000), (10_000, 8_001)):
        with pytest.raises(DataError, match="more than 80,000,000 in all"):
            load_image(png(*size), "frontal of x")
    with pytest.raises(DataError, match="more than 100 times as long"):
        load_image(png(10_000, 9), "frontal of x")


def test_large_files_are_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "large.png"
    with open(path, "wb") as file:
        file.truncate(sources.MAX_BYTES + 1)
    monkeypatch.setattr(Path, "read_bytes", lambda self: pytest.fail("read"))
    with pytest.raises(DataError, match="has 100,000,001 bytes, more than 100,000,000"):
        load_image(path, "frontal of x")


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


@pytest.mark.parametrize(
    ("text", "sentence"), [*listed_cases(__file__, "no_texts"), (b"secret", "expected text, got bytes")]
)
def test_texts_that_are_refused(text: Any, sentence: str) -> None:
    with pytest.raises(DataError, match=f"^previous report of x: .*{sentence}") as error:
        load_text(text, "previous report of x")
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("texts", [("N/A", "None", "nan"), (" \n", "", "-")])
def test_a_word_for_no_text_and_one_without_a_visible_character_are_none(reporter: Reporter, texts: tuple) -> None:
    prepared = reporter.prepare(Case(SMALL, **dict(zip(("prior", "indication", "history"), texts, strict=True))))
    assert (prepared.context, prepared.prior, prepared.indication, prepared.history) == ("sn", None, None, None)


@pytest.mark.parametrize("text", listed_cases(__file__, "reports"))
def test_what_is_a_report(text: str) -> None:
    assert load_prior(text, "x") == text


@pytest.mark.parametrize("text", listed_cases(__file__, "paths"))
def test_a_text_is_never_a_file(text: str) -> None:
    """A previous report that looks like the path of one is refused; an indication may be such a word."""
    assert load_text(text, "x") == text
    with pytest.raises(DataError, match=r"^x: this looks like the path of a file; give its text"):
        load_prior(text, "x")


@pytest.mark.parametrize(
    ("changes", "sentence"), [*listed_cases(__file__, "cases"), ({"lateral": b""}, "the file is empty")]
)
def test_a_case_is_refused_by_name(reporter: Reporter, changes: dict[str, Any], sentence: str) -> None:
    same = {name: SMALL for name, value in changes.items() if value == "SAME"}
    with pytest.raises(DataError, match=sentence):
        reporter.prepare(Case(**{"frontal": SMALL, "name": "one"} | changes | same))


def test_long_priors_within_the_limit_are_cut_as_in_training(reporter: Reporter) -> None:
    prepared = reporter.prepare(Case(SMALL, prior="effusion. " * (MAX_CHARACTERS // 10)))
    assert prepared.truncation.prior_tokens > 1000
    assert prepared.all_notes()[0].startswith(
        f"{prepared.truncation.prior_tokens:,} tokens of the previous report were cut off"
    )
