"""Radiographs of every kind become 8-bit images: lungs dark, bones bright, ordinary files
untouched."""

import pickle
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pacer.images import greyscale as pixels
from pacer.images.greyscale import ImageError
from pacer.images.radiographs import image_header, open_image
from tests.support.cases import listed_cases
from tests.support.dicom import opened, stretched, write_dicom

pytestmark = pytest.mark.usefixtures("tiny_images_are_read")


@pytest.mark.parametrize(("mode", "suffix", "result"), listed_cases(__file__, "ordinary"))
def test_ordinary_files_keep_what_pillow_reads(
    tmp_path: Path, mode: str, suffix: str, result: str
) -> None:
    path = tmp_path / f"a.{suffix}"
    packed = (
        {"compression": "packbits"} if mode == "YCbCr" else {}
    )  # Pillow cannot read its own without
    values = np.random.default_rng(0).integers(0, 256, (9, 14, 3), dtype=np.uint8)
    Image.fromarray(values).convert(mode).save(path, **packed)
    image = open_image(path)
    assert image.mode == result and image.size == image_header(path)[:2] == (14, 9)
    with Image.open(path) as plain:
        np.testing.assert_array_equal(
            np.asarray(image.convert("RGB")), np.asarray(plain.convert("RGB"))
        )


@pytest.mark.parametrize(("name", "kind", "values"), listed_cases(__file__, "deep"))
def test_more_than_eight_bits_are_stretched_and_not_clipped(
    tmp_path: Path, name: str, kind: str, values: list
) -> None:
    stored = np.array(values, dtype=kind)
    Image.fromarray(stored).save(tmp_path / name)
    expected = stretched(stored, stored.min(), stored.max())
    np.testing.assert_array_equal(opened(tmp_path / name), expected)
    if name == "a.tif" and stored.dtype == np.uint16:
        Image.fromarray(stored).save(
            tmp_path / name, tiffinfo={262: 0}
        )  # the smallest value is white
        np.testing.assert_array_equal(opened(tmp_path / name), 255 - expected)


@pytest.mark.parametrize("kind", [np.uint16, np.float32])
def test_a_band_of_the_largest_value_is_noted(tmp_path: Path, kind: type) -> None:
    stored = np.arange(4096).reshape(64, 64).astype(kind)
    stored[:2] = 65535
    Image.fromarray(stored).save(tmp_path / "a.tif")
    largest = stored[0, 0]
    assert image_header(tmp_path / "a.tif").notes == (
        f"{largest} is far above all other pixel values, which lose contrast",
        "it has at most 31 levels of grey",
    )


def deep_png(colour_type: int, channels: int) -> bytes:
    """A PNG of 4 x 3 pixels with 16 bits a channel, which Pillow cannot write."""
    rows = b"".join(b"\0" + bytes(range(4 * channels * 2)) for _ in range(3))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", 4, 3, 16, colour_type, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize(("colour_type", "channels"), [(2, 3), (4, 2), (6, 4)])
def test_deep_png_with_several_channels_is_refused(
    tmp_path: Path, read: Any, colour_type: int, channels: int
) -> None:
    """Pillow keeps the high byte of each: a radiograph of 12 bits would be nearly black."""
    (tmp_path / "a.png").write_bytes(deep_png(colour_type, channels))
    with pytest.raises(ImageError, match=r"a\.png: .*several channels of more than 8 bits"):
        read(tmp_path / "a.png")
    (tmp_path / "b.png").write_bytes(deep_png(0, 1))
    read(tmp_path / "b.png")


def test_deep_tiff_that_pillow_would_wrap_or_cut_is_refused(tmp_path: Path, read: Any) -> None:
    def tiff(kind: type, sample_format: int) -> Path:
        """Pixels of a kind, under a header that says how they are to be read: 1 unsigned, 2 signed,
        3 floating."""
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


@pytest.mark.parametrize("suffix", ["tif", "gif"])
def test_several_frames_are_refused(tmp_path: Path, read: Any, suffix: str) -> None:
    frames = [Image.new("L", (4, 3), level) for level in (0, 90, 200)]
    frames[0].save(tmp_path / f"a.{suffix}", save_all=True, append_images=frames[1:])
    with pytest.raises(ImageError, match="it has several frames"):
        read(tmp_path / f"a.{suffix}")


@pytest.mark.parametrize("value", [0, 255, 5000, (7, 9, 9)])
def test_an_image_of_one_colour_is_refused(tmp_path: Path, value: Any) -> None:
    picture = np.full(
        (9, 8, *np.shape(value)), value, dtype=np.uint16 if value == 5000 else np.uint8
    )
    Image.fromarray(picture).save(tmp_path / "a.png")
    with pytest.raises(
        ImageError, match=r"a\.png: the image cannot be used: all its pixels have the same colour"
    ):
        open_image(tmp_path / "a.png")
    flat = write_dicom(tmp_path / "b.dcm", np.full((9, 8), 7), WindowCenter=100, WindowWidth=20)
    with pytest.raises(ImageError, match="have the same colour"):
        open_image(flat)
    picture[0, 7] = 3  # one pixel is enough
    Image.fromarray(picture).save(tmp_path / "c.png")
    open_image(tmp_path / "c.png")


@pytest.mark.parametrize(("orientation", "shown"), listed_cases(__file__, "orientations"))
@pytest.mark.parametrize("suffix", ["png", "tif", "jpg"])
def test_an_exif_orientation_is_applied(
    tmp_path: Path, suffix: str, orientation: int, shown: list
) -> None:
    exif = Image.Exif()
    exif[274] = orientation
    tiles = np.kron(
        np.arange(6, dtype=np.uint8).reshape(2, 3) * 40, np.ones((8, 8), dtype=np.uint8)
    )
    Image.fromarray(tiles).save(tmp_path / f"a.{suffix}", exif=exif)
    assert np.rint(opened(tmp_path / f"a.{suffix}")[4::8, 4::8] / 40).tolist() == shown


@pytest.mark.parametrize("name", ["a.png", "a.dcm"])
@pytest.mark.parametrize(("width", "height", "sound"), listed_cases(__file__, "sizes"))
def test_sizes(
    tmp_path: Path,
    read: Any,
    name: str,
    width: int,
    height: int,
    sound: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pixels, "MAX_PIXELS", 903)
    grey = np.arange(width * height).reshape(height, width) % 250
    Image.fromarray(grey.astype(np.uint8)).save(tmp_path / "a.png")
    write_dicom(tmp_path / "a.dcm", grey, 8)
    if sound:
        read(tmp_path / name)
        monkeypatch.setattr(pixels, "MIN_SIDE", min(width, height) + 1)
    with pytest.raises(
        ImageError, match=rf"{name}: .*shorter than 14 .*80,000,000 pixels.*100 times as long"
    ):
        read(tmp_path / name)


def smooth(seed: int) -> Image.Image:
    """Noise whose detail differs from row to row."""
    noise = (
        np.random.default_rng(seed).normal(0, 40, (256, 256)) * np.linspace(seed, 1, 256)[:, None]
    )
    waves = np.add.outer(np.sin(np.arange(256) / 25), np.cos(np.arange(256) / 31))
    return Image.fromarray((128 + 30 * waves + noise).clip(0, 255).astype(np.uint8))


@pytest.mark.parametrize(("suffix", "options", "how"), listed_cases(__file__, "damaged"))
def test_damage_inside_a_file(
    tmp_path: Path, suffix: str, options: dict[str, Any], how: str
) -> None:
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
        with pytest.raises(
            ImageError, match=r"0\.\w+: .*(compressed pixels are damaged|truncated or damaged)"
        ):
            read(path)


@pytest.mark.parametrize(("levels", "suffix", "too_few"), listed_cases(__file__, "levels"))
def test_few_levels_of_grey_are_noted(
    tmp_path: Path, levels: int, suffix: str, too_few: bool
) -> None:
    waves = np.add.outer(np.sin(np.arange(256) / 25), np.cos(np.arange(256) / 31)) / 4 + 0.5
    Image.fromarray(((waves * levels).astype(int) * (256 // levels)).astype(np.uint8)).save(
        tmp_path / f"a.{suffix}"
    )
    noted = ("it has at most 31 levels of grey",) if too_few else ()
    assert image_header(tmp_path / f"a.{suffix}", decode=True).notes == noted


def test_files_that_are_no_images(tmp_path: Path, read: Any) -> None:
    with pytest.raises(ImageError) as missing:
        read(tmp_path / "gone.jpg")
    assert missing.value.problem == "the file does not exist"
    text = "Doe^Jane, 7 May: effusion."
    for name, content in (("a.jpg", text), ("a.dcm", text), ("b.jpg", ""), ("b.dcm", "")):
        (tmp_path / name).write_text(content)
        with pytest.raises(ImageError) as other:
            read(tmp_path / name)
        assert str(other.value).startswith(
            f"image {tmp_path / name}: the file "
        ) and "Doe" not in str(other.value)
    again = pickle.loads(pickle.dumps(missing.value))
    assert (str(again), again.problem) == (str(missing.value), missing.value.problem)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF", "BMP"])
def test_another_format_under_the_name_of_a_dicom_file(
    tmp_path: Path, read: Any, kind: str
) -> None:
    Image.linear_gradient("L").save(tmp_path / "a.dcm", kind)
    with pytest.raises(
        ImageError, match=rf"a\.dcm: .* but its content is {kind} \(rename the file"
    ):
        read(tmp_path / "a.dcm")


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
        with pytest.raises(
            ImageError, match=r"the file cannot be decoded \(it is truncated or damaged\)"
        ):
            read(path)
