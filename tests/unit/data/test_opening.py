"""Radiographs of every kind become 8-bit images: lungs dark, bones bright, ordinary files untouched."""

from __future__ import annotations

import io
import pickle
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import pytest
from PIL import Image
from pydicom.dataset import Dataset
from pydicom.uid import (
    DeflatedExplicitVRLittleEndian,
    ExplicitVRBigEndian,
    ExplicitVRLittleEndian,
    ImplicitVRLittleEndian,
    JPEGBaseline8Bit,
    JPEGExtended12Bit,
    JPEGLosslessSV1,
    RLELossless,
)

from pacer.core.errors import DataError
from pacer.data import greyscale as pixels
from pacer.data.greyscale import NOTES, ImageError
from pacer.data.radiographs import image_header, open_image
from tests.support.dicom import write_dicom
from tests.support.real import real

RAMP = np.array([[0, 1, 700], [1500, 2047, 900]])


@pytest.fixture(autouse=True)
def tiny_images_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """What decides a value is seen on a few pixels."""
    monkeypatch.setattr(pixels, "MIN_SIDE", 1)


def opened(path: Path) -> np.ndarray:
    image = open_image(path)
    assert image.mode == "L"
    assert image.size == image_header(path)[:2]
    return np.asarray(image)


def stretched(values: np.ndarray, low: float, high: float) -> np.ndarray:
    """The expected result, pixel by pixel."""
    return np.array([[round(255 * min(max((v - low) / (high - low), 0), 1)) for v in row] for row in values.tolist()])


# --- ordinary files ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "suffix", "result"),
    [
        *((mode, suffix, mode) for mode in ("L", "RGB") for suffix in ("jpg", "png", "bmp")),
        ("1", "png", "L"),
        ("LA", "png", "L"),
        ("P", "png", "RGB"),
        ("P", "gif", "RGB"),
        ("RGB", "webp", "RGB"),
        ("RGBA", "png", "RGB"),
        ("CMYK", "jpg", "RGB"),
        ("CMYK", "tif", "RGB"),
        ("YCbCr", "tif", "RGB"),
    ],
)
def test_ordinary_files_keep_what_pillow_reads(tmp_path: Path, mode: str, suffix: str, result: str) -> None:
    path = tmp_path / f"a.{suffix}"
    packed = {"compression": "packbits"} if mode == "YCbCr" else {}  # Pillow cannot read its own without
    values = np.random.default_rng(0).integers(0, 256, (9, 14, 3), dtype=np.uint8)
    Image.fromarray(values).convert(mode).save(path, **packed)
    image = open_image(path)
    assert image.mode == result and image.size == image_header(path)[:2] == (14, 9)
    with Image.open(path) as plain:
        np.testing.assert_array_equal(np.asarray(image.convert("RGB")), np.asarray(plain.convert("RGB")))


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("a.png", np.array([[300, 301, 4000], [65535, 20000, 300]], dtype=np.uint16)),
        ("a.tif", np.array([[300, 301, 4000], [65535, 20000, 300]], dtype=np.uint16)),
        ("a.tif", np.array([[-1000, 0, 40], [500, 2000, 999]], dtype=np.int32)),
        ("a.tif", np.array([[-1000, 0, 40], [500, 2000, 999]], dtype=np.float32)),
    ],
)
def test_more_than_eight_bits_are_stretched_and_not_clipped(tmp_path: Path, name: str, stored: np.ndarray) -> None:
    Image.fromarray(stored).save(tmp_path / name)
    expected = stretched(stored, stored.min(), stored.max())
    np.testing.assert_array_equal(opened(tmp_path / name), expected)
    if name == "a.tif" and stored.dtype == np.uint16:
        Image.fromarray(stored).save(tmp_path / name, tiffinfo={262: 0})  # the smallest value is white
        np.testing.assert_array_equal(opened(tmp_path / name), 255 - expected)


def test_transparency_of_a_palette_is_dropped_without_a_warning(tmp_path: Path) -> None:
    palette = Image.fromarray(np.random.default_rng(0).integers(0, 256, (4, 5, 3), dtype=np.uint8)).convert("P")
    palette.save(tmp_path / "a.png", transparency=bytes(range(256)))
    np.testing.assert_array_equal(np.asarray(open_image(tmp_path / "a.png")), np.asarray(palette.convert("RGB")))


def deep_png(colour_type: int, channels: int) -> bytes:
    """A PNG of 4 x 3 pixels with 16 bits a channel, which Pillow cannot write."""
    rows = b"".join(b"\0" + bytes(range(4 * channels * 2)) for _ in range(3))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", 4, 3, 16, colour_type, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("read", [open_image, image_header])
@pytest.mark.parametrize(("colour_type", "channels"), [(2, 3), (4, 2), (6, 4)])
def test_deep_png_with_several_channels_is_refused(tmp_path: Path, read: Any, colour_type: int, channels: int) -> None:
    """Pillow keeps the high byte of each: a radiograph of 12 bits would be nearly black."""
    (tmp_path / "a.png").write_bytes(deep_png(colour_type, channels))
    with pytest.raises(ImageError, match=r"a\.png: .*several channels of more than 8 bits"):
        read(tmp_path / "a.png")
    (tmp_path / "b.png").write_bytes(deep_png(0, 1))
    read(tmp_path / "b.png")


@pytest.mark.parametrize("read", [open_image, image_header])
def test_deep_tiff_that_pillow_would_wrap_or_cut_is_refused(tmp_path: Path, read: Any) -> None:
    def tiff(kind: type, sample_format: int) -> Path:
        """Pixels of a kind, under a header that says how they are to be read: 1 unsigned, 2 signed, 3 floating."""
        path = tmp_path / f"{kind.__name__}-{sample_format}.tif"
        Image.fromarray(np.array([[0, 1]], dtype=kind)).save(path, tiffinfo={339: sample_format})
        entry, content = struct.pack("<HHI", 339, 3, 1), path.read_bytes()
        place = content.index(entry) + len(entry)
        path.write_bytes(content[:place] + struct.pack("<I", sample_format) + content[place + 4 :])
        return path

    for kind, sample_format in ((np.uint16, 1), (np.uint16, 2), (np.uint8, 1), (np.float32, 3)):
        read(tiff(kind, sample_format))
    for kind, sample_format in ((np.int32, 1), (np.uint8, 2)):
        with pytest.raises(ImageError, match="signed 8-bit or unsigned 32-bit"):
            read(tiff(kind, sample_format))
    Image.fromarray(np.array([[0, np.nan]], dtype=np.float32)).save(tmp_path / "a.tif")
    with pytest.raises(ImageError, match="not finite"):
        open_image(tmp_path / "a.tif")


@pytest.mark.parametrize("read", [open_image, image_header])
@pytest.mark.parametrize("suffix", ["tif", "gif"])
def test_several_frames_are_refused(tmp_path: Path, read: Any, suffix: str) -> None:
    frames = [Image.new("L", (4, 3), level) for level in (0, 90, 200)]
    frames[0].save(tmp_path / f"a.{suffix}", save_all=True, append_images=frames[1:])
    with pytest.raises(ImageError, match="it has several frames"):
        read(tmp_path / f"a.{suffix}")


@pytest.mark.parametrize("value", [np.uint8(0), np.uint8(255), np.uint16(5000), (7, 9, 9)])
def test_an_image_of_one_colour_is_refused(tmp_path: Path, value: Any) -> None:
    picture = np.array(np.broadcast_to(np.asarray(value), (9, 8, *np.shape(value))))
    Image.fromarray(picture if np.ndim(value) == 0 else picture.astype(np.uint8)).save(tmp_path / "a.png")
    with pytest.raises(ImageError, match=r"a\.png: the image cannot be used: all its pixels have one colour"):
        open_image(tmp_path / "a.png")
    flat = write_dicom(tmp_path / "b.dcm", np.full((9, 8), 7), WindowCenter=100, WindowWidth=20)
    with pytest.raises(ImageError, match="have one colour"):
        open_image(flat)
    picture[0, 7] = 3  # one pixel is enough
    Image.fromarray(picture if np.ndim(value) == 0 else picture.astype(np.uint8)).save(tmp_path / "c.png")
    open_image(tmp_path / "c.png")


@pytest.mark.parametrize(
    ("orientation", "shown"),
    [
        (1, [[0, 1, 2], [3, 4, 5]]),
        (2, [[2, 1, 0], [5, 4, 3]]),
        (3, [[5, 4, 3], [2, 1, 0]]),
        (4, [[3, 4, 5], [0, 1, 2]]),
        (5, [[0, 3], [1, 4], [2, 5]]),
        (6, [[3, 0], [4, 1], [5, 2]]),
        (7, [[5, 2], [4, 1], [3, 0]]),
        (8, [[2, 5], [1, 4], [0, 3]]),
        (9, [[0, 1, 2], [3, 4, 5]]),
    ],
)
@pytest.mark.parametrize("suffix", ["png", "tif", "jpg"])
def test_an_exif_orientation_is_applied(tmp_path: Path, suffix: str, orientation: int, shown: list) -> None:
    exif = Image.Exif()
    exif[274] = orientation
    tiles = np.kron(np.arange(6, dtype=np.uint8).reshape(2, 3) * 40, np.ones((8, 8), dtype=np.uint8))
    Image.fromarray(tiles).save(tmp_path / f"a.{suffix}", exif=exif)
    assert np.rint(opened(tmp_path / f"a.{suffix}")[4::8, 4::8] / 40).tolist() == shown


@pytest.mark.parametrize("read", [open_image, image_header])
@pytest.mark.parametrize("name", ["a.png", "a.dcm"])
@pytest.mark.parametrize(
    ("width", "height", "sound"),
    [(300, 3, True), (3, 300, True), (301, 3, False), (3, 301, False), (20, 20, True), (20, 46, False)],
)
def test_sizes(
    tmp_path: Path, read: Any, name: str, width: int, height: int, sound: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pixels, "MAX_PIXELS", 903)
    grey = np.arange(width * height).reshape(height, width) % 250
    Image.fromarray(grey.astype(np.uint8)).save(tmp_path / "a.png")
    write_dicom(tmp_path / "a.dcm", grey, 8)
    if sound:
        read(tmp_path / name)
        monkeypatch.setattr(pixels, "MIN_SIDE", min(width, height) + 1)
    with pytest.raises(ImageError, match=rf"{name}: .*fewer than 14 .*more than 80,000,000 in all.*100 times as long"):
        read(tmp_path / name)


# --- DICOM: what decides the grey --------------------------------------------------------------------------------


@pytest.mark.parametrize("photometric", ["MONOCHROME1", "MONOCHROME2"])
@pytest.mark.parametrize(
    ("bits", "signed"), [(8, False), (10, False), (12, True), (14, True), (15, False), (16, False), (16, True)]
)
def test_full_range_without_a_window(tmp_path: Path, bits: int, signed: bool, photometric: str) -> None:
    low = -(1 << bits - 1) if signed else 0
    stored = np.random.default_rng(bits).integers(low, low + (1 << bits), (7, 5))
    expected = stretched(stored, stored.min(), stored.max())
    result = opened(write_dicom(tmp_path / "a.dcm", stored, bits, signed, photometric))
    np.testing.assert_array_equal(result, 255 - expected if photometric == "MONOCHROME1" else expected)


@pytest.mark.parametrize(
    "syntax", [ImplicitVRLittleEndian, ExplicitVRBigEndian, DeflatedExplicitVRLittleEndian, RLELossless]
)
def test_transfer_syntaxes_that_need_no_plugin(tmp_path: Path, syntax: str) -> None:
    path = write_dicom(tmp_path / "a.dcm", RAMP, syntax=ExplicitVRLittleEndian if syntax == RLELossless else syntax)
    if syntax == RLELossless:
        data = pydicom.dcmread(path)
        data.compress(RLELossless)
        data.save_as(path)
    np.testing.assert_array_equal(opened(path), stretched(RAMP, 0, 2047))


def window(center: float, width: float) -> dict[str, float]:
    return {"WindowCenter": center, "WindowWidth": width}


def lut(entries: list[int], first: int, depth: int, vr: str = "US", first_vr: str = "US", count: int | None = None):
    """A table of DICOM; words in the VR OW are bytes."""
    item = Dataset()
    item.add_new("LUTDescriptor", first_vr, [len(entries) if count is None else count, first, depth])
    item.add_new("LUTData", vr, np.array(entries, dtype="<u2").tobytes() if vr == "OW" else entries)
    return item


@pytest.mark.parametrize("photometric", ["MONOCHROME1", "MONOCHROME2"])
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (window(1000, 800), stretched(RAMP, 600, 1399)),  # PS3.3 C.11.2.1.2.1
        ({"WindowCenter": [1000, 10], "WindowWidth": [800, 5]}, stretched(RAMP, 600, 1399)),
        (window(1000.5, 801), stretched(RAMP, 600, 1400)),
        (window(1000, 800) | {"VOILUTFunction": "LINEAR_EXACT"}, stretched(RAMP, 600, 1400)),
        (window(1000, 800) | {"VOILUTFunction": "SIGMOID"}, np.rint(255 / (1 + np.exp(-4 * (RAMP - 1000) / 800)))),
        (window(900, 401), stretched(RAMP, 699.5, 1099.5)),
        (window(900, 1), np.where(RAMP > 899.5, 255, 0)),
        (window(0, 0), stretched(RAMP, 0, 2047)),
        ({"WindowCenter": "", "WindowWidth": ""}, stretched(RAMP, 0, 2047)),
        ({"WindowCenter": 1000}, stretched(RAMP, 0, 2047)),
        (window(100, 201) | {"RescaleSlope": 0.25, "RescaleIntercept": -100.5},
         stretched(RAMP * 0.25 - 100.5, -0.5, 199.5)),
        ({"RescaleSlope": -2, "RescaleIntercept": 7}, stretched(-RAMP, -2047, 0)),
    ],
)  # fmt: skip
def test_windows(tmp_path: Path, fields: dict[str, Any], expected: np.ndarray, photometric: str) -> None:
    result = opened(write_dicom(tmp_path / "a.dcm", RAMP, photometric=photometric, **fields))
    np.testing.assert_array_equal(result, 255 - expected if photometric == "MONOCHROME1" else expected)


#: Twelve bits from dark to bright, 64 by 64, and the same with one and with three pixels far outside.
WIDE = np.arange(4096).reshape(64, 64)
FAR = np.where(WIDE == 7, 65535, WIDE)
FAR_BOTH = np.where(WIDE == 7, -30000, np.where(np.isin(WIDE, [9, 11]), 32000, WIDE))
EVEN = np.rint(np.arange(4096) * 255 / 4095)
NOT_FOR = "{}: not for these values, whose range is used"
NOT_SQUARE = "{} is not square, the image is resampled to square pixels"
FAR_NOTE = "PixelData: a few pixels are far outside the rest and do not count for the range of grey"
OTHERS = {"presentation": "1.2.840.10008.5.1.4.1.1.1.1", "processing": "1.2.840.10008.5.1.4.1.1.1.1.1"}


@pytest.mark.parametrize(
    ("stored", "fields", "notes", "mean", "size"),
    [
        (WIDE, {}, [], 127.5, (64, 64)),
        (WIDE, window(40, 400), [NOT_FOR.format("WindowCenter and WindowWidth")], 127.5, (64, 64)),
        (WIDE, window(128, 256), [NOT_FOR.format("WindowCenter and WindowWidth")], 127.5, (64, 64)),
        (WIDE, window(9000, 100), [NOT_FOR.format("WindowCenter and WindowWidth")], 127.5, (64, 64)),
        (WIDE, window(2048, 100), [NOT_FOR.format("WindowCenter and WindowWidth")], 127.5, (64, 64)),
        (WIDE, {"VOILUTSequence": [lut(list(range(256)), 0, 8)]}, [NOT_FOR.format("VOILUTSequence")], 127.5, (64, 64)),
        (WIDE, window(2048, 2048), [], 127.5, (64, 64)),
        (WIDE, window(2048, 4096) | {"PixelPaddingValue": 0}, [], 127.5, (64, 64)),
        (WIDE // 16, window(128, 256), [], 127.5, (64, 64)),
        (FAR, {}, [FAR_NOTE], 127.5, (64, 64)),
        (FAR_BOTH, {}, [FAR_NOTE], 127.5, (64, 64)),
        (np.where(WIDE < 40, 65535, WIDE), {}, [], 10, (64, 64)),  # a marker is no stray pixel
        (WIDE, {"RescaleSlope": 0, "RescaleIntercept": 500}, ["RescaleSlope is 0 and is ignored"], 127.5, (64, 64)),
        (WIDE, {"PixelSpacing": [0.2, 0.1]}, [NOT_SQUARE.format("PixelSpacing")], 127.5, (64, 128)),
        (WIDE, {"ImagerPixelSpacing": [0.1, 0.15]}, [NOT_SQUARE.format("ImagerPixelSpacing")], 127.5, (96, 64)),
        (WIDE, {"PixelAspectRatio": [4, 3]}, [NOT_SQUARE.format("PixelAspectRatio")], 127.5, (64, 85)),
        (WIDE, {"PixelSpacing": [0.143, 0.1431]}, [], 127.5, (64, 64)),
        (WIDE, {"PixelSpacing": [0, 0]}, [], 127.5, (64, 64)),
        (
            WIDE,
            {"PixelSpacing": [0.1, 0.1], "PixelAspectRatio": [2, 1]},
            ["PixelAspectRatio contradicts PixelSpacing, which is followed"],
            127.5,
            (64, 64),
        ),
        (
            WIDE,
            {"PresentationIntentType": "FOR PROCESSING"},
            ["PresentationIntentType is FOR PROCESSING"],
            127.5,
            (64, 64),
        ),
        (WIDE, {"PresentationIntentType": "FOR PRESENTATION"}, [], 127.5, (64, 64)),
        (WIDE, {"SOPClassUID": OTHERS["processing"]}, ["SOPClassUID is of images for processing"], 127.5, (64, 64)),
        (WIDE, {"SOPClassUID": OTHERS["presentation"]}, [], 127.5, (64, 64)),
        (WIDE, {"PresentationLUTShape": "IDENTITY"}, [], 127.5, (64, 64)),
        (
            WIDE,
            {"PresentationLUTShape": "INVERSE"},
            ["PresentationLUTShape is INVERSE, but MONOCHROME2 is followed"],
            127.5,
            (64, 64),
        ),
    ],
)
def test_a_header_that_changes_what_the_picture_means(
    tmp_path: Path, stored: np.ndarray, fields: dict[str, Any], notes: list[str], mean: float, size: tuple[int, int]
) -> None:
    signed, bits = bool(stored.min() < 0), 16 if np.ptp(stored) > 4095 else 12
    path = write_dicom(tmp_path / "a.dcm", stored, bits, signed, **fields)
    image, header = open_image(path), image_header(path)
    assert [*header.notes] == [*image.info.get(NOTES, ())] == notes
    assert image.size == header[:2] == size
    assert np.asarray(image).mean() == pytest.approx(mean, abs=1)
    if fields.keys() <= {"WindowCenter"} and stored is WIDE:
        np.testing.assert_array_equal(np.asarray(image).ravel(), EVEN)
    if stored is FAR:
        Image.fromarray(stored.astype(np.uint16)).save(tmp_path / "a.png")
        assert image_header(tmp_path / "a.png").notes == (FAR_NOTE.removeprefix("PixelData: "),)
        np.testing.assert_array_equal(np.asarray(open_image(tmp_path / "a.png")), np.asarray(image))


@pytest.mark.parametrize(
    ("place", "notes"),
    [
        ("window_of_another_kind/D_window.dcm", [NOT_FOR.format("WindowCenter and WindowWidth")]),
        ("window_of_another_kind/D2_window8.dcm", [NOT_FOR.format("WindowCenter and WindowWidth")]),
        ("presentation_lut_shape/A1_m1_inverse.dcm", []),
        ("presentation_lut_shape/A2_m2_inverse.dcm", ["PresentationLUTShape is INVERSE, but MONOCHROME2 is followed"]),
        (
            "presentation_lut_shape/A3_m1_identity.dcm",
            ["PresentationLUTShape is IDENTITY, but MONOCHROME1 is followed"],
        ),
    ],
)
def test_headers_after_public_reports(place: str, notes: list[str]) -> None:
    path = real(f"field/dicom/{place}")
    assert [*image_header(path).notes] == notes
    assert np.asarray(open_image(path)).mean() == 127.5


@pytest.mark.parametrize("vr", ["US", "OW"])
def test_tables_hold_their_ends_and_come_before_windows(tmp_path: Path, vr: str) -> None:
    stored = np.array([[0, 9, 10, 11, 12, 13, 4000]])
    voi = {"VOILUTSequence": [lut([0, 100, 1000, 4095], 10, 12, vr)], "WindowCenter": 5, "WindowWidth": 3}
    expected = stretched(np.array([[0, 0, 0, 100, 1000, 4095, 4095]]), 0, 4095)
    np.testing.assert_array_equal(opened(write_dicom(tmp_path / "a.dcm", stored, **voi)), expected)
    modality = lut([50, 40, 30, 10], 10, 12, vr)
    modality.ModalityLUTType = "OD"
    result = opened(write_dicom(tmp_path / "b.dcm", stored, ModalityLUTSequence=[modality]))
    np.testing.assert_array_equal(result, stretched(np.array([[50, 50, 50, 40, 30, 10, 10]]), 10, 50))


#: A ramp of 12 bits at the places 0, 90, 500, 1000, 2047, 3000, 4095, as `dcm2pnm +Wl 1 --ignore-vlut-depth` of DCMTK
#: 3.6.7 shows it through the tables below (`+Wi 1` for windows). It rounds differently: 1 is allowed.
PLACES = np.array([[0, 90, 500, 1000, 2047, 3000, 4095]])
LINE = [0, 5, 31, 62, 127, 187, 255]
WINDOWED = [0, 0, 0, 127, 255, 255, 255]
TWELVE = list(range(4096))
SIXTEEN = [step * 65535 // 4095 for step in TWELVE]
EIGHT = [step >> 4 for step in TWELVE]
PACKED = np.array(EIGHT, dtype=np.uint8).view("<u2").tolist()
FLUOROSCOPY = {"SOPClassUID": "1.2.840.10008.5.1.4.1.1.12.2", **window(1000, 800)}


@pytest.mark.parametrize("photometric", ["MONOCHROME1", "MONOCHROME2"])
@pytest.mark.parametrize(
    ("low", "fields", "expected"),
    [
        (0, {"VOILUTSequence": [lut(TWELVE, 0, 16)]}, LINE),
        (0, {"VOILUTSequence": [lut(EIGHT, 0, 16)]}, LINE),
        (0, {"VOILUTSequence": [lut([e * 60000 // 65535 for e in SIXTEEN], 0, 16)]}, [0, 5, 28, 57, 117, 171, 234]),
        # DCMTK ignores data of VR SS; the standard (PS3.3 C.11.1.1.1) has them unsigned
        (0, {"VOILUTSequence": [lut([e - 65536 if e > 32767 else e for e in SIXTEEN], 0, 16, "SS")]}, LINE),
        (0, {"VOILUTSequence": [lut(PACKED, 0, 8, "OW", count=4096)]}, LINE),
        (0, {"VOILUTSequence": [lut(PACKED, 0, 16, "OW", count=4096)]}, LINE),
        (0, {"VOILUTSequence": [lut(PACKED, 0, 8, "US", count=4096)]}, LINE),
        (-2048, {"VOILUTSequence": [lut(TWELVE, 63488, 12)]}, LINE),
        (-2048, {"VOILUTSequence": [lut(TWELVE, -2048, 12, first_vr="SS")]}, LINE),
        (0, {"RescaleIntercept": -1024, "RescaleSlope": 1, "VOILUTSequence": [lut(TWELVE, 64512, 12)]}, LINE),
        (
            -2048,
            {
                "RescaleIntercept": 32768,
                "RescaleSlope": 16,
                "VOILUTSequence": [lut(SIXTEEN[::16], -32768, 16, first_vr="SS")],
            },
            [0, 0, 0, 0, 0, 255, 255],
        ),
        (0, {"PixelIntensityRelationship": "LOG", "ModalityLUTSequence": [lut(TWELVE[::-1], 0, 12)]}, WINDOWED),
        (0, {"PixelIntensityRelationship": "DISP", "RescaleSlope": 2, "RescaleIntercept": 0}, WINDOWED),
    ],
)
def test_a_field_is_read_by_its_content(
    tmp_path: Path, low: int, fields: dict[str, Any], expected: list[int], photometric: str
) -> None:
    fields = FLUOROSCOPY | fields if "PixelIntensityRelationship" in fields else fields
    result = opened(write_dicom(tmp_path / "a.dcm", PLACES + low, 12, low < 0, photometric, **fields))
    shown = 255 - np.array([expected]) if photometric == "MONOCHROME1" else [expected]
    np.testing.assert_allclose(result, shown, atol=1)


@pytest.mark.parametrize("photometric", ["MONOCHROME1", "MONOCHROME2"])
def test_padding_is_black_and_decides_nothing(tmp_path: Path, photometric: str) -> None:
    stored = np.array([[-2000, -2000, 10], [20, 30, -1990]])
    padding: dict[str, Any] = {"PixelPaddingValue": -2000, "PixelPaddingRangeLimit": -1990}
    result = opened(write_dicom(tmp_path / "a.dcm", stored, 16, True, photometric, **padding))
    inside = [255, 127, 0] if photometric == "MONOCHROME1" else [0, 128, 255]
    np.testing.assert_array_equal(result, [[0, 0, inside[0]], [inside[1], inside[2], 0]])
    padding["PixelPaddingValue"] = ("US", 63536)  # the same number in the other VR
    other = opened(write_dicom(tmp_path / "b.dcm", stored, 16, True, photometric, **padding))
    np.testing.assert_array_equal(other, result)
    only = write_dicom(tmp_path / "b.dcm", np.full((2, 2), 7), photometric=photometric, PixelPaddingValue=7)
    with pytest.raises(ImageError, match="one colour"):
        open_image(only)


def test_bits_beyond_the_stored_ones_are_ignored(tmp_path: Path) -> None:
    dirty = RAMP | 0xF000  # an overlay in the unused bits, as old files have it
    np.testing.assert_array_equal(opened(write_dicom(tmp_path / "a.dcm", dirty)), stretched(RAMP, 0, 2047))
    signs = np.array([[0x800, 0x000, 0x7FF]])  # 12 bits whose sign was not extended
    result = opened(write_dicom(tmp_path / "b.dcm", signs, signed=True))
    np.testing.assert_array_equal(result, stretched(np.array([[-2048, 0, 2047]]), -2048, 2047))


# --- DICOM: what is read and what is refused ---------------------------------------------------------------------


NOT_GREY = "it is not a single frame, MONOCHROME1 or MONOCHROME2 .* 8 or 16 bits .*BitsStored within them"
TABLES = ("VOILUTSequence", "ModalityLUTSequence")


def broken(**fields: Any) -> list[Dataset]:
    item = lut([0, 1, 2, 3], 0, 12)
    for name, value in fields.items():
        if value is None:
            delattr(item, name)
        else:
            setattr(item, name, value)
    return [item]


@pytest.mark.parametrize("read", [open_image, image_header])
@pytest.mark.parametrize("syntax", [ExplicitVRLittleEndian, DeflatedExplicitVRLittleEndian, ImplicitVRLittleEndian])
@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"PhotometricInterpretation": "PALETTE COLOR"}, NOT_GREY),
        ({"PhotometricInterpretation": "RGB", "SamplesPerPixel": 3}, NOT_GREY),
        ({"PhotometricInterpretation": None}, NOT_GREY),
        ({"NumberOfFrames": 4}, NOT_GREY),
        ({"BitsAllocated": 32}, NOT_GREY),
        ({"BitsStored": 20, "HighBit": 19}, NOT_GREY),
        ({"BitsStored": 0}, NOT_GREY),
        ({"PixelRepresentation": 2}, NOT_GREY),
        ({"HighBit": 15}, NOT_GREY),
        ({"PixelData": b""}, "its DICOM header lacks PixelData$"),
        ({"Rows": 0}, "it has fewer than 14 pixels on a side"),
        *(({name: None}, f"its DICOM header lacks {name}$")
          for name in ("SamplesPerPixel", "PixelRepresentation", "BitsStored", "PixelData", "Rows")),
        *(({table: broken(**change)}, f"its {table} has no LUTDescriptor of three numbers, or no LUTData")
          for table in TABLES
          for change in ({"LUTData": None}, {"LUTDescriptor": None}, {"LUTDescriptor": [4, 0]}, {"LUTData": []})),
        ({"VOILUTFunction": "CUBIC", **window(1000, 800)}, "its VOILUTFunction is not LINEAR, LINEAR_EXACT or SIGMOID"),
        ({"RescaleIntercept": "1e999"}, "its RescaleSlope or RescaleIntercept is not finite"),
        ({"Modality": "CT"}, "its Modality is not one of a radiograph's: CR, DX"),
        ({"Modality": "SMITH^ANNE"}, "its Modality is not one of a radiograph's: CR, DX"),
    ],
)  # fmt: skip
def test_what_is_no_grey_radiograph_is_refused(
    tmp_path: Path, read: Any, syntax: str, fields: dict[str, Any], reason: str
) -> None:
    path = write_dicom(tmp_path / "a.dcm", RAMP, syntax=syntax, **fields)
    with pytest.raises(DataError, match=rf"a\.dcm: the image cannot be used: {reason}"):
        read(path)


@pytest.mark.parametrize("modality", ["CR", "dx", "", "RG"])
def test_modalities_of_radiographs(tmp_path: Path, modality: str) -> None:
    opened(write_dicom(tmp_path / "a.dcm", RAMP, Modality=modality))


def test_pixels_that_no_decoder_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for syntax in ("1.2.840.10008.1.2.4.100", "1.2.3.19790412"):  # MPEG-2 and a private one
        with pytest.raises(ImageError, match="no installed plugin decodes it"):
            open_image(write_dicom(tmp_path / "a.dcm", RAMP, syntax=syntax, pixel_data=b"\0\0"))
    jpeg = b"\xff\xd8\xff\xd9"
    with pytest.raises(ImageError, match="is damaged, or no installed plugin decodes it"):  # Pillow reads 8 bits
        open_image(write_dicom(tmp_path / "a.dcm", RAMP, syntax=JPEGExtended12Bit, pixel_data=jpeg))
    with pytest.raises(ImageError, match=r"decoded \(it is cut off or damaged\)"):
        open_image(write_dicom(tmp_path / "b.dcm", RAMP, Rows=RAMP.shape[0] + 7))
    monkeypatch.setattr(type(pydicom.pixels.get_decoder(JPEGLosslessSV1)), "is_available", property(lambda self: False))
    path = write_dicom(tmp_path / "a.dcm", RAMP, syntax=JPEGLosslessSV1, pixel_data=jpeg)
    for read in (open_image, image_header):
        with pytest.raises(ImageError, match=r"no installed plugin decodes it \(in the clone: .*'\.\[dicom\]'`\)"):
            read(path)


def test_dicom_is_known_by_content_or_extension(tmp_path: Path) -> None:
    named = write_dicom(tmp_path / "a.dcm", RAMP)
    (tmp_path / "b.jpg").write_bytes(named.read_bytes())
    content = named.read_bytes()
    (tmp_path / "c.DICOM").write_bytes(content[132:])  # no preamble
    for name in ("b.jpg", "c.DICOM"):
        np.testing.assert_array_equal(opened(tmp_path / name), opened(named))


def test_jpeg_inside_dicom(tmp_path: Path) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (16, 16), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG")
    path = write_dicom(tmp_path / "a.dcm", pixels, 8, syntax=JPEGBaseline8Bit, pixel_data=buffer.getvalue())
    with Image.open(buffer) as plain:
        decoded = np.asarray(plain)
    np.testing.assert_array_equal(opened(path), stretched(decoded, decoded.min(), decoded.max()))


@pytest.mark.parametrize("read", [open_image, image_header])
@pytest.mark.parametrize("name", ["RescaleSlope", "RescaleIntercept", "WindowCenter", "WindowWidth"])
def test_a_field_that_is_no_number_is_named_from_the_header(tmp_path: Path, read: Any, name: str) -> None:
    path = write_dicom(tmp_path / "a.dcm", RAMP, **{name: ("LO", "none")})
    with pytest.raises(ImageError, match=f"its {name} is not a number"):
        read(path)


@pytest.mark.parametrize("read", [open_image, image_header])
def test_a_file_without_meta_header_is_in_the_default_syntax(tmp_path: Path, read: Any) -> None:
    for syntax in (ImplicitVRLittleEndian, ExplicitVRLittleEndian, ExplicitVRBigEndian):
        path = write_dicom(tmp_path / "a.dcm", RAMP, syntax=syntax)
        length = struct.unpack("<I", path.read_bytes()[140:144])[0]
        path.write_bytes(path.read_bytes()[144 + length :])
        if syntax == ImplicitVRLittleEndian:
            read(path)
            np.testing.assert_array_equal(opened(path), stretched(RAMP, 0, 2047))
            continue
        with pytest.raises(ImageError, match="does not name its transfer syntax, and is not in the default one"):
            read(path)


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        (window(32767, 16), "WindowCenter and WindowWidth"),
        ({"RescaleSlope": "1e-20", "RescaleIntercept": 1000}, "RescaleSlope"),
        ({"VOILUTSequence": [lut([0, 100, 4095], 5000, 12)]}, "VOILUTSequence"),
        ({"ModalityLUTSequence": [lut([0, 100, 4095], 5000, 12)]}, "ModalityLUTSequence"),
    ],
)
def test_a_transform_that_flattens_pixels_is_named(tmp_path: Path, fields: dict[str, Any], name: str) -> None:
    for stored in (RAMP, np.vstack([RAMP, [9, 9, 9]])):  # with and without padding
        path = write_dicom(tmp_path / "a.dcm", stored, PixelPaddingValue=9, **fields)
        with pytest.raises(ImageError, match=f"its pixels differ, but its {name} would show all in one grey"):
            open_image(path)


@pytest.mark.parametrize("read", [open_image, image_header])
def test_files_that_are_no_images(tmp_path: Path, read: Any) -> None:
    with pytest.raises(ImageError) as missing:
        read(tmp_path / "gone.jpg")
    assert missing.value.problem == "the file does not exist"
    text = "Doe^Jane, 7 May: effusion."
    for name, content in (("a.jpg", text), ("a.dcm", text), ("b.jpg", ""), ("b.dcm", "")):
        (tmp_path / name).write_text(content)
        with pytest.raises(ImageError) as other:
            read(tmp_path / name)
        assert str(other.value).startswith(f"image {tmp_path / name}: the file ") and "Doe" not in str(other.value)
    again = pickle.loads(pickle.dumps(missing.value))
    assert (str(again), again.problem) == (str(missing.value), missing.value.problem)


@pytest.mark.parametrize("suffix", ["jpg", "png", "tif"])
def test_a_torn_file_cannot_be_decoded(tmp_path: Path, suffix: str) -> None:
    """Nor does its header pass; a whole file that another program has added to does."""
    path = tmp_path / f"a.{suffix}"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64), dtype=np.uint8)).save(path)
    whole = path.read_bytes()
    path.write_bytes(whole + b"added")
    assert image_header(path)[:2] == (64, 64)
    for read in (open_image, image_header):
        path.write_bytes(whole[:-1500])
        with pytest.raises(ImageError, match=r"the file cannot be decoded \(it is cut off or damaged\)"):
            read(path)


# --- real files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tag", "part"),
    [
        ("HAND", "HAND"),
        ("right knee", "KNEE"),
        ("L_SPINE", "SPINE"),
        ("Thorax", None),
        ("POITRINE", None),
        ("CHEST ABDOMEN", None),
        ("", None),
    ],
)
def test_another_part_of_the_body_is_told_and_not_refused(tmp_path: Path, tag: str, part: str | None) -> None:
    path = write_dicom(tmp_path / "a.dcm", RAMP, BodyPartExamined=tag)
    notes = () if part is None else (f"BodyPartExamined is {part}",)
    assert image_header(path).notes == open_image(path).info.get(NOTES, ()) == notes
