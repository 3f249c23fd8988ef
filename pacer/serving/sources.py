"""Images of any kind and texts from users, checked before any work.

Every refusal is a :class:`~pacer.core.errors.DataError` of one sentence, which names the case and the source but never
quotes its content.
"""

import io
import re
from os import PathLike

from PIL import Image

from pacer.core.errors import DataError
from pacer.core.hygiene import LINE_ENDS, fault_of, is_absent
from pacer.data.dicom import header_view
from pacer.data.radiographs import as_radiograph, read_image
from pacer.data.readers.views import View, parse_view

#: A path, the bytes of a file, or an image that Pillow has opened.
ImageSource = str | PathLike | bytes | Image.Image

#: Larger files are refused. An uncompressed radiograph of 4,000 by 5,000 pixels of 16 bits has 40 million bytes.
MAX_BYTES = 100_000_000
#: Longer texts are refused: reports have hundreds to a few thousand characters, and the encoder reads only the start.
MAX_CHARACTERS = 20_000
#: Pillow's names of the formats accepted besides DICOM; others start programs or contain videos.
FORMATS = ("JPEG", "PNG", "TIFF", "BMP")


def load_image(source: ImageSource, name: str) -> tuple[Image.Image, View | None]:
    """Return one radiograph as training sees it, mode "L" or "RGB", and the view that a DICOM file names.

    Args:
        name: of case and source, for messages.

    Raises:
        DataError: the file is too large, empty, damaged, not an image or not one radiograph.
    """
    if isinstance(source, Image.Image):
        return as_radiograph(source, name), None
    if isinstance(source, str | PathLike):
        try:
            with open(source, "rb") as file:
                content = file.read(MAX_BYTES + 1)
        except OSError as error:
            raise DataError(f"image {name}: the file {source} cannot be read: {error.strerror}") from None
        name = f"{name}, {source}"  # the file extension marks a DICOM file without preamble, as in a corpus
    else:
        content = source
    if len(content) > MAX_BYTES:
        raise DataError(f"image {name}: the file has more than {MAX_BYTES:,} bytes")
    return read_image(io.BytesIO(content), name, FORMATS), parse_view(header_view(io.BytesIO(content))[0])


def load_text(text: str | None, name: str) -> str | None:
    """Return a text, with a space for each vertical tab and form feed; None if it has no visible character or only says
    that there is no text (``N/A``). Raises a DataError if the text is too long, or contains control characters."""
    if text is None:
        return None
    if len(text) > MAX_CHARACTERS:
        raise DataError(f"{name}: {len(text):,} characters, but the limit is {MAX_CHARACTERS:,}; shorten it")
    if fault := fault_of(text):
        raise DataError(f"{name}: {fault}")
    text = re.sub(LINE_ENDS, " ", text)
    return None if not text.strip() or is_absent(text) else text
