"""Compressed pixels of DICOM files: the decoder of each transfer syntax, and the size that the
compressed picture states."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pacer.images.greyscale import Refused

if TYPE_CHECKING:
    from pydicom import FileDataset

#: The plugin of pydicom for each transfer syntax. By default, pydicom uses whichever is installed,
#: and the decoders of lossy JPEG round differently. Those of pylibjpeg are installed by an extra.
_PLUGINS = {
    "JPEGBaseline8Bit": "pillow",
    "JPEGExtended12Bit": "pylibjpeg",
    "JPEGLossless": "pylibjpeg",
    "JPEGLosslessSV1": "pylibjpeg",
    "JPEGLSLossless": "pylibjpeg",
    "JPEGLSNearLossless": "pylibjpeg",
    "JPEG2000Lossless": "pillow",
    "JPEG2000": "pillow",
    "HTJ2KLossless": "pylibjpeg",
    "HTJ2KLosslessRPCL": "pylibjpeg",
    "HTJ2K": "pylibjpeg",
    "RLELossless": "pydicom",
}
#: The first two markers of a JPEG 2000 codestream; the second one's segment has the size.
_JPEG_2000 = b"\xff\x4f\xff\x51"
#: Markers of JPEG and JPEG-LS whose segment has the size.
_FRAMES = {*range(0xC0, 0xD0), 0xF7} - {0xC4, 0xC8, 0xCC}


def plugin_of(data: FileDataset) -> str:
    """Return the plugin of pydicom that decodes the pixels; an empty string if there is none, or
    the pixels are not compressed."""
    syntax = data.file_meta.TransferSyntaxUID.keyword
    if syntax == "JPEGExtended12Bit" and data.BitsStored == 8:
        return _PLUGINS["JPEGBaseline8Bit"]
    return _PLUGINS.get(syntax, "")


def check_compressed_size(data: FileDataset) -> None:
    """Refuse an image whose Rows and Columns are not those of its compressed picture. The size of a
    damaged picture is not checked."""
    from pydicom.encaps import get_frame

    rows, columns = data.Rows, data.Columns
    picture = get_frame(data.PixelData, 0, number_of_frames=1)
    try:
        if data.file_meta.TransferSyntaxUID.keyword == "RLELossless":
            pixels = _size_of_rle(picture)
            is_same = pixels // columns == rows  # some encoders append a few bytes
            found = f"{pixels:,} pixels"
        else:
            size = _size_of_jpeg(picture)
            is_same = size == (rows, columns)
            found = f"{size[0]} rows and {size[1]} columns"
    except (IndexError, ValueError):
        return
    if not is_same:
        raise Refused(
            f"its header has Rows {rows} and Columns {columns}, but its compressed picture has "
            f"{found} (export the file again, or correct the header)"
        )


def _size_of_jpeg(picture: bytes) -> tuple[int, int]:
    """Return the rows and columns of a JPEG, JPEG-LS or JPEG 2000 picture."""
    if picture.startswith(b"\xff\xd8"):
        place = 2
        while (kind := picture[place + 1]) not in _FRAMES:
            if picture[place] != 0xFF:
                raise ValueError
            # 0xFF can be repeated before a marker
            place += 1 if kind == 0xFF else 2 + int.from_bytes(picture[place + 2 : place + 4])
        rows, columns = picture[place + 5 : place + 7], picture[place + 7 : place + 9]
        return int.from_bytes(rows), int.from_bytes(columns)
    place = picture.index(_JPEG_2000) + 8
    right, down, left, up = (
        int.from_bytes(picture[start : start + 4]) for start in range(place, place + 16, 4)
    )
    return down - up, right - left


def _size_of_rle(picture: bytes) -> int:
    """Return the number of pixels of an RLE picture: that of bytes in its first segment, which has
    one byte of each pixel."""
    first, second = (int.from_bytes(picture[place : place + 4], "little") for place in (4, 8))
    segment = picture[first : second or None]
    place = pixels = 0
    while place < len(segment):
        control = segment[place]
        if control < 128:  # that many bytes and one follow
            pixels += min(control + 1, len(segment) - place - 1)
            place += control + 2
        else:  # the next byte is repeated; 128 means nothing
            pixels += 257 - control if control > 128 else 0
            place += 2 if control > 128 else 1
    return pixels
