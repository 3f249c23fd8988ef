"""Damage inside JPEG and PNG files, over which Pillow decodes silently: a hole of zeros, bytes of another file."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator

import numpy as np
from PIL import Image, ImageFile

from pacer.data.greyscale import Refused

DAMAGED_INSIDE = "its compressed pixels are damaged, so part of the picture is not its own; copy the file again"
#: The next marker after the data of a JPEG scan, which has only stuffed zeros, fill bytes and restarts; a restart.
_MARKER, _RESTART = re.compile(rb"\xff+([^\x00\xff\xd0-\xd7])"), re.compile(rb"\xff([\xd0-\xd7])")
_END, _SCAN = 0xD9, 0xDA
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
    for start, end in scans:
        restarts = b"".join(_RESTART.findall(content, start, end))
        if restarts != bytes(0xD0 + number % 8 for number in range(len(restarts))):
            return False
    if len(scans) > 1:  # libjpeg reads all scans before the first row; the first coefficient stands before the data
        return not any(content[start - 3] and _HOLE in content[start:end] for start, end in scans)
    end, stripes = scans[0][1], Image.fromarray(np.resize([0, 255], (1, image.width)).astype(np.uint8))
    mark, last = stripes.convert(image.mode).im, (0, image.height - 1, image.width, image.height)
    is_marked = list[bool]()

    def parts() -> Iterator[bytes]:
        image.im.paste(mark, last)
        for part in (content[: end - 1], content[end - 1 : end] + _AHEAD, content[end : end + 2]):
            yield part
            is_marked.append(image.im.crop(last).chop_difference(mark).getbbox() is None)

    rest = parts()
    setattr(image, "load_read", lambda size: next(rest, b""))  # noqa: B010
    image.load()
    return is_marked[:1] == [True] and True not in is_marked[1:]


def _scans(content: bytes) -> Iterator[tuple[int, int]]:
    """Yield the bounds of each scan's data."""
    start, is_scan, kind = 2, False, 0
    while kind != _END:
        if (marker := _MARKER.search(content, start)) is None:
            raise OSError
        if is_scan:
            yield start, marker.start()
        if (kind := marker[1][0]) < 0xC0:
            raise Refused(DAMAGED_INSIDE)
        start, is_scan = marker.end() + int.from_bytes(content[marker.end() : marker.end() + 2]), kind == _SCAN
