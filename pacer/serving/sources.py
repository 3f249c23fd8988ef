"""Images of any kind and texts from users, checked before any work.

Every refusal is a :class:`~pacer.core.errors.DataError` of one sentence, which names the case and the source but never
quotes its content.
"""

from __future__ import annotations

import io
import os
import re
from os import PathLike
from pathlib import Path

from PIL import Image

from pacer.core.errors import DataError
from pacer.core.hygiene import LINE_ENDS, fault_of, is_absent
from pacer.data.radiographs import as_radiograph, read_image
from pacer.data.readers.views import View, parse_view

#: A path, the bytes of a file, or an image that Pillow has opened.
ImageSource = str | PathLike | bytes | Image.Image

#: Larger files are refused unread. An uncompressed radiograph of 4,000 by 5,000 pixels of 16 bits has 40 million bytes.
MAX_BYTES = 100_000_000
#: Longer texts are refused: reports have hundreds to a few thousand characters, and the encoder reads only the start.
MAX_CHARACTERS = 20_000
#: Pillow's names of the formats accepted besides DICOM; others start programs or contain videos.
FORMATS = ("JPEG", "PNG", "TIFF", "BMP")

#: A word that contains a slash or ends like a file name.
_PATH = re.compile(r"\S*/\S*|\S+\.\w+")


def load_image(source: ImageSource, name: str) -> tuple[Image.Image, View | None]:
    """Return one radiograph as training sees it, mode "L" or "RGB", and the view that a DICOM file names.

    Args:
        name: of case and source, for messages.

    Raises:
        DataError: the source has another type, or is too large, empty, damaged, not an image or not one radiograph.
    """
    if isinstance(source, Image.Image):
        return as_radiograph(source, name), None
    if isinstance(source, str | PathLike):
        content = _read(Path(source), f"image {name}")
        name = f"{name}, {source}"  # the file extension marks a DICOM file without preamble, as in a corpus
    elif isinstance(source, bytes):
        content = source
    else:
        raise DataError(
            f"image {name}: expected a path, the bytes of a file or a Pillow image, got {type(source).__name__}"
        )
    if not content:
        raise DataError(f"image {name}: the file is empty (0 bytes)")
    if len(content) > MAX_BYTES:
        raise DataError(f"image {name}: the file has {len(content):,} bytes, more than {MAX_BYTES:,}")
    return read_image(io.BytesIO(content), name, FORMATS), _dicom_view(content)


def _read(path: Path, name: str) -> bytes:
    """Read a file of at most :data:`MAX_BYTES`; refuse a larger one unread."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > MAX_BYTES:
                raise DataError(f"{name}: the file {path} has {size:,} bytes, more than {MAX_BYTES:,}")
            return file.read()
    except OSError as error:
        raise DataError(f"{name}: the file {path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise DataError(f"{name}: the path contains a NUL character, which paths cannot contain") from None


def _dicom_view(content: bytes) -> View | None:
    if content[128:132] != b"DICM":
        return None
    import pydicom  # already imported to read the image

    try:
        header = pydicom.dcmread(io.BytesIO(content), stop_before_pixels=True, specific_tags=["ViewPosition"])
        return parse_view(str(header.get("ViewPosition") or ""))
    except Exception:  # a damaged field can raise anything; the image itself may still be intact
        return None


def load_text(text: str | None, name: str) -> str | None:
    """Return a text, with a space for each vertical tab and form feed; None if it has no visible character or only says
    that there is no text (``N/A``).

    Raises:
        DataError: the text has another type, is too long, or contains control characters.
    """
    if text is None:
        return None
    if not isinstance(text, str):
        raise DataError(f"{name}: expected text, got {type(text).__name__}")
    if len(text) > MAX_CHARACTERS:
        raise DataError(f"{name}: {len(text):,} characters, more than {MAX_CHARACTERS:,}; give only the report")
    if fault := fault_of(text):
        raise DataError(f"{name}: {fault}")
    text = re.sub(LINE_ENDS, " ", text)
    return None if not text.strip() or is_absent(text) else text


def load_prior(text: str | None, name: str) -> str | None:
    """Return a previous report, as :func:`load_text` does.

    Raises:
        DataError: as for :func:`load_text`, or the text is a file path, which would be read as a report.
    """
    loaded = load_text(text, name)
    words = [] if loaded is None else loaded.split()
    if len(words) == 1 and _PATH.fullmatch(words[0]):
        raise DataError(f'{name}: this looks like the path of a file; give its text, in a shell as "$(cat FILE)"')
    return loaded
