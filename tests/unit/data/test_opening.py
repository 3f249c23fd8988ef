"""Radiographs of every kind become 8-bit images: lungs dark, bones bright, ordinary files untouched."""

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
from tests.support.cases import cases, listed_cases
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


@pytest.mark.parametrize(("mode", "suffix", "result"), listed_cases(__file__, "ordinary"))
def test_ordinary_files_keep_what_pillow_reads(tmp_path: Path, mode: str, suffix: str, result: str) -> None:
    path = tmp_path / f"a.{suffix}"
    packed = {"compression": "packbits"} if mode == "YCbCr" else {}  # Pillow cannot read its own without
    values = np.random.default_rng(0).integers(0, 256, (9, 14, 3), dtype=np.uint8)
    Image.fromarray(values).convert(mode).save(path, **packed)
    image = open_image(path)
    assert image.mode == result and image.size == image_header(path)[:2] == (14, 9)
    with Image.open(path) as plain:
        np.testing.assert_array_equal(np.asarray(image.convert("RGB")), np.asarray(plain.convert("RGB")))


@pytest.mark.parametrize(("name", "kind", "values"), listed_cases(__file__, "deep"))
def test_more_than_eight_bits_are_stretched_and_not_clipped(tmp_path: Path, name: str, kind: str, values: list) -> None:
    stored = np.array(values, dtype=kind)
    Image.fromarray(stored).save(tmp_path / name)
    expected = stretched(stored, stored.min(), stored.max())
    np.testing.assert_array_equal(opened(tmp_path / name), expected)
    if name == "a.tif" and stored.dtype == np.uint16:
        Image.fromarray(stored).save(tmp_path / name, tiffinfo={262: 0})  # the smallest value is white
        np.testing.assert_array_equal(opened(tmp_path / name), 255 - expected)


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
        with pytest.raises(ImageError, match="signed 8-bit, or unsigned 32-bit"):
            read(tiff(kind, sample_format))
    Image.fromarray(np.array([[0, np.nan]], dtype=np.float32)).save(tmp_path / "a.tif")
    with pytest.raises(ImageError, match="not finite"):
        read(tmp_path / "a.tif")


@pytest.mark.parametrize("read", [open_image, image_header])
@pytest.mark.parametrize("suffix", ["tif", "gif"])
def test_several_frames_are_refused(tmp_path: Path, read: Any, suffix: str) -> None:
    frames = [Image.new("L", (4, 3), level) for level in (0, 90, 200)]
    frames[0].save(tmp_path / f"a.{suffix}", save_all=True, append_images=frames[1:])
    with pytest.raises(ImageError, match="it has several frames"):
        read(tmp_path / f"a.{suffix}")


@pytest.mark.parametrize("value", [0, 255, 5000, (7, 9, 9)])
def test_an_image_of_one_colour_is_refused(tmp_path: Path, value: Any) -> None:
    picture = np.full((9, 8, *np.shape(value)), value, dtype=np.uint16 if value == 5000 else np.uint8)
    Image.fromarray(picture).save(tmp_path / "a.png")
    with pytest.raises(ImageError, match=r"a\.png: the image cannot be used: all its pixels have the same colour"):
        open_image(tmp_path / "a.png")
    flat = write_dicom(tmp_path / "b.dcm", np.full((9, 8), 7), WindowCenter=100, WindowWidth=20)
    with pytest.raises(ImageError, match="have the same colour"):
        open_image(flat)
    picture[0, 7] = 3  # one pixel is enough
    Image.fromarray(picture).save(tmp_path / "c.png")
    open_image(tmp_path / "c.png")


@pytest.mark.parametrize(("orientation", "shown"), listed_cases(__file__, "orientations"))
@pytest.mark.parametrize("suffix", ["png", "tif", "jpg"])
def test_an_exif_orientation_is_applied(tmp_path: Path, suffix: str, orientation: int, shown: list) -> None:
    exif = Image.Exif()
    exif[274] = orientation
    tiles = np.kron(np.arange(6, dtype=np.uint8).reshape(2, 3) * 40, np.ones((8, 8), dtype=np.uint8))
    Image.fromarray(tiles).save(tmp_path / f"a.{suffix}", exif=exif)
    assert np.rint(opened(tmp_path / f"a.{suffix}")[4::8, 4::8] / 40).tolist() == shown


@pytest.mark.parametrize("read", [open_image, image_header])
@pytest.mark.parametrize("name", ["a.png", "a.dcm"])
@pytest.mark.parametrize(("width", "height", "sound"), listed_cases(__file__, "sizes"))
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


def smooth(seed: int) -> Image.Image:
    """Noise whose detail differs from row to row."""
    noise = np.random.default_rng(seed).normal(0, 40, (256, 256)) * np.linspace(seed, 1, 256)[:, None]
    waves = np.add.outer(np.sin(np.arange(256) / 25), np.cos(np.arange(256) / 31))
    return Image.fromarray((128 + 30 * waves + noise).clip(0, 255).astype(np.uint8))


@pytest.mark.parametrize(("suffix", "options", "how"), listed_cases(__file__, "damaged"))
def test_damage_inside_a_file(tmp_path: Path, suffix: str, options: dict[str, Any], how: str) -> None:
    """A header does not tell, and Pillow decodes most of it."""
    for number in (0, 1):
        smooth(number).save(tmp_path / f"{number}.{suffix}", **options)
    path, content = tmp_path / f"0.{suffix}", bytearray((tmp_path / f"0.{suffix}").read_bytes())
    np.testing.assert_array_equal(opened(path), np.asarray(Image.open(path)))
    first, last = len(content) // 2, len(content) // 2 + len(content) // 5
    part = {
        "zeros": bytes(last - first),
        "other": (tmp_path / f"1.{suffix}").read_bytes()[first:last],
        "bytes": np.random.default_rng(2).bytes(last - first),
        "byte": bytes([content[first] ^ 1]),
    }[how]
    content[first : first + len(part)] = part
    path.write_bytes(content)
    assert image_header(path)[:2] == (256, 256)
    for read in (open_image, lambda path: image_header(path, decode=True)):
        with pytest.raises(ImageError, match=r"0\.\w+: .*(compressed pixels are damaged|truncated or damaged)"):
            read(path)


@pytest.mark.parametrize(("levels", "suffix", "too_few"), listed_cases(__file__, "levels"))
def test_few_levels_of_grey_are_noted(tmp_path: Path, levels: int, suffix: str, too_few: bool) -> None:
    waves = np.add.outer(np.sin(np.arange(256) / 25), np.cos(np.arange(256) / 31)) / 4 + 0.5
    Image.fromarray(((waves * levels).astype(int) * (256 // levels)).astype(np.uint8)).save(tmp_path / f"a.{suffix}")
    noted = ("it has at most 31 levels of grey",) if too_few else ()
    assert image_header(tmp_path / f"a.{suffix}", decode=True).notes == noted


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


def lut(entries: list[int], first: int, depth: int, vr: str = "US", first_vr: str = "US", count: int | None = None):
    """A table of DICOM; words in the VR OW are bytes."""
    item = Dataset()
    item.add_new("LUTDescriptor", first_vr, [len(entries) if count is None else count, first, depth])
    item.add_new("LUTData", vr, np.array(entries, dtype="<u2").tobytes() if vr == "OW" else entries)
    return item


#: Entries of tables, by the names that the cases use.
TWELVE = list(range(4096))
SIXTEEN = [step * 65535 // 4095 for step in TWELVE]
EIGHT = [step >> 4 for step in TWELVE]
ENTRIES = {
    "small": list(range(256)),
    "twelve": TWELVE,
    "falling": TWELVE[::-1],
    "nearly twelve": [min(step, 4094) for step in TWELVE],
    "fourteen": [step * 16380 // 4095 for step in TWELVE],
    "fifteen": [step * 32767 // 4095 for step in TWELVE],
    "eight": EIGHT,
    "packed": np.array(EIGHT, dtype=np.uint8).view("<u2").tolist(),
    "darker": [entry * 60000 // 65535 for entry in SIXTEEN],
    "signed": [entry - 65536 if entry > 32767 else entry for entry in SIXTEEN],
    "every sixteenth": SIXTEEN[::16],
    "short": [0, 100, 4095],
}


def fields_of(case: dict[str, Any]) -> dict[str, Any]:
    """The header of a case."""
    fields = case.get("fields", {}) | {name: tuple(value) for name, value in case.get("written", {}).items()}
    for name, table in case.get("tables", {}).items():
        fields[name] = [lut(**table | {"entries": ENTRIES[table["entries"]]})]
    for name, change in case.get("broken", {}).items():
        fields[name] = [lut([0, 1, 2, 3], 0, 12)]
        for key, value in change.items():
            delattr(fields[name][0], key) if value is None else setattr(fields[name][0], key, value)
    return fields


@pytest.mark.parametrize("photometric", ["MONOCHROME1", "MONOCHROME2"])
@cases(__file__, "windows")
def test_windows(kind: str, case: dict[str, Any], tmp_path: Path, photometric: str) -> None:
    result = opened(write_dicom(tmp_path / "a.dcm", RAMP, photometric=photometric, **fields_of(case)))
    measured = RAMP * case.get("slope", 1) + case.get("intercept", 0)
    expected = np.array(case["shown"]) if "shown" in case else stretched(measured, *case["range"])
    np.testing.assert_array_equal(result, 255 - expected if photometric == "MONOCHROME1" else expected)


#: Twelve bits from dark to bright, 64 by 64, and the same with one and with three pixels far outside.
WIDE = np.arange(4096).reshape(64, 64)
FAR = np.where(WIDE == 7, 65535, WIDE)
FAR_BOTH = np.where(WIDE == 7, -30000, np.where(np.isin(WIDE, [9, 11]), 32000, WIDE))
EVEN = np.rint(np.arange(4096) * 255 / 4095)
STORED = {"wide": WIDE, "eight bits": WIDE // 16, "ten bits": WIDE // 4, "all ten bits": WIDE % 1000,
          "far": FAR, "far on both sides": FAR_BOTH, "a marker": np.where(WIDE < 40, 65535, WIDE)}  # fmt: skip


@cases(__file__, "headers")
def test_a_header_that_changes_what_the_picture_means(kind: str, case: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "a.dcm"
    if "field" in case:
        path = real(f"field/dicom/{case['field']}")
    else:
        stored = STORED[case["stored"]]
        signed, bits = bool(stored.min() < 0), 16 if np.ptp(stored) > 4095 else 12
        write_dicom(path, stored, bits, signed, **fields_of(case))
    image, header = open_image(path), image_header(path)
    assert [*header.notes] == [*image.info.get(NOTES, ())] == case["notes"]
    assert image.size == header[:2] and image.size == tuple(case.get("size", image.size))
    assert "field" in case or image.size == tuple(case.get("size", (64, 64)))
    assert np.asarray(image).mean() == pytest.approx(case.get("mean", 127.5), abs=1)
    if case.get("stored") == "wide" and case.get("fields", {}).keys() <= {"WindowCenter"}:
        np.testing.assert_array_equal(np.asarray(image).ravel(), EVEN)
    if case.get("stored") == "far":
        Image.fromarray(stored.astype(np.uint16)).save(tmp_path / "a.png")
        assert image_header(tmp_path / "a.png").notes == (case["notes"][0].removeprefix("PixelData: "),)
        np.testing.assert_array_equal(np.asarray(open_image(tmp_path / "a.png")), np.asarray(image))


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


#: Places on a ramp of 12 bits.
PLACES = np.array([[0, 90, 500, 1000, 2047, 3000, 4095]])


@pytest.mark.parametrize("photometric", ["MONOCHROME1", "MONOCHROME2"])
@cases(__file__, "tables")
def test_a_field_is_read_by_its_content(kind: str, case: dict[str, Any], tmp_path: Path, photometric: str) -> None:
    low, shown = case.get("low", 0), np.array([case["shown"]])
    result = opened(write_dicom(tmp_path / "a.dcm", PLACES + low, 12, low < 0, photometric, **fields_of(case)))
    np.testing.assert_allclose(result, 255 - shown if photometric == "MONOCHROME1" else shown, atol=1)


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
    with pytest.raises(ImageError, match="the same colour"):
        open_image(only)


def test_bits_beyond_the_stored_ones_are_ignored(tmp_path: Path) -> None:
    dirty = RAMP | 0xF000  # an overlay in the unused bits, as old files have it
    np.testing.assert_array_equal(opened(write_dicom(tmp_path / "a.dcm", dirty)), stretched(RAMP, 0, 2047))
    signs = np.array([[0x800, 0x000, 0x7FF]])  # 12 bits whose sign was not extended
    result = opened(write_dicom(tmp_path / "b.dcm", signs, signed=True))
    np.testing.assert_array_equal(result, stretched(np.array([[-2048, 0, 2047]]), -2048, 2047))


# --- DICOM: what is read and what is refused ---------------------------------------------------------------------


@pytest.mark.parametrize("read", [open_image, image_header])
@pytest.mark.parametrize("syntax", [ExplicitVRLittleEndian, DeflatedExplicitVRLittleEndian, ImplicitVRLittleEndian])
@cases(__file__, "refused")
def test_what_is_no_grey_radiograph_is_refused(
    kind: str, case: dict[str, Any], tmp_path: Path, read: Any, syntax: str
) -> None:
    path = write_dicom(tmp_path / "a.dcm", RAMP, syntax=syntax, **fields_of(case))
    with pytest.raises(DataError, match=rf"a\.dcm: the image cannot be used: {case['reason']}"):
        read(path)


def test_pixels_that_no_decoder_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for syntax in ("1.2.840.10008.1.2.4.100", "1.2.3.19790412"):  # MPEG-2 and a private one
        with pytest.raises(ImageError, match="no installed plugin can decode it"):
            open_image(write_dicom(tmp_path / "a.dcm", RAMP, syntax=syntax, pixel_data=b"\0\0"))
    jpeg = b"\xff\xd8\xff\xd9"
    with pytest.raises(ImageError, match="is damaged, or no installed plugin can decode it"):  # Pillow reads 8 bits
        open_image(write_dicom(tmp_path / "a.dcm", RAMP, syntax=JPEGExtended12Bit, pixel_data=jpeg))
    with pytest.raises(ImageError, match=r"decoded \(it is truncated or damaged\)"):
        open_image(write_dicom(tmp_path / "b.dcm", RAMP, Rows=RAMP.shape[0] + 7))
    monkeypatch.setattr(type(pydicom.pixels.get_decoder(JPEGLosslessSV1)), "is_available", property(lambda self: False))
    path = write_dicom(tmp_path / "a.dcm", RAMP, syntax=JPEGLosslessSV1, pixel_data=jpeg)
    for read in (open_image, image_header):
        with pytest.raises(ImageError, match=r"no installed plugin can decode it \(in the clone: .*'\.\[dicom\]'`\)"):
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
def test_a_file_without_meta_header_is_in_the_default_syntax(tmp_path: Path, read: Any) -> None:
    for syntax in (ImplicitVRLittleEndian, ExplicitVRLittleEndian, ExplicitVRBigEndian):
        path = write_dicom(tmp_path / "a.dcm", RAMP, syntax=syntax)
        length = struct.unpack("<I", path.read_bytes()[140:144])[0]
        path.write_bytes(path.read_bytes()[144 + length :])
        if syntax == ImplicitVRLittleEndian:
            read(path)
            np.testing.assert_array_equal(opened(path), stretched(RAMP, 0, 2047))
            continue
        with pytest.raises(ImageError, match="does not state its transfer syntax and does not use the default"):
            read(path)


@cases(__file__, "flat")
def test_a_transform_that_flattens_pixels_is_named(kind: str, case: dict[str, Any], tmp_path: Path) -> None:
    for stored in (RAMP, np.vstack([RAMP, [9, 9, 9]])):  # with and without padding
        path = write_dicom(tmp_path / "a.dcm", stored, PixelPaddingValue=9, **fields_of(case))
        with pytest.raises(
            ImageError, match=f"its pixels differ, but its {case['name']} maps every pixel to the same grey"
        ):
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
        with pytest.raises(ImageError, match=r"the file cannot be decoded \(it is truncated or damaged\)"):
            read(path)
