"""Damage inside JPEG and PNG files, over which Pillow decodes silently: a hole of zeros, bytes of another file."""

import io
import re
from collections.abc import Iterator

from PIL import Image, ImageFile

#: What ends the data of a scan; its own bytes 0xFF are followed by a zero, and restarts (0xD0 to 0xD7) divide it.
_MARKER = re.compile(rb"\xff+([^\x00\xff\xd0-\xd7])", re.DOTALL)
_END, _SCAN, _FIRST = 0xD9, 0xDA, 0xC0
#: libjpeg reads up to eight bytes ahead of the bits that it needs.
_AHEAD = b"\xff\x00" * 8
#: No encoder writes so many zeros for the coefficients of a progressive scan.
_HOLE = bytes(64)


def load_undamaged(image: Image.Image) -> None:
    """Decode a JPEG file that Pillow has opened, or check the checksums of a PNG file; do nothing for other images.

    Raises:
        OSError, SyntaxError: the file is truncated, or its compressed data is damaged.
    """
    if not isinstance(image, ImageFile.ImageFile) or image.format not in ("JPEG", "MPO", "PNG") or image.fp is None:
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
    """Decode a JPEG file, and return whether the data of its scans ends where the picture does.

    libjpeg makes up the rest of a picture whose data ends early, and ignores data that is left over. So it is given the
    data without its last byte, which must not suffice for the last row, and then that byte, which must.
    """
    scans = list(_scans(content))
    if len(scans) > 1:  # libjpeg reads all scans before the first row; the first coefficient stands before the data
        return not any(content[start - 3] and _HOLE in content[start:end] for start, end in scans)
    end, last = scans[0][1], (0, image.height - 1, image.width, image.height)
    stripes = Image.frombytes("L", (image.width, 1), (b"\0\xff" * image.width)[: image.width]).convert(image.mode).im
    is_unchanged = list[bool]()

    def parts() -> Iterator[bytes]:
        image.im.paste(stripes, last)  # no picture has such a row
        for part in (content[: end - 1], content[end - 1 : end] + _AHEAD, content[end : end + 2]):
            yield part
            is_unchanged.append(image.im.crop(last).chop_difference(stripes).getbbox() is None)

    rest = parts()
    setattr(image, "load_read", lambda size: next(rest, b""))  # noqa: B010
    image.load()
    return is_unchanged[:1] == [True] and True not in is_unchanged[1:]


def _scans(content: bytes) -> Iterator[tuple[int, int]]:
    """Yield the bounds of each scan's data; raise OSError if a marker is not in its place."""
    place, kind = 2, content[3]
    while kind != _END:
        start = place + 2 + int.from_bytes(content[place + 2 : place + 4])
        found = _MARKER.search(content, start)
        if found is None or kind < _FIRST:
            raise OSError
        if kind == _SCAN:
            yield start, found.start()
        elif found.start() != start:
            raise OSError
        place, kind = found.end() - 2, found[1][0]
