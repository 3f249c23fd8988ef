"""Decoding of all radiographs: JPG, PNG, TIFF or DICOM becomes an 8-bit image with dark lungs and
bright bones."""

import io
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from PIL import ExifTags, Image, ImageFile, ImageOps

from pacer.images.dicom import dicom_image, read_dicom
from pacer.images.greyscale import (
    NOTES,
    OWNER,
    Refused,
    check_size,
    deep_grey,
    problems_of,
    with_contrast,
)

#: Pillow's single-channel modes with more than 8 bits. Pillow's conversion to 8 bits clips instead
#: of scaling.
_DEEP = ("I", "F")
#: Pillow's grey modes of at most 8 bits.
_GREY = ("1", "L", "LA", "La")
#: Tags of TIFF: BitsPerSample, SampleFormat (2 is signed), and PhotometricInterpretation (0: the
#: smallest value is white).
_TIFF_BITS = 258
_TIFF_FORMAT = 339
_TIFF_PHOTOMETRIC = 262
#: The last bytes of a whole file, by Pillow's names of formats.
_LAST_BYTES = {"JPEG": b"\xff\xd9", "MPO": b"\xff\xd9", "PNG": b"IEND\xaeB`\x82"}
#: The marker that ends the data of a scan. Bytes 0xFF of the data are followed by a zero, and
#: restarts (0xD0 to 0xD7) divide it.
_MARKER = re.compile(rb"\xff+([^\x00\xff\xd0-\xd7])", re.DOTALL)
#: Kinds of markers of JPEG: the end of the image, the start of a scan, and the smallest one.
_END = 0xD9
_SCAN = 0xDA
_FIRST = 0xC0
#: libjpeg reads up to eight bytes ahead of the bits that it needs.
_AHEAD = b"\xff\x00" * 8
#: No encoder writes so many zeros for the coefficients of a progressive scan.
_HOLE = bytes(64)


class Header(NamedTuple):
    """Properties of the image that :func:`open_image` returns."""

    width: int
    height: int
    #: See :data:`NOTES`.
    notes: tuple[str, ...] = ()
    #: See :data:`OWNER`; empty unless it is a DICOM file.
    owner: tuple[str | None, list[str]] = (None, [])


def open_image(path: str | Path) -> Image.Image:
    """Decode one radiograph.

    Ordinary 8-bit files keep their values. Deeper grey files (PNG, TIFF) are scaled from their
    smallest and largest value to 0..255, without a few values far outside the rest. DICOM files
    pass through their modality transform, then their first VOI table or window; without one, or if
    it hides the middle of the image, they are scaled in the same way. MONOCHROME1 is inverted,
    padding is black, and pixels become square. EXIF orientation is applied.

    Returns:
        Mode "L" if the file has one channel (transparency is dropped), else "RGB"; ``info`` has any
        :data:`NOTES`.

    Raises:
        ImageError: the file is missing, is not an image, cannot be decoded, is :data:`WRONG_SIZE`,
            has one colour, or is not a single grey radiograph (DICOM in colour, with several
            frames, or of another modality).
    """
    # not by path, because Pillow 13 would scramble rotated TIFF files
    with problems_of(path), open(path, "rb") as file:
        return read_image(file, path)


def read_image(
    file: BinaryIO, name: str | Path, formats: tuple[str, ...] | None = None
) -> Image.Image:
    """Decode one radiograph from an open file; see :func:`open_image`.

    Args:
        name: used in messages; its extension identifies a DICOM file without DICOM's preamble.
        formats: Pillow's names of the allowed formats other than DICOM; None: all.
    """
    with problems_of(name):
        if not _is_dicom(file, name):
            with Image.open(file, formats=formats) as image:
                return as_radiograph(image, name)
        return with_contrast(dicom_image(read_dicom(file)))


def image_header(path: str | Path, decode: bool = False) -> Header:
    """Read the header of an image, and check whether an 8-bit file is complete. DICOM and deeper
    files are decoded, because their notes depend on the pixels; 8-bit files only with ``decode``.
    Raises an ImageError if the file is missing, is not an image, or cannot be used."""
    with problems_of(path), open(path, "rb") as file:
        if not _is_dicom(file, path):
            with Image.open(file) as image:
                _check_header(image)
                last = _LAST_BYTES.get(image.format or "")
                if not decode and last and not image.mode.startswith(_DEEP):
                    file.seek(-len(last), os.SEEK_END)
                    if file.read() == last:  # a file with a different end can still be complete
                        is_turned = _orientation(image) in (5, 6, 7, 8)
                        width, height = reversed(image.size) if is_turned else image.size
                        return Header(width, height)
        file.seek(0)
        image = read_image(file, path)
        return Header(*image.size, image.info.get(NOTES, ()), image.info.get(OWNER, (None, [])))


def as_radiograph(image: Image.Image, name: str | Path) -> Image.Image:
    """Decode an image that Pillow has opened; see :func:`open_image`. ``name`` is used in
    messages."""
    with problems_of(name):
        _check_header(image)
        orientation = _orientation(image)
        _load_undamaged(image)
        if image.mode.startswith(_DEEP):
            grey, notes = deep_grey(np.asarray(image))
            is_inverted = getattr(image, "tag_v2", {}).get(_TIFF_PHOTOMETRIC) == 0
            shown = Image.fromarray(255 - grey if is_inverted else grey)
        else:
            notes = ()
            # Pillow warns about a palette's transparency and drops it
            image.info.pop("transparency", None)
            shown = image.convert("L" if image.mode in _GREY else "RGB")
        shown.info.clear()
        if orientation != 1:
            shown.getexif()[ExifTags.Base.Orientation] = orientation
            shown = ImageOps.exif_transpose(shown)
        if notes:
            shown.info[NOTES] = notes
        return with_contrast(shown)


def _check_header(image: Image.Image) -> None:
    """Refuse images of the wrong size, with several frames, or that Pillow would silently decode
    incorrectly."""
    check_size(*image.size)
    # counting the frames would read all of them; MPO: a camera's JPG followed by a preview
    if getattr(image, "is_animated", False) and image.format != "MPO":
        raise Refused("it has several frames")
    tiles = getattr(image, "tile", None)
    tags = getattr(image, "tag_v2", {})
    deep_png = (
        image.format == "PNG"
        and not image.mode.startswith(_DEEP)
        and tiles
        and str(tiles[0][3]).endswith("16B")
    )
    bits = tags.get(_TIFF_BITS, (1,))
    kind = max(tags.get(_TIFF_FORMAT, (1,)))
    deep_tiff = (len(bits) > 1 and max(bits) > 8) or (max(bits), kind) in ((8, 2), (32, 1))
    if deep_png or deep_tiff:
        raise Refused(
            "unsupported pixel type: several channels of more than 8 bits, signed 8-bit, or "
            "unsigned 32-bit"
        )


def _orientation(image: Image.Image) -> int:
    """Return the EXIF orientation, 1 to 8, from the header of an image that is not decoded yet."""
    # Pillow rotates TIFF files itself, and decodes a PNG file to look for EXIF after the pixels
    if image.format == "TIFF" or (image.format == "PNG" and "exif" not in image.info):
        return 1
    try:
        orientation = image.getexif().get(ExifTags.Base.Orientation, 1)
    except Exception:  # a damaged EXIF block can raise anything, but the image itself may be intact
        return 1
    return orientation if orientation in range(1, 9) else 1


def _is_dicom(file: BinaryIO, path: str | Path) -> bool:
    start = file.read(132)
    file.seek(0)
    return start[128:] == b"DICM" or Path(path).suffix.lower() in (".dcm", ".dicom")


def _load_undamaged(image: Image.Image) -> None:
    """Decode a JPEG file that Pillow has opened, or check the checksums of a PNG file; do nothing
    for other images. Pillow decodes silently over a hole of zeros or bytes of another file. Raises
    an OSError or SyntaxError if the file is truncated, or its compressed data is damaged."""
    if (
        not isinstance(image, ImageFile.ImageFile)
        or image.format not in ("JPEG", "MPO", "PNG")
        or image.fp is None
    ):
        return
    place = image.fp.tell()
    image.fp.seek(0)
    content = image.fp.read()
    image.fp.seek(place)
    if image.format == "PNG":
        with Image.open(io.BytesIO(content)) as again:
            again.verify()
    elif not _loads_whole(image, content):
        raise OSError


def _loads_whole(image: ImageFile.ImageFile, content: bytes) -> bool:
    """Decode a JPEG file, and return whether the data of its scans ends with the last row.

    libjpeg invents the rest of an image whose data ends early, and ignores surplus data. So it is
    first given the data without its last byte, which must not suffice for the last row, and then
    this byte, which must complete it.
    """
    # Pillow has no public way to see which rows are decoded. ImageFile.Parser reads a JPEG file
    # only as a whole; LOAD_TRUNCATED_IMAGES holds for all threads, and fills in missing rows
    # without a sign. So `load_read` is replaced, and `im` is read while it is decoded.
    scans = list(_scans(content))
    if len(scans) > 1:
        # libjpeg reads all scans before the first row; the number of the first coefficient is
        # before the data
        return not any(content[start - 3] and _HOLE in content[start:end] for start, end in scans)
    end = scans[0][1]
    last_row = (0, image.height - 1, image.width, image.height)
    pixels = (b"\0\xff" * image.width)[: image.width]
    stripes = Image.frombytes("L", (image.width, 1), pixels).convert(image.mode).im
    is_unchanged: list[bool] = []

    def parts() -> Iterator[bytes]:
        image.im.paste(stripes, last_row)  # no picture has such a row
        for part in (content[: end - 1], content[end - 1 : end] + _AHEAD, content[end : end + 2]):
            yield part
            is_unchanged.append(image.im.crop(last_row).chop_difference(stripes).getbbox() is None)

    rest = parts()
    setattr(image, "load_read", lambda size: next(rest, b""))  # noqa: B010
    image.load()
    return is_unchanged[:1] == [True] and True not in is_unchanged[1:]


def _scans(content: bytes) -> Iterator[tuple[int, int]]:
    """Yield the bounds of each scan's data; raise OSError if a marker is not in its place."""
    place = 2
    kind = content[3]
    while kind != _END:
        start = place + 2 + int.from_bytes(content[place + 2 : place + 4])
        marker = _MARKER.search(content, start)
        if marker is None or kind < _FIRST:
            raise OSError
        if kind == _SCAN:
            yield start, marker.start()
        elif marker.start() != start:
            raise OSError
        place = marker.end() - 2
        kind = marker[1][0]
