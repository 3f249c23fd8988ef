"""Compressed pixels of DICOM files: one decoder for each transfer syntax, and the size of the
picture."""

import io
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pydicom
import pytest
from PIL import Image
from pydicom import uid
from pydicom.pixels import get_decoder

from pacer.images.compressed import plugin_of
from pacer.images.greyscale import ImageError
from tests.support.cases import cases
from tests.support.dicom import opened, write_dicom

PICTURE = np.random.default_rng(1).integers(0, 256, (40, 30), dtype=np.uint8)


def compressed(path: Path, syntax: str, picture: dict[str, Any], **fields: Any) -> Path:
    """A file with 40 rows and 30 columns; ``picture``: how Pillow saves them, empty for RLE."""
    if not picture:
        data = pydicom.dcmread(write_dicom(path, PICTURE, 8))
        data.compress(uid.RLELossless, encoding_plugin="pydicom")
        for name, value in fields.items():
            setattr(data, name, value)
        data.save_as(path)
        return path
    buffer = io.BytesIO()
    Image.fromarray(PICTURE).save(buffer, **picture)
    return write_dicom(
        path, PICTURE, 8, syntax=getattr(uid, syntax), pixel_data=buffer.getvalue(), **fields
    )


def test_every_syntax_that_pydicom_decodes_has_a_plugin() -> None:
    named = 0
    for syntax in uid.AllTransferSyntaxes:
        try:
            decoder = get_decoder(syntax)
        except NotImplementedError:
            continue
        for bits in (8, 12):
            meta = SimpleNamespace(TransferSyntaxUID=uid.UID(syntax))
            plugin = plugin_of(SimpleNamespace(file_meta=meta, BitsStored=bits))
            # a plugin that is not installed is named with what it depends on
            plugins = [re.split(r"\W", text)[0] for text in decoder.missing_dependencies]
            known = {*decoder.available_plugins, *plugins}
            assert plugin in known if decoder.is_encapsulated else plugin == "", syntax
        named += decoder.is_encapsulated
    assert named >= 12


@cases(__file__, "pictures")
def test_another_installed_decoder_changes_no_pixel(
    kind: str, case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = compressed(tmp_path / "a.dcm", **case)
    before = opened(path)
    np.testing.assert_allclose(before, PICTURE, atol=30)

    def other(picture: bytes, runner: Any) -> bytes:
        return bytes(range(200)) * 6

    decoder = get_decoder(getattr(uid, case["syntax"]))
    monkeypatch.setattr(decoder, "_available", {"other": other, **decoder._available})
    np.testing.assert_array_equal(opened(path), before)


@pytest.mark.parametrize(
    ("rows", "columns"), [(30, 40), (20, 30), (40, 15), (20, 60), (41, 30), (80, 30)]
)
@cases(__file__, "pictures")
def test_rows_and_columns_are_those_of_the_picture(
    kind: str, case: dict[str, Any], tmp_path: Path, read: Any, rows: int, columns: int
) -> None:
    path = compressed(tmp_path / "a.dcm", **case, Rows=rows, Columns=columns)
    size = "40 rows and 30 columns" if case["picture"] else "1,200 pixels"
    if rows * columns == 1200 and not case["picture"]:
        read(path)  # RLE has no size, only a number of pixels
        return
    with pytest.raises(
        ImageError,
        match=f"a.dcm: the image cannot be used: its header has Rows {rows} and Columns {columns}, "
        rf"but its compressed picture has {size} \(export",
    ):
        read(path)


@pytest.mark.parametrize("syntax", [uid.JPEGLosslessSV1, uid.JPEGLSLossless])
def test_size_in_syntaxes_that_need_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, syntax: uid.UID
) -> None:
    monkeypatch.setattr(type(get_decoder(syntax)), "available_plugins", ("pylibjpeg",))
    marker = b"\xff\xf7" if syntax == uid.JPEGLSLossless else b"\xff\xff\xc3"
    picture = b"\xff\xd8" + marker + bytes([0, 11, 8, 0, 40, 0, 31, 1, 1, 17, 0])
    path = write_dicom(tmp_path / "a.dcm", PICTURE, 8, syntax=syntax, pixel_data=picture)
    with pytest.raises(ImageError, match=r"Columns 30, .* picture has 40 rows and 31 columns"):
        opened(path)
