"""What a person hands in, judged before any work: images of any kind, and texts.

Every refusal is one sentence of a :class:`~pacer.core.errors.DataError` that names the case and the source and quotes
nothing of its content.
"""

from __future__ import annotations

import io
import os
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from pacer.core.errors import DataError
from pacer.core.hygiene import fault_of, is_absent, path_outside_root
from pacer.data.radiographs import as_radiograph, read_image
from pacer.data.readers.views import View, parse_view


class Opened(NamedTuple):
    """A radiograph as training sees it, mode "L" or "RGB", and the view that a DICOM file names."""

    image: Image.Image
    view: View | None


#: A path, the bytes of a file, an image that Pillow has opened, or an array [H, W] or [H, W, 3].
ImageSource = str | PathLike | bytes | Image.Image | np.ndarray

#: Larger files are refused unread. An uncompressed radiograph of 4,000 by 5,000 pixels of 16 bits has 40 million bytes.
MAX_BYTES = 100_000_000
#: Longer texts are refused: reports have hundreds to a few thousand characters, and the encoder reads their start.
MAX_CHARACTERS = 20_000
#: Pillow's names of what may be read besides DICOM; others start programs or hold films.
FORMATS = ("JPEG", "PNG", "TIFF", "BMP")

#: DICOM's transfer syntax that packs the whole data set; what it unpacks to is not known beforehand.
_DEFLATED = b"1.2.840.10008.1.2.1.99"


def load_image(source: ImageSource, name: str) -> Opened:
    """One radiograph.

    Arrays of ``uint8`` are taken as they are; deeper ones [H, W] are scaled from their smallest to their largest value,
    as deep files are.

    Args:
        name: of case and source, for messages.

    Raises:
        DataError: the source is of another type, too large, empty, no image, damaged, or no single radiograph.
    """
    if isinstance(source, np.ndarray):
        source = _pillow(source, name)
    if isinstance(source, Image.Image):
        return Opened(as_radiograph(source, name), None)
    if isinstance(source, str | PathLike):
        content = _read(Path(source), f"image {name}")
        name = f"{name}, {source}"  # the ending marks a DICOM file without preamble, as it does in a corpus
    elif isinstance(source, bytes | bytearray | memoryview):
        content = bytes(source)
    else:
        raise DataError(
            f"image {name}: expected a path, the bytes of a file, a Pillow image or an array, got "
            f"{type(source).__name__}"
        )
    if not content:
        raise DataError(f"image {name}: the file is empty (0 bytes)")
    if len(content) > MAX_BYTES:
        raise DataError(f"image {name}: the file has {len(content):,} bytes, more than {MAX_BYTES:,}")
    if _DEFLATED in content:
        raise DataError(
            f"image {name}: the DICOM file is packed as a whole (Deflated Explicit VR Little Endian); "
            "unpack it first, for example with dcmconv"
        )
    return Opened(read_image(io.BytesIO(content), name, FORMATS), _dicom_view(content))


def _read(path: Path, name: str) -> bytes:
    """A file of at most :data:`MAX_BYTES`; a larger one is refused unread."""
    if "\0" in str(path):
        raise DataError(f"{name}: the path contains a NUL character, which no path can have")
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > MAX_BYTES:
                raise DataError(f"{name}: the file {path} has {size:,} bytes, more than {MAX_BYTES:,}")
            return file.read()
    except IsADirectoryError:
        raise DataError(f"{name}: {path} is a folder; name the file") from None
    except FileNotFoundError:
        raise DataError(f"{name}: the file {path} does not exist") from None
    except OSError as error:
        raise DataError(f"{name}: the file {path} cannot be read: {error.strerror}") from None


def _pillow(array: np.ndarray, name: str) -> Image.Image:
    shape = "×".join(map(str, array.shape))
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if not array.size or array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] != 3):
        raise DataError(f"image {name}: expected an array [height, width] or [height, width, 3], got {shape}")
    if array.dtype == np.uint8:
        return Image.fromarray(np.ascontiguousarray(array))
    if array.ndim == 3 or array.dtype.kind not in "uif":
        raise DataError(
            f"image {name}: expected values of uint8, or numbers in [height, width], got {array.dtype} in {shape}"
        )
    with np.errstate(over="ignore"):  # what float32 has no number for is refused as not finite
        return Image.fromarray(np.ascontiguousarray(array, dtype="u2" if array.dtype == np.uint16 else "f4"))


def _dicom_view(content: bytes) -> View | None:
    if content[128:132] != b"DICM":
        return None
    import pydicom  # loaded already: the image has been read

    try:
        header = pydicom.dcmread(io.BytesIO(content), stop_before_pixels=True, specific_tags=["ViewPosition"])
        return parse_view(str(header.get("ViewPosition") or ""))
    except Exception:  # whatever a damaged field raises: it says nothing about an image that is whole
        return None


def load_text(source: str | PathLike | None, name: str) -> str | None:
    """A text as it was given, or the content of a file (a path that is no ``str``); None without a visible character,
    and for a word that stands for no text (``N/A``).

    Raises:
        DataError: it is of another type, too long, no UTF-8, or holds control characters.
    """
    if source is None:
        return None
    if isinstance(source, PathLike):
        content = _read(Path(source), name)
        try:
            source = content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
        except UnicodeDecodeError:
            raise DataError(f"{name}: the file {source} is not text in UTF-8") from None
    if not isinstance(source, str):
        raise DataError(f"{name}: expected text, got {type(source).__name__}")
    if len(source) > MAX_CHARACTERS:
        raise DataError(f"{name}: {len(source):,} characters, more than {MAX_CHARACTERS:,}; give the report alone")
    if fault := fault_of(source):
        raise DataError(f"{name}: {fault}")
    return None if not source.strip() or is_absent(source) else source


def text_or_file(value: str | None, name: str, folder: Path | None = None) -> str | Path | None:
    """What a command line or a table gives for a text: a file that exists, else the text itself.

    Args:
        folder: what the path of a file is relative to; None: the working directory.

    Raises:
        DataError: it looks like the path of a file, and there is none.
    """
    if value is None or not value.strip():
        return None
    path = (folder or Path()) / value
    try:
        if path.is_file():
            if folder is not None and (stray := path_outside_root(value)):
                raise DataError(f"{name}: {stray} of the table, or give the text")
            return path
    except (OSError, ValueError):
        return value  # no file can have such a name
    if len(value.split()) == 1 and ("/" in value or path.suffix not in ("", ".")):
        raise DataError(
            f"{name}: this looks like the path of a file, but no such file exists; correct it, or give the text"
        )
    return value
