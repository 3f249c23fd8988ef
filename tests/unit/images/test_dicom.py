"""DICOM: its header decides which grey a pixel becomes, and what is no grey radiograph is
refused."""

import io
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import pytest
from PIL import Image
from pydicom import uid
from pydicom.dataset import Dataset

from pacer.core.errors import DataError
from pacer.images.dicom import dicom_image, header_view, read_dicom
from pacer.images.greyscale import NOTES, ImageError
from pacer.images.radiographs import image_header, open_image
from tests.support.cases import cases
from tests.support.dicom import opened, stretched, write_dicom
from tests.support.real import real

pytestmark = pytest.mark.usefixtures("tiny_images_are_read")
RAMP = np.array([[0, 1, 700], [1500, 2047, 900]])


@pytest.fixture(params=["MONOCHROME1", "MONOCHROME2"])
def photometric(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.mark.parametrize(
    ("bits", "signed"),
    [(8, False), (10, False), (12, True), (14, True), (15, False), (16, False), (16, True)],
)
def test_full_range_without_a_window(
    tmp_path: Path, bits: int, signed: bool, photometric: str
) -> None:
    low = -(1 << bits - 1) if signed else 0
    stored = np.random.default_rng(bits).integers(low, low + (1 << bits), (7, 5))
    expected = stretched(stored, stored.min(), stored.max())
    result = opened(write_dicom(tmp_path / "a.dcm", stored, bits, signed, photometric))
    np.testing.assert_array_equal(
        result, 255 - expected if photometric == "MONOCHROME1" else expected
    )


@pytest.mark.parametrize(
    "syntax",
    [
        uid.ImplicitVRLittleEndian,
        uid.ExplicitVRBigEndian,
        uid.DeflatedExplicitVRLittleEndian,
        uid.RLELossless,
    ],
)
def test_transfer_syntaxes_that_need_no_plugin(tmp_path: Path, syntax: str) -> None:
    written = uid.ExplicitVRLittleEndian if syntax == uid.RLELossless else syntax
    path = write_dicom(tmp_path / "a.dcm", RAMP, syntax=written)
    if syntax == uid.RLELossless:
        data = pydicom.dcmread(path)
        data.compress(uid.RLELossless)
        data.save_as(path)
    np.testing.assert_array_equal(opened(path), stretched(RAMP, 0, 2047))


def test_a_signed_big_endian_film_of_12_bits_has_no_note(tmp_path: Path) -> None:
    path = write_dicom(tmp_path / "a.dcm", RAMP - 2048, signed=True, syntax=uid.ExplicitVRBigEndian)
    with open(path, "rb") as file:
        assert dicom_image(read_dicom(file)).info[NOTES] == ()


@pytest.mark.parametrize(
    ("position", "meanings", "view"),
    [
        (None, ["postero-anterior"], "postero-anterior"),
        ("", ["antero-posterior"], "antero-posterior"),
        ("LL", ["postero-anterior"], "LL"),
        (None, [], ""),
    ],
)
def test_the_view_is_that_of_the_position_else_of_the_code(
    tmp_path: Path, position: str | None, meanings: list[str], view: str
) -> None:
    codes = []
    for meaning in meanings:
        codes.append(Dataset())
        codes[-1].CodeMeaning = meaning
    fields = {"ViewPosition": position, "ViewCodeSequence": codes or None}
    given = {name: value for name, value in fields.items() if value is not None}
    path = write_dicom(tmp_path / "a.dcm", RAMP, **given)
    with open(path, "rb") as file:
        assert header_view(file)[0] == view


def lut(
    entries: list[int],
    first: int,
    depth: int,
    vr: str = "US",
    first_vr: str = "US",
    count: int | None = None,
):
    """A table of DICOM; words in the VR OW are bytes."""
    item = Dataset()
    item.add_new(
        "LUTDescriptor", first_vr, [len(entries) if count is None else count, first, depth]
    )
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
    fields = case.get("fields", {}) | {
        name: tuple(value) for name, value in case.get("written", {}).items()
    }
    for name, table in case.get("tables", {}).items():
        fields[name] = [lut(**table | {"entries": ENTRIES[table["entries"]]})]
    for name, change in case.get("broken", {}).items():
        fields[name] = [lut([0, 1, 2, 3], 0, 12)]
        for key, value in change.items():
            delattr(fields[name][0], key) if value is None else setattr(fields[name][0], key, value)
    return fields


@cases(__file__, "windows")
def test_windows(kind: str, case: dict[str, Any], tmp_path: Path, photometric: str) -> None:
    result = opened(
        write_dicom(tmp_path / "a.dcm", RAMP, photometric=photometric, **fields_of(case))
    )
    measured = RAMP * case.get("slope", 1) + case.get("intercept", 0)
    expected = np.array(case["shown"]) if "shown" in case else stretched(measured, *case["range"])
    np.testing.assert_array_equal(
        result, 255 - expected if photometric == "MONOCHROME1" else expected
    )


#: Twelve bits from dark to bright, 64 by 64, and the same with one and with three pixels far
#: outside.
WIDE = np.arange(4096).reshape(64, 64)
FAR = np.where(WIDE == 7, 65535, WIDE)
FAR_BOTH = np.where(WIDE == 7, -30000, np.where(np.isin(WIDE, [9, 11]), 32000, WIDE))
EVEN = np.rint(np.arange(4096) * 255 / 4095)
STORED = {
    "wide": WIDE,
    "eight bits": WIDE // 16,
    "ten bits": WIDE // 4,
    "all ten bits": WIDE % 1000,
    "far": FAR,
    "far on both sides": FAR_BOTH,
    "a marker": np.where(WIDE < 40, 65535, WIDE),
}


@cases(__file__, "headers")
def test_a_header_that_changes_what_the_picture_means(
    kind: str, case: dict[str, Any], tmp_path: Path
) -> None:
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
        assert image_header(tmp_path / "a.png").notes == (
            case["notes"][0].removeprefix("PixelData: "),
        )
        np.testing.assert_array_equal(np.asarray(open_image(tmp_path / "a.png")), np.asarray(image))


@pytest.mark.parametrize("vr", ["US", "OW"])
def test_tables_hold_their_ends_and_come_before_windows(tmp_path: Path, vr: str) -> None:
    stored = np.array([[0, 9, 10, 11, 12, 13, 4000]])
    voi = {
        "VOILUTSequence": [lut([0, 100, 1000, 4095], 10, 12, vr)],
        "WindowCenter": 5,
        "WindowWidth": 3,
    }
    expected = stretched(np.array([[0, 0, 0, 100, 1000, 4095, 4095]]), 0, 4095)
    np.testing.assert_array_equal(opened(write_dicom(tmp_path / "a.dcm", stored, **voi)), expected)
    modality = lut([50, 40, 30, 10], 10, 12, vr)
    modality.ModalityLUTType = "OD"
    result = opened(write_dicom(tmp_path / "b.dcm", stored, ModalityLUTSequence=[modality]))
    np.testing.assert_array_equal(
        result, stretched(np.array([[50, 50, 50, 40, 30, 10, 10]]), 10, 50)
    )


#: Places on a ramp of 12 bits.
PLACES = np.array([[0, 90, 500, 1000, 2047, 3000, 4095]])


@cases(__file__, "tables")
def test_a_field_is_read_by_its_content(
    kind: str, case: dict[str, Any], tmp_path: Path, photometric: str
) -> None:
    low, shown = case.get("low", 0), np.array([case["shown"]])
    result = opened(
        write_dicom(tmp_path / "a.dcm", PLACES + low, 12, low < 0, photometric, **fields_of(case))
    )
    np.testing.assert_allclose(
        result, 255 - shown if photometric == "MONOCHROME1" else shown, atol=1
    )


def test_padding_is_black_and_decides_nothing(tmp_path: Path, photometric: str) -> None:
    stored = np.array([[-2000, -2000, 10], [20, 30, -1990]])
    padding: dict[str, Any] = {"PixelPaddingValue": -2000, "PixelPaddingRangeLimit": -1990}
    result = opened(write_dicom(tmp_path / "a.dcm", stored, 16, True, photometric, **padding))
    inside = [255, 127, 0] if photometric == "MONOCHROME1" else [0, 128, 255]
    np.testing.assert_array_equal(result, [[0, 0, inside[0]], [inside[1], inside[2], 0]])
    padding["PixelPaddingValue"] = ("US", 63536)  # the same number in the other VR
    other = opened(write_dicom(tmp_path / "b.dcm", stored, 16, True, photometric, **padding))
    np.testing.assert_array_equal(other, result)
    only = write_dicom(
        tmp_path / "b.dcm", np.full((2, 2), 7), photometric=photometric, PixelPaddingValue=7
    )
    with pytest.raises(ImageError, match="the same colour"):
        open_image(only)


def test_bits_beyond_the_stored_ones_are_ignored(tmp_path: Path) -> None:
    dirty = RAMP | 0xF000  # an overlay in the unused bits, as old files have it
    np.testing.assert_array_equal(
        opened(write_dicom(tmp_path / "a.dcm", dirty)), stretched(RAMP, 0, 2047)
    )
    signs = np.array([[0x800, 0x000, 0x7FF]])  # 12 bits whose sign was not extended
    result = opened(write_dicom(tmp_path / "b.dcm", signs, signed=True))
    np.testing.assert_array_equal(result, stretched(np.array([[-2048, 0, 2047]]), -2048, 2047))


@pytest.mark.parametrize(
    "syntax",
    [uid.ExplicitVRLittleEndian, uid.DeflatedExplicitVRLittleEndian, uid.ImplicitVRLittleEndian],
)
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
    with pytest.raises(
        ImageError, match="is damaged, or no installed plugin can decode it"
    ):  # Pillow reads 8 bits
        open_image(
            write_dicom(tmp_path / "a.dcm", RAMP, syntax=uid.JPEGExtended12Bit, pixel_data=jpeg)
        )
    with pytest.raises(ImageError, match=r"decoded \(it is truncated or damaged\)"):
        open_image(write_dicom(tmp_path / "b.dcm", RAMP, Rows=RAMP.shape[0] + 7))
    decoder = type(pydicom.pixels.get_decoder(uid.JPEGLosslessSV1))
    monkeypatch.setattr(decoder, "available_plugins", property(lambda self: ()))
    path = write_dicom(tmp_path / "a.dcm", RAMP, syntax=uid.JPEGLosslessSV1, pixel_data=jpeg)
    for read in (open_image, image_header):
        with pytest.raises(
            ImageError,
            match=r"no installed plugin can decode it \(in a git clone: .*'\.\[dicom\]'`\)",
        ):
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
    path = write_dicom(
        tmp_path / "a.dcm", pixels, 8, syntax=uid.JPEGBaseline8Bit, pixel_data=buffer.getvalue()
    )
    with Image.open(buffer) as plain:
        decoded = np.asarray(plain)
    np.testing.assert_array_equal(opened(path), stretched(decoded, decoded.min(), decoded.max()))


def test_a_file_without_meta_header_is_in_the_default_syntax(tmp_path: Path, read: Any) -> None:
    for syntax in (uid.ImplicitVRLittleEndian, uid.ExplicitVRLittleEndian, uid.ExplicitVRBigEndian):
        path = write_dicom(tmp_path / "a.dcm", RAMP, syntax=syntax)
        length = struct.unpack("<I", path.read_bytes()[140:144])[0]
        path.write_bytes(path.read_bytes()[144 + length :])
        if syntax == uid.ImplicitVRLittleEndian:
            read(path)
            np.testing.assert_array_equal(opened(path), stretched(RAMP, 0, 2047))
            continue
        with pytest.raises(
            ImageError, match="does not state its transfer syntax and does not use the default"
        ):
            read(path)


@cases(__file__, "flat")
def test_a_transform_that_flattens_pixels_is_named(
    kind: str, case: dict[str, Any], tmp_path: Path
) -> None:
    for stored in (RAMP, np.vstack([RAMP, [9, 9, 9]])):  # with and without padding
        path = write_dicom(tmp_path / "a.dcm", stored, PixelPaddingValue=9, **fields_of(case))
        with pytest.raises(
            ImageError,
            match=f"its pixels differ, but its {case['name']} maps every pixel to the same grey",
        ):
            open_image(path)
