"""The one way a radiograph is opened: JPG, PNG, TIFF or DICOM becomes an 8-bit image, lungs dark and bones bright."""

from __future__ import annotations

import re
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import numpy as np
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from pacer.core.errors import DataError

if TYPE_CHECKING:
    from pydicom import Dataset, FileDataset

MISSING = "the file does not exist"
NOT_AN_IMAGE = "the file is not an image (expected JPEG, PNG, TIFF, BMP or DICOM)"
DAMAGED = "the file cannot be decoded (it is cut off or damaged)"
NO_PLUGIN = "the file is damaged, or no installed plugin decodes it (pip install 'pylibjpeg[all]')"
ONE_COLOUR = "all its pixels have one colour"
#: What a radiograph's size may be: at least a patch of the encoders; no strip, whose short edge an encoder would
#: enlarge; and refused before it is decoded where a small file asks for all memory.
MIN_SIDE, MAX_RATIO, MAX_PIXELS = 14, 100, 80_000_000
WRONG_SIZE = (
    f"it has fewer than {MIN_SIDE} pixels on a side, more than {MAX_PIXELS:,} in all, or is more than "
    f"{MAX_RATIO} times as long as wide"
)

#: Pillow's modes of one channel with more than 8 bits. Its own conversion to 8 bits clips them instead of scaling.
_DEEP = ("I", "F")
#: Pillow's grey modes of at most 8 bits.
_GREY = ("1", "L", "LA", "La")
#: TIFF's BitsPerSample, SampleFormat (2 is signed) and PhotometricInterpretation (0: the smallest value is white).
_TIFF_BITS, _TIFF_FORMAT, _TIFF_PHOTOMETRIC = 258, 339, 262
#: DICOM's terms (PS3.3 C.7.3.1.1.1) for machines that make radiographs, and what films and screens are scanned as.
_MODALITIES = ("CR", "DX", "DR", "RG", "RF", "XR", "OT", "SC")
#: DICOM's terms (PS3.16 annex L) for parts of the body of which a radiograph shows no lungs. They are noted,
#: not refused: the tag is often that of the device's last programme, so a bedside chest can be an abdomen by its tag.
_OTHER_PARTS = re.compile(
    r"\b(ABDOMEN|ANKLE|ARM|BREAST|CALCANEUS|CLAVICLE|COCCYX|[CLS] ?SPINE|ELBOW|EXTREMITY|FEMUR|FINGER|FOOT|FOREARM|HAND"
    r"|HEAD|HEEL|HIP|HUMERUS|JAW|KNEE|LEG|MANDIBLE|MAXILLA|ORBIT|PATELLA|PELVIS|SHOULDER|SINUS|SKULL|TEETH|THIGH|THUMB"
    r"|TOE|WRIST|ZYGOMA)S?\b"
)
#: Key of ``Image.info`` for such a part.
OTHER_PART = "other_part"


class Header(NamedTuple):
    """Width and height of what :func:`open_image` returns, and the other part of the body that a DICOM file names."""

    width: int
    height: int
    part: str | None = None


class ImageError(DataError):
    """An image file cannot be used. ``problem`` says why, without the path and without anything the file holds."""

    def __init__(self, message: str, problem: str = ""):
        super().__init__(message)  # one argument: the error can be made again in another process
        self.problem = problem


def open_image(path: str | Path) -> Image.Image:
    """Decode one radiograph.

    Ordinary 8-bit files keep their values. Deeper grey files (PNG, TIFF) are scaled from their smallest and largest
    value to 0..255. DICOM files go through their modality transform, then their first VOI table or window, else from
    smallest to largest value; MONOCHROME1 is inverted last, and padding is black. An EXIF orientation is applied.

    Returns:
        Mode "L" where the file has one channel (transparency is dropped), else "RGB". If a DICOM file names another
        part of the body than the chest, ``info`` has it under ``OTHER_PART``.

    Raises:
        ImageError: the file is missing, is not an image, cannot be decoded, is :data:`WRONG_SIZE` or of one colour, or
            holds what is no single grey radiograph (DICOM in colour, with several frames, of another modality).
    """
    with _problems_of(path), open(path, "rb") as file:  # not by path: Pillow 13 then scrambles TIFF files to be turned
        return read_image(file, path)


def read_image(file: BinaryIO, name: str | Path, formats: tuple[str, ...] | None = None) -> Image.Image:
    """:func:`open_image` for an open file.

    Args:
        name: stands in messages; a DICOM file without DICOM's preamble is known by its ending.
        formats: Pillow's names of the formats that may be read, DICOM apart; None: all.
    """
    with _problems_of(name):
        if not _is_dicom(file, name):
            with Image.open(file, formats=formats) as image:
                return _as_radiograph(image)
        data = _read_dicom(file)
        image = _with_contrast(Image.fromarray(_dicom_grey(data)))
        if part := _other_part(data):
            image.info[OTHER_PART] = part
        return image


def as_radiograph(image: Image.Image, name: str) -> Image.Image:
    """:func:`open_image` for an image that Pillow has opened; ``name`` stands in messages."""
    with _problems_of(name):
        return _as_radiograph(image)


def image_header(path: str | Path) -> Header:
    """What the header alone says about an image; what it rules out is refused.

    Raises:
        ImageError: the file is missing, is not an image, or its header says that it cannot be used.
    """
    with _problems_of(path), open(path, "rb") as file:
        if _is_dicom(file, path):
            header = _read_dicom(file, header_only=True)
            return Header(header.Columns, header.Rows, _other_part(header))
        with Image.open(file) as image:
            _check_header(image)
            return Header(*(image.size[::-1] if _orientation(image) in (5, 6, 7, 8) else image.size))


def reading_problem(error: OSError | ValueError) -> str:
    """Why a file cannot be opened or read, in words."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return MISSING
    if isinstance(error, ValueError):
        return "no file can have this name"
    return f"the file cannot be read ({error.strerror})" if error.strerror else DAMAGED  # Pillow's own has no number


class _Refused(Exception):
    """Why an image is not used."""


@contextmanager
def _problems_of(path: str | Path) -> Generator[None]:
    try:
        yield
        return
    except ImageError:
        raise
    except UnidentifiedImageError:
        problem = NOT_AN_IMAGE
    except OSError as error:
        problem = reading_problem(error)
    except _Refused as refusal:
        problem = f"the image cannot be used: {refusal}"
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        problem = f"the image cannot be used: {WRONG_SIZE}"
    except RuntimeError:  # of pydicom
        problem = NO_PLUGIN
    except Exception:  # a damaged file can make a decoder raise anything, in words that may quote the file
        problem = DAMAGED
    raise ImageError(f"image {path}: {problem}", problem)


def _check_size(width: int, height: int) -> None:
    short, long = sorted((width, height))
    if short < MIN_SIDE or long > MAX_RATIO * short or width * height > MAX_PIXELS:
        raise _Refused(WRONG_SIZE)


def _full_range(values: np.ndarray, low: float, high: float) -> np.ndarray:
    """``low``..``high`` to 0..255; all zeros where the two are the same."""
    if low == high:
        return np.zeros(values.shape, dtype=np.uint8)
    return np.rint(((values - low) / (high - low)).clip(0, 1) * 255).astype(np.uint8)


def _with_contrast(image: Image.Image) -> Image.Image:
    """The image, refused where it shows nothing; two pixels that differ spare the look at all of them."""
    same = image.getpixel((0, 0)) == image.getpixel((image.width // 2, image.height // 2))
    if same and not np.ptp(np.reshape(image.getextrema(), (-1, 2)), axis=1).any():
        raise _Refused(ONE_COLOUR)
    return image


# -- files that Pillow reads ------------------------------------------------------------------------------------------


def _as_radiograph(image: Image.Image) -> Image.Image:
    _check_header(image)
    orientation = _orientation(image)
    if image.mode.startswith(_DEEP):
        shown = Image.fromarray(_deep_grey(image))
    else:
        image.info.pop("transparency", None)  # Pillow warns about a palette's, and drops it
        shown = image.convert("L" if image.mode in _GREY else "RGB")
    shown.info.clear()
    if orientation != 1:
        shown.getexif()[ExifTags.Base.Orientation] = orientation
        shown = ImageOps.exif_transpose(shown)
    return _with_contrast(shown)


def _check_header(image: Image.Image) -> None:
    """Refuse what Pillow would silently decode into something other than the picture."""
    _check_size(*image.size)
    # asking for their number would read all of them; MPO: a camera's JPG with a preview behind it
    if getattr(image, "is_animated", False) and image.format != "MPO":
        raise _Refused("it has several frames")
    tiles, tags = getattr(image, "tile", None), getattr(image, "tag_v2", {})
    deep_png = image.format == "PNG" and not image.mode.startswith(_DEEP) and tiles and str(tiles[0][3]).endswith("16B")
    bits, kind = tags.get(_TIFF_BITS, (1,)), max(tags.get(_TIFF_FORMAT, (1,)))
    deep_tiff = (len(bits) > 1 and max(bits) > 8) or (max(bits), kind) in ((8, 2), (32, 1))
    if deep_png or deep_tiff:
        raise _Refused("its values have several channels of more than 8 bits, 8 bits and a sign, or 32 without one")


def _orientation(image: Image.Image) -> int:
    """The EXIF orientation, 1 to 8, in the header of an image that is not decoded yet."""
    # Pillow turns TIFF files itself, and decodes a PNG file to look for EXIF behind the pixels
    if image.format == "TIFF" or (image.format == "PNG" and "exif" not in image.info):
        return 1
    try:
        orientation = image.getexif().get(ExifTags.Base.Orientation, 1)
    except Exception:  # whatever a damaged block raises: it says nothing about an image that may be whole
        return 1
    return orientation if orientation in range(1, 9) else 1


def _deep_grey(image: Image.Image) -> np.ndarray:
    values = np.asarray(image)
    if not np.isfinite(values).all():
        raise _Refused("it holds values that are not finite")
    grey = _full_range(values.astype(np.float64), float(values.min()), float(values.max()))
    return 255 - grey if getattr(image, "tag_v2", {}).get(_TIFF_PHOTOMETRIC) == 0 else grey


# -- DICOM files ------------------------------------------------------------------------------------------------------


def _is_dicom(file: BinaryIO, path: str | Path) -> bool:
    start = file.read(132)
    file.seek(0)
    return start[128:] == b"DICM" or Path(path).suffix.lower() in (".dcm", ".dicom")


@cache
def _pydicom() -> ModuleType:
    """pydicom, loaded when the first DICOM file is met, and silent about oddities of fields that are not read here."""
    import pydicom.config
    import pydicom.pixels

    pydicom.config.settings.reading_validation_mode = pydicom.config.IGNORE
    warnings.filterwarnings("ignore", module=r"pydicom\.")
    return pydicom


def _read_dicom(file: BinaryIO, header_only: bool = False) -> FileDataset:
    """The data set, once its header says that it is one grey image which an installed decoder reads."""
    pydicom = _pydicom()
    # force: files with the extension but without DICOM's preamble exist; those without the fields are refused here
    data = pydicom.dcmread(file, force=True, stop_before_pixels=header_only)
    if "Rows" not in data or "Columns" not in data:
        raise UnidentifiedImageError
    modality = str(data.get("Modality") or "").strip().upper()
    if modality and modality not in _MODALITIES:
        raise _Refused(f"its Modality is not one of a radiograph's: {', '.join(_MODALITIES)}")
    high_bit = data.BitsStored - 1
    if not (
        data.get("PhotometricInterpretation") in ("MONOCHROME1", "MONOCHROME2")
        and (data.get("SamplesPerPixel", 1), int(data.get("NumberOfFrames") or 1)) == (1, 1)
        and data.get("BitsAllocated") in (8, 16)
        and data.get("HighBit", high_bit) == high_bit
    ):
        raise _Refused("it is not one frame, MONOCHROME1 or MONOCHROME2, of 8 or 16 bits with HighBit BitsStored - 1")
    _check_size(data.Columns, data.Rows)
    if "TransferSyntaxUID" not in data.file_meta:
        raise _Refused("it does not name its transfer syntax")
    if not pydicom.pixels.get_decoder(data.file_meta.TransferSyntaxUID).is_available:
        raise RuntimeError
    return data


def _other_part(data: Dataset) -> str | None:
    part = str(data.get("BodyPartExamined") or "").upper().replace("_", " ")
    other = None if re.search("CHEST|THORA", part) else _OTHER_PARTS.search(part)
    return other and other[0]


def _dicom_grey(data: FileDataset) -> np.ndarray:
    """8-bit grey. A table of all stored values is transformed, not the pixels: exact, quick and small.

    ``apply_modality_lut`` and ``apply_voi_lut`` of pydicom 3.0 are not used. They refuse tables with entries of one
    byte or an odd depth, wrap where a table of 8 bits meets larger values, and round some ties of a window to the next
    level, which would change what earlier versions stored.
    """
    stored = data.pixel_array  # without bits that are no part of the values (overlays of old files), sign extended
    lowest = int(stored.min())
    places = stored.astype(np.int32) - lowest
    values = np.arange(lowest, int(stored.max()) + 1)
    padding = np.zeros(values.shape, dtype=bool)
    if (first := data.get("PixelPaddingValue")) is not None:
        last = data.get("PixelPaddingRangeLimit")
        low, high = sorted((int(first), int(first if last is None else last)))
        padding = (values >= low) & (values <= high)
    present = np.zeros(values.shape, dtype=bool)
    present[places] = True
    present &= ~padding

    measured = _measured(data, values)
    grey = _windowed(data, measured)
    if grey is None:
        inside = measured[present] if present.any() else np.zeros(1)
        grey = _full_range(measured, inside.min(), inside.max())
    if data.PhotometricInterpretation == "MONOCHROME1":
        grey = 255 - grey
    grey[padding] = 0
    return grey[places]


def _measured(data: FileDataset, values: np.ndarray) -> np.ndarray:
    """Stored values to what the modality measured: a table, else slope and intercept."""
    if data.get("ModalityLUTSequence"):
        return _look_up(data, data.ModalityLUTSequence[0], values)[0].astype(np.float64)
    measured = values * _number(data, "RescaleSlope", 1.0) + _number(data, "RescaleIntercept", 0.0)
    if not np.isfinite(measured).all():
        raise _Refused("its RescaleSlope or RescaleIntercept is not finite")
    return measured


def _windowed(data: FileDataset, values: np.ndarray) -> np.ndarray | None:
    """Measured values to grey by the file's first table or window, as PS3.3 C.11.2 defines them; None without one that
    the standard allows."""
    if data.get("VOILUTSequence"):
        entries, largest = _look_up(data, data.VOILUTSequence[0], np.rint(values).astype(np.int64))
        return np.rint(entries * (255 / largest)).astype(np.uint8)
    center, width = _number(data, "WindowCenter", np.nan), _number(data, "WindowWidth", np.nan)
    function = str(data.get("VOILUTFunction") or "LINEAR").upper()
    if function not in ("LINEAR", "LINEAR_EXACT", "SIGMOID"):
        raise _Refused("its VOILUTFunction is not LINEAR, LINEAR_EXACT or SIGMOID")
    # a width of 0 is how some devices write that there is no window
    if not np.isfinite([center, width]).all() or width <= 0 or (function == "LINEAR" and width < 1):
        return None
    if function == "SIGMOID":
        # tanh is the standard's 1 / (1 + exp(-x)), without its overflow
        return np.rint(127.5 * (1 + np.tanh(2 * (values - center) / width))).astype(np.uint8)
    if function == "LINEAR":
        center, width = center - 0.5, width - 1
    if width == 0:
        return np.where(values > center, 255, 0).astype(np.uint8)
    return _full_range(values, center - width / 2, center + width / 2)


def _look_up(data: FileDataset, item: Dataset, values: np.ndarray) -> tuple[np.ndarray, int]:
    """Entries of a DICOM table for integer values, the outer entries beyond its ends, and the largest entry allowed."""
    count, first, depth = (int(number) for number in item.LUTDescriptor)
    entries = item.LUTData
    if isinstance(entries, bytes):
        one_byte = len(entries) <= (count or 1 << 16) + 1
        order = "<" if data.file_meta.TransferSyntaxUID.is_little_endian else ">"
        entries = np.frombuffer(entries, dtype="u1" if one_byte else order + "u2")
    entries = np.atleast_1d(np.asarray(entries, dtype=np.int64))[: count or 1 << 16]
    # some devices write a depth that their entries exceed
    largest = max((1 << depth) - 1, int(entries.max()))
    return entries[(values - first).clip(0, len(entries) - 1)], largest


def _number(data: Dataset, name: str, default: float) -> float:
    """A decimal field, the first of several; ``default`` where it is absent or empty."""
    value = data.get(name)
    if value is not None and not isinstance(value, str | int | float):
        value = value[0] if len(value) else None
    return default if value is None or value == "" else float(value)
