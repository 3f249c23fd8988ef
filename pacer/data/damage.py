"""Damage inside JPEG and PNG files, over which Pillow decodes silently: a hole of zeros, bytes of another file."""

import zlib
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from PIL import Image, ImageFile

from pacer.data.greyscale import Refused

DAMAGED_INSIDE = "its compressed pixels are damaged, so part of the picture is not its own; copy the file again"
_END, _SCAN, _RESTARTS = 0xD9, 0xDA, range(0xD0, 0xD8)
#: libjpeg reads up to eight bytes ahead of the bits that it needs.
_AHEAD = b"\xff\x00" * 8
#: No encoder writes so many zeros for the coefficients of a progressive scan.
_HOLE = bytes(64)


def load_undamaged(image: Image.Image) -> None:
    """Decode a JPEG file that Pillow has opened, or check the checksums of a PNG file; do nothing for other images.

    Raises:
        Refused: the compressed data is damaged. OSError: the file is truncated.
    """
    if not isinstance(image, ImageFile.ImageFile) or image.format not in ("JPEG", "MPO", "PNG") or image.fp is None:
        return
    place = image.fp.tell()
    image.fp.seek(0)
    content = image.fp.read()
    image.fp.seek(place)
    if not (_has_sound_chunks(content) if image.format == "PNG" else _loads_whole(image, content)):
        raise Refused(DAMAGED_INSIDE)


def _has_sound_chunks(content: bytes) -> bool:
    view, start, kind = memoryview(content), 8, b""
    while kind != b"IEND":
        end, kind = start + 8 + int.from_bytes(view[start : start + 4]), view[start + 4 : start + 8]
        if end + 4 > len(view):
            raise OSError  # truncated
        if zlib.crc32(view[start + 4 : end]) != int.from_bytes(view[end : end + 4]):
            return False
        start = end + 4
    return True


def _loads_whole(image: ImageFile.ImageFile, content: bytes) -> bool:
    """Decode a JPEG file, and return whether the data of its scans ends where the picture does.

    libjpeg makes up the rest of a picture whose data ends early, and ignores data that is left over. So it is given the
    data without its last byte, which must not suffice for the last row, and then that byte, which must.
    """
    scans = list(_scans(content))
    if len(scans) > 1:  # libjpeg reads all scans before the first row; the first coefficient stands before the data
        return not any(content[start - 3] and _HOLE in content[start:end] for start, end in scans)
    mark, last = _stripes(image.mode, image.width), (0, image.height - 1, image.width, image.height)
    end, is_marked = scans[0][1], list[bool]()

    def parts() -> Iterator[bytes]:
        image.im.paste(mark, last)
        for part in (content[: end - 1], content[end - 1 : end] + _AHEAD, content[end : end + 2]):
            yield part
            is_marked.append(image.im.crop(last).chop_difference(mark).getbbox() is None)

    rest = parts()
    setattr(image, "load_read", lambda size: next(rest, b""))  # noqa: B010
    image.load()
    return is_marked[:1] == [True] and True not in is_marked[1:]


@lru_cache(maxsize=4)
def _stripes(mode: str, width: int) -> Any:
    """Return a row of pixels that no picture has."""
    return Image.frombytes("L", (width, 1), (b"\0\xff" * width)[:width]).convert(mode).im


def _scans(content: bytes) -> Iterator[tuple[int, int]]:
    """Yield the bounds of each scan's data, in which are only stuffed zeros, fill bytes and restarts in their order."""
    values = np.frombuffer(content, np.uint8)
    places = np.flatnonzero(values[:-1] == 0xFF)
    kinds = values[places + 1]
    is_marker = (kinds > 0) & (kinds < 0xFF)
    start, is_scan, restarts = 2, False, 0
    for place, kind in zip(places[is_marker].tolist(), kinds[is_marker].tolist(), strict=True):
        if place < start:  # within a segment
            continue
        if is_scan and kind == _RESTARTS[restarts % 8]:
            restarts += 1
            continue
        if is_scan:
            yield start, place
        if kind == _END:
            return
        if kind < 0xC0 or kind in _RESTARTS:
            raise Refused(DAMAGED_INSIDE)
        start, is_scan, restarts = place + 2 + int.from_bytes(content[place + 2 : place + 4]), kind == _SCAN, 0
    raise OSError  # truncated
