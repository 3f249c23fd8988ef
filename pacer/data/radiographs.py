"""Decoding of all radiographs: JPG, PNG, TIFF or DICOM becomes an 8-bit image with dark lungs and bright bones."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache, partial
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
NO_PLUGIN = (
    "the file is damaged, or no installed plugin decodes it (in the clone: `pip install -c constraints.txt '.[dicom]'`)"
)
ONE_COLOUR = "all its pixels have one colour"
#: Limits on a radiograph's size: at least an encoder patch, and not a strip, whose short edge an encoder would enlarge.
#: Oversized images are refused before decoding, because a small file can exhaust memory.
MIN_SIDE, MAX_RATIO, MAX_PIXELS = 14, 100, 80_000_000
WRONG_SIZE = (
    f"it has fewer than {MIN_SIDE} pixels on a side, more than {MAX_PIXELS:,} in all, or is more than "
    f"{MAX_RATIO} times as long as wide"
)
_FAR_PIXELS = "a few pixels are far outside the rest and do not count for the range of grey"
#: Pillow's single-channel modes with more than 8 bits. Pillow's conversion to 8 bits clips instead of scaling.
_DEEP = ("I", "F")
#: Pillow's grey modes of at most 8 bits.
_GREY = ("1", "L", "LA", "La")
#: TIFF's BitsPerSample, SampleFormat (2 is signed) and PhotometricInterpretation (0: the smallest value is white).
_TIFF_BITS, _TIFF_FORMAT, _TIFF_PHOTOMETRIC = 258, 339, 262
#: DICOM modalities (PS3.3 C.7.3.1.1.1) of machines that make radiographs, and of scanned films and screens.
_MODALITIES = ("CR", "DX", "DR", "RG", "RF", "XR", "OT", "SC")
#: DICOM elements without which the pixels cannot be decoded.
_NEEDED = ("Rows", "Columns", "SamplesPerPixel", "BitsAllocated", "BitsStored", "PixelRepresentation", "PixelData")
#: Storage classes of X-ray angiography and radiofluoroscopy, and the pixel relationships for which their modality table
#: or slope leads back to the beam's intensity: it is not for display (PS3.3 C.8.7.1.1.3), and DCMTK does not apply it.
_ANGIOGRAPHY = tuple(f"1.2.840.10008.5.1.4.1.1.{number}" for number in ("12.1", "12.2", "12.3", "12.1.1", "12.2.1"))
_NOT_LINEAR = ("LOG", "DISP")
#: Fields with the height and width of a pixel, in the order in which DCMTK reads them.
_SPACINGS = ("PixelSpacing", "ImagerPixelSpacing", "NominalScannedPixelSpacing", "PixelAspectRatio")
#: Fewer distinct values than this do not tell whether a window is for them.
_FEW_VALUES = 32
#: Parts of the body whose radiographs do not show the lungs: DICOM's terms (PS3.16 annex L) and usual words.
_OTHER_PARTS = re.compile(
    r"ABD|ABDO(?:MEN|MINAL)?|KUB|PELVI[SC]|HIPS?|RIBS?|STERNUM|[CTL]?SPINES?|VERTEBRAE?|CERVICAL|LUMBAR|THORACIC|SACRUM"
    r"|COCCYX|SHOULDERS?|SCAPULAE?|CLAVICLES?|ARM|HUMERUS|ELBOWS?|FOREARMS?|WRISTS?|HANDS?|FINGERS?|THUMBS?|FEMURS?"
    r"|THIGHS?|KNEES?|PATELLAE?|LEGS?|TIBIA|FIBULA|ANKLES?|FOOT|FEET|TOES?|HEELS?|CALCANEUS|EXTREMIT(?:Y|IES)|SKULL|HEAD"
    r"|FACE|FACIAL|SINUS(?:ES)?|ORBITS?|MANDIBLE|MAXILLA|JAW|NASAL|TEETH|DENTAL|ZYGOMAS?|NECK|BREASTS?|BABYGRAM"
)
_CHEST = {"CHEST", "THORAX", "LUNG", "LUNGS", "CXR"}
#: Key of ``Image.info`` for notes on what deserves a look: a DICOM field that contradicts another or the pixels, ...
NOTES = "notes"
#: The last bytes of a whole file, by Pillow's names of formats.
_LAST_BYTES = {"JPEG": b"\xff\xd9", "MPO": b"\xff\xd9", "PNG": b"IEND\xaeB`\x82"}


class Header(NamedTuple):
    """Size of the image that :func:`open_image` returns, and its :data:`NOTES`."""

    width: int
    height: int
    notes: tuple[str, ...] = ()


class ImageError(DataError):
    """An image file cannot be used. ``problem`` gives the reason, without the path or any content of the file."""

    def __init__(self, message: str, problem: str = ""):
        super().__init__(message)  # one argument, so that the error can be unpickled in another process
        self.problem = problem


def open_image(path: str | Path) -> Image.Image:
    """Decode one radiograph.

    Ordinary 8-bit files keep their values. Deeper grey files (PNG, TIFF) are scaled from their smallest and largest
    value to 0..255, without a few values far outside the rest. DICOM files pass through their modality transform, then
    their first VOI table or window; without one, or if it hides the middle of the image, they are scaled in the same
    way. MONOCHROME1 is inverted, padding is black, and pixels become square. EXIF orientation is applied.

    Returns:
        Mode "L" if the file has one channel (transparency is dropped), else "RGB"; ``info`` has any :data:`NOTES`.

    Raises:
        ImageError: the file is missing, is not an image, cannot be decoded, is :data:`WRONG_SIZE`, has one colour, or
            is not a single grey radiograph (DICOM in colour, with several frames, or of another modality).
    """
    with _problems_of(path), open(path, "rb") as file:  # not by path: Pillow 13 would scramble rotated TIFF files
        return read_image(file, path)


def read_image(file: BinaryIO, name: str | Path, formats: tuple[str, ...] | None = None) -> Image.Image:
    """Decode one radiograph from an open file; see :func:`open_image`.

    Args:
        name: used in messages; its extension identifies a DICOM file without DICOM's preamble.
        formats: Pillow's names of the allowed formats other than DICOM; None: all.
    """
    with _problems_of(name):
        if not _is_dicom(file, name):
            with Image.open(file, formats=formats) as image:
                return as_radiograph(image, name)
        return _with_contrast(_dicom_image(_read_dicom(file)))


def image_header(path: str | Path) -> Header:
    """Read the header of an image, and whether an 8-bit file is whole; decode DICOM and deeper files, whose pixels
    decide what is shown.

    Raises:
        ImageError: the file is missing, is not an image, or cannot be used.
    """
    with _problems_of(path), open(path, "rb") as file:
        if not _is_dicom(file, path):
            with Image.open(file) as image:
                _check_header(image)
                if not image.mode.startswith(_DEEP) and _is_whole(file, image.format):
                    return Header(*(image.size[::-1] if _orientation(image) in (5, 6, 7, 8) else image.size))
        file.seek(0)
        image = read_image(file, path)
        return Header(*image.size, image.info.get(NOTES, ()))


def _is_whole(file: BinaryIO, form: str | None) -> bool:
    """Whether a file ends as a whole one of its format does; a file that does not can still be one."""
    if (last := _LAST_BYTES.get(form or "")) is None:
        return False
    file.seek(-len(last), os.SEEK_END)
    return file.read() == last


def reading_problem(error: OSError | ValueError) -> str:
    """Return the reason why a file cannot be opened or read."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return MISSING
    if isinstance(error, ValueError):
        return "no file can have this name"
    return f"the file cannot be read ({error.strerror})" if error.strerror else DAMAGED  # Pillow's errors have none


class _Refused(Exception):
    """Reason to refuse an image."""


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
    except RuntimeError:  # from pydicom
        problem = NO_PLUGIN
    except Exception:  # a damaged file can make a decoder raise anything, and the message may quote the file
        problem = DAMAGED
    raise ImageError(f"image {path}: {problem}", problem)


def _check_size(width: int, height: int) -> None:
    """Refuse an image that is too small, too large or too long."""
    short, long = sorted((width, height))
    if short < MIN_SIDE or long > MAX_RATIO * short or width * height > MAX_PIXELS:
        raise _Refused(WRONG_SIZE)


def _full_range(values: np.ndarray, low: float, high: float) -> np.ndarray:
    """Scale ``low``..``high`` to 0..255; return all zeros if the two are equal."""
    if low == high:
        return np.zeros(values.shape, dtype=np.uint8)
    return np.rint(((values - low) / (high - low)).clip(0, 1) * 255).astype(np.uint8)


def _sound_range(values: np.ndarray, counts: np.ndarray) -> tuple[float, float, bool]:
    """Return the smallest and the largest value, and whether others are left out: values of few pixels (at most 10, or
    one in 100,000, and one in 500 of a small image) that are farther from the rest than the rest is wide.

    Args:
        values: distinct values, in any order. counts: number of pixels of each.
    """
    order = np.argsort(values)
    values, counts = values[order], counts[order]
    number = int(counts.sum())
    few = min(number // 500, max(10, number // 100_000))
    is_few = (np.cumsum(counts) <= few, np.cumsum(counts[::-1])[::-1] <= few)
    core = values[~is_few[0] & ~is_few[1]]
    first, last, width = 0, len(values) - 1, np.ptp(core) if core.size else 0
    if width > 0:
        far = np.diff(values) > width  # from a value to the next
        first = max(np.flatnonzero(far & is_few[0][:-1]) + 1, default=first)
        last = min(np.flatnonzero(far & is_few[1][1:]), default=last)
    return float(values[first]), float(values[last]), bool(first or last < len(values) - 1)


def _with_contrast(image: Image.Image) -> Image.Image:
    """Return the image; refuse it if all pixels are equal."""
    if not np.ptp(np.reshape(image.getextrema(), (-1, 2)), axis=1).any():
        raise _Refused(ONE_COLOUR)
    return image


# -- files that Pillow reads ------------------------------------------------------------------------------------------


def as_radiograph(image: Image.Image, name: str | Path) -> Image.Image:
    """Decode an image that Pillow has opened; see :func:`open_image`. ``name`` is used in messages."""
    with _problems_of(name):
        _check_header(image)
        orientation = _orientation(image)
        if image.mode.startswith(_DEEP):
            grey, has_far = _deep_grey(image)
            shown, notes = Image.fromarray(grey), (_FAR_PIXELS,) * has_far
        else:
            notes = ()
            image.info.pop("transparency", None)  # Pillow warns about a palette's transparency and drops it
            shown = image.convert("L" if image.mode in _GREY else "RGB")
        shown.info.clear()
        if orientation != 1:
            shown.getexif()[ExifTags.Base.Orientation] = orientation
            shown = ImageOps.exif_transpose(shown)
        if notes:
            shown.info[NOTES] = notes
        return _with_contrast(shown)


def _check_header(image: Image.Image) -> None:
    """Refuse images of the wrong size, with several frames, or that Pillow would silently decode incorrectly."""
    _check_size(*image.size)
    # counting the frames would read all of them; MPO: a camera's JPG followed by a preview
    if getattr(image, "is_animated", False) and image.format != "MPO":
        raise _Refused("it has several frames")
    tiles, tags = getattr(image, "tile", None), getattr(image, "tag_v2", {})
    deep_png = image.format == "PNG" and not image.mode.startswith(_DEEP) and tiles and str(tiles[0][3]).endswith("16B")
    bits, kind = tags.get(_TIFF_BITS, (1,)), max(tags.get(_TIFF_FORMAT, (1,)))
    deep_tiff = (len(bits) > 1 and max(bits) > 8) or (max(bits), kind) in ((8, 2), (32, 1))
    if deep_png or deep_tiff:
        raise _Refused("its values are in several channels of more than 8 bits, or are signed 8-bit or unsigned 32-bit")


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


def _deep_grey(image: Image.Image) -> tuple[np.ndarray, bool]:
    """Return 8-bit grey, and whether a few values far outside the rest do not count."""
    values = np.asarray(image)
    if not np.isfinite(values).all():
        raise _Refused("it holds values that are not finite")
    if values.dtype.kind in "iu" and int(values.max()) - int(values.min()) < 1 << 20:  # much faster than sorting
        counts = np.bincount((values.astype(np.int32) - int(values.min())).ravel())
        distinct = np.flatnonzero(counts)
        low, high, has_far = _sound_range(distinct + int(values.min()), counts[distinct])
    else:
        low, high, has_far = _sound_range(*np.unique(values, return_counts=True))
    grey = _full_range(values.astype(np.float64), low, high)
    return 255 - grey if getattr(image, "tag_v2", {}).get(_TIFF_PHOTOMETRIC) == 0 else grey, has_far


# -- DICOM files ------------------------------------------------------------------------------------------------------


def other_part(text: str) -> str | None:
    """Return the first word of a text that names a part of the body other than the chest; None if there is none, or if
    the text names the chest as well."""
    words = re.findall("[A-Z]+", text.upper())
    return None if _CHEST.intersection(words) else next(filter(_OTHER_PARTS.fullmatch, words), None)


def _is_dicom(file: BinaryIO, path: str | Path) -> bool:
    start = file.read(132)
    file.seek(0)
    return start[128:] == b"DICM" or Path(path).suffix.lower() in (".dcm", ".dicom")


@cache
def _pydicom() -> ModuleType:
    """Import pydicom at the first DICOM file, and silence its warnings about fields that are not read here."""
    import pydicom.config
    import pydicom.pixels

    pydicom.config.settings.reading_validation_mode = pydicom.config.IGNORE
    warnings.filterwarnings("ignore", module=r"pydicom\.")
    return pydicom


def _read_dicom(file: BinaryIO) -> FileDataset:
    """Read the data set; refuse it unless it is a single grey image that an installed decoder can read."""
    pydicom = _pydicom()
    # force: some files have the extension but no DICOM preamble; those without the fields are refused below
    data = pydicom.dcmread(file, force=True)
    missing = [name for name in _NEEDED if name not in data or data.get_item(name).value in (None, "", b"")]
    if len(missing) == len(_NEEDED):
        raise UnidentifiedImageError
    if missing:
        raise _Refused(f"its DICOM header lacks {', '.join(missing)}")
    modality = str(data.get("Modality") or "").strip().upper()
    if modality and modality not in _MODALITIES:
        raise _Refused(f"its Modality is not one of a radiograph's: {', '.join(_MODALITIES)}")
    high_bit = data.BitsStored - 1
    if not (
        data.get("PhotometricInterpretation") in ("MONOCHROME1", "MONOCHROME2")
        and (data.get("SamplesPerPixel", 1), int(data.get("NumberOfFrames") or 1)) == (1, 1)
        and data.BitsAllocated in (8, 16)
        and 0 < data.BitsStored <= data.BitsAllocated
        and data.PixelRepresentation in (0, 1)
        and data.get("HighBit", high_bit) == high_bit
    ):
        raise _Refused(
            "it is not a single frame, MONOCHROME1 or MONOCHROME2 (PhotometricInterpretation), with 8 or 16 bits "
            "allocated, BitsStored within them, HighBit equal to BitsStored - 1, and PixelRepresentation 0 or 1"
        )
    _check_size(data.Columns, data.Rows)
    if "TransferSyntaxUID" not in data.file_meta:
        if data.original_encoding != (True, True):
            raise _Refused(
                "it does not name its transfer syntax, and is not in the default one (Implicit VR Little Endian)"
            )
        data.file_meta.TransferSyntaxUID = pydicom.uid.ImplicitVRLittleEndian
    if not pydicom.pixels.get_decoder(data.file_meta.TransferSyntaxUID).is_available:
        raise RuntimeError
    return data


def _dicom_image(data: FileDataset) -> Image.Image:
    """Return 8-bit grey with square pixels, and :data:`NOTES` on fields that contradict each other or the pixels, or
    say that the image is not for people's eyes. Each note begins with the field.

    Where a header contradicts itself, this is followed: PhotometricInterpretation before PresentationLUTShape, and the
    first spacing in the order of :data:`_SPACINGS`.
    """
    grey, notes = _grey(data)
    if part := other_part(str(data.get("BodyPartExamined") or "")):
        notes.append(f"BodyPartExamined is {part}")
    if _number(data, "RescaleSlope", 1.0) == 0:
        notes.append("RescaleSlope is 0 and is ignored")
    if "PROCESSING" in str(data.get("PresentationIntentType") or "").upper():
        notes.append("PresentationIntentType is FOR PROCESSING")
    if "For Processing" in getattr(data.get("SOPClassUID"), "name", ""):
        notes.append("SOPClassUID is of images for processing")
    photometric, shape = data.PhotometricInterpretation, str(data.get("PresentationLUTShape") or "").strip().upper()
    if (photometric, shape) in (("MONOCHROME1", "IDENTITY"), ("MONOCHROME2", "INVERSE")):
        notes.append(f"PresentationLUTShape is {shape}, but {photometric} is followed")
    ratios = {name: ratio for name in _SPACINGS if (ratio := _height_of_pixels(data, name)) is not None}
    image = Image.fromarray(grey)
    field, ratio = next(iter(ratios.items()), ("", 1.0))
    is_same = partial(np.isclose, rtol=0.01, atol=0)  # but for rounding
    others = [name for name, other in ratios.items() if not is_same(other, ratio)]
    notes += [f"{name} contradicts {field}, which is followed" for name in others]
    if not is_same(ratio, 1):
        size = (data.Columns, round(data.Rows * ratio)) if ratio > 1 else (round(data.Columns / ratio), data.Rows)
        _check_size(*size)
        image = image.resize(size, Image.Resampling.BICUBIC)
        notes.append(f"{field} is not square, the image is resampled to square pixels")
    image.info = {NOTES: tuple(notes)} if notes else {}
    return image


def _height_of_pixels(data: FileDataset, name: str) -> float | None:
    """Return the height of a pixel in widths, None if the field is absent or has no meaning."""
    try:
        height, width = (float(number) for number in data.get(name) or ())
    except (TypeError, ValueError):
        return None
    return height / width if 0 < height < np.inf and 0 < width < np.inf else None


def _grey(data: FileDataset) -> tuple[np.ndarray, list[str]]:
    """Convert to 8-bit grey by transforming a table of all stored values instead of the pixels: exact, fast and small.
    pydicom 3.0's own transforms refuse some tables, and round some ties differently than earlier versions stored.

    A table or window that shows more than half of the values in the middle of the image in black or white belongs to
    another kind of image; then the range of the values is used.
    """
    stored = data.pixel_array  # sign extended, without bits outside the values (overlays of old files)
    lowest = int(stored.min())
    places = stored.astype(np.int32) - lowest
    values = np.arange(lowest, int(stored.max()) + 1)
    padding = np.zeros(values.shape, dtype=bool)
    if (first := data.get("PixelPaddingValue")) is not None:
        last = data.get("PixelPaddingRangeLimit")
        signed = data.PixelRepresentation == 1
        low, high = sorted(_us_or_ss(int(bound), signed) for bound in (first, first if last is None else last))
        padding = (values >= low) & (values <= high)
    counts = np.bincount(places.ravel()) * ~padding
    present = counts > 0

    measured, notes = _measured(data, values), list[str]()
    grey = _windowed(data, measured)
    modality = "ModalityLUTSequence" if data.get("ModalityLUTSequence") else "RescaleSlope"
    voi = "VOILUTSequence" if data.get("VOILUTSequence") else "WindowCenter and WindowWidth"
    if grey is not None and _hides(grey, places, present):
        grey = None
        notes.append(f"{voi}: not for these values, whose range is used")
    if grey is None:
        inside, number = (measured[present], counts[present]) if present.any() else (np.zeros(1), np.ones(1))
        low, high, has_far = (
            _sound_range(inside, number) if data.BitsAllocated > 8 else (inside.min(), inside.max(), False)
        )
        grey = _full_range(measured, low, high)
        notes += [f"PixelData: {_FAR_PIXELS}"] * has_far
    if present.sum() > 1 and not np.ptp(grey[present]):
        by = voi if np.ptp(measured[present]) else modality
        raise _Refused(f"its pixels differ, but its {by} would show all in one grey (correct or remove the field)")
    if data.PhotometricInterpretation == "MONOCHROME1":
        grey = 255 - grey
    grey[padding] = 0
    return grey[places], notes


def _hides(grey: np.ndarray, places: np.ndarray, present: np.ndarray) -> bool:
    """Whether more than half of the distinct values in the middle of an image, if they are not few, become 0 or 255."""
    height, width = places.shape
    middle = np.zeros(grey.shape, dtype=bool)
    middle[places[height // 4 : height - height // 4, width // 4 : width - width // 4]] = True
    shown = grey[middle & present]
    return len(shown) >= _FEW_VALUES and 2 * int(((shown == 0) | (shown == 255)).sum()) > len(shown)


def _measured(data: FileDataset, values: np.ndarray) -> np.ndarray:
    """Convert stored values to the modality's measurements by its table, or else by slope and intercept."""
    if data.get("SOPClassUID") in _ANGIOGRAPHY and data.get("PixelIntensityRelationship") in _NOT_LINEAR:
        return values.astype(np.float64)
    if data.get("ModalityLUTSequence"):
        signed = data.PixelRepresentation == 1
        return _look_up(data, "ModalityLUTSequence", values, signed)[0].astype(np.float64)
    slope = _number(data, "RescaleSlope", 1.0)
    if slope == 0:  # it has no meaning, and some devices write it with an intercept of 0 for none
        return values.astype(np.float64)
    measured = values * slope + _number(data, "RescaleIntercept", 0.0)
    if not np.isfinite(measured).all():
        raise _Refused("its RescaleSlope or RescaleIntercept is not finite")
    return measured


def _windowed(data: FileDataset, values: np.ndarray) -> np.ndarray | None:
    """Convert measured values to grey by the file's first VOI table or window (PS3.3 C.11.2); None if there is none
    that the standard allows."""
    if data.get("VOILUTSequence"):
        lowest = -(1 << data.BitsStored - 1) if data.PixelRepresentation == 1 else 0
        ends = _measured(data, np.array([lowest, lowest + (1 << data.BitsStored) - 1]))
        entries, largest = _look_up(data, "VOILUTSequence", np.rint(values), bool(ends.min() < 0))
        return np.rint(entries * (255 / largest)).astype(np.uint8)
    center, width = _number(data, "WindowCenter", np.nan), _number(data, "WindowWidth", np.nan)
    function = str(data.get("VOILUTFunction") or "LINEAR").upper()
    if function not in ("LINEAR", "LINEAR_EXACT", "SIGMOID"):
        raise _Refused("its VOILUTFunction is not LINEAR, LINEAR_EXACT or SIGMOID")
    # some devices write a width of 0 if there is no window
    if not np.isfinite([center, width]).all() or width <= 0 or (function == "LINEAR" and width < 1):
        return None
    if function == "SIGMOID":
        # equals the standard's 1 / (1 + exp(-x)), but does not overflow
        return np.rint(127.5 * (1 + np.tanh(2 * (values - center) / width))).astype(np.uint8)
    if function == "LINEAR":
        center, width = center - 0.5, width - 1
    if width == 0:
        return np.where(values > center, 255, 0).astype(np.uint8)
    return _full_range(values, center - width / 2, center + width / 2)


def _us_or_ss(value: int, signed: bool) -> int:
    """Return a 16-bit value as what it stands for; the VR with which it was written, US or SS, is often the other."""
    value &= 0xFFFF
    return value - (1 << 16) if signed and value >= 1 << 15 else value


def _look_up(data: FileDataset, name: str, values: np.ndarray, signed: bool) -> tuple[np.ndarray, int]:
    """Look up whole numbers in a DICOM table, clamped to its ends; return the entries and the largest possible one.

    ``signed``: whether the values that the table is for can be negative.
    """
    item = data[name][0]
    descriptor, words = item.get("LUTDescriptor"), item.get("LUTData")
    if len(descriptor or ()) != 3 or words in (None, b"", []):
        raise _Refused(f"its {name} has no LUTDescriptor of three numbers, or no LUTData")
    count, first, depth = (int(number) for number in descriptor)
    count, first = (count & 0xFFFF) or 1 << 16, _us_or_ss(first, signed)
    if isinstance(words, bytes):
        order = "<" if data.file_meta.TransferSyntaxUID.is_little_endian else ">"
        words = np.frombuffer(words + bytes(len(words) % 2), dtype=order + "u2")
    entries = np.atleast_1d(np.asarray(words, dtype=np.int64)) & 0xFFFF  # unsigned, whatever the VR (PS3.3 C.11.1.1.1)
    if count > 1 and 2 * len(entries) <= count + 1:  # two to a word, the first in its low byte
        entries, depth = entries.astype("<u2").view(np.uint8).astype(np.int64), 8
    entries = entries[:count]
    largest = int(entries.max())
    # on some devices the entries have more bits than stated, or are all of one of the smaller depths
    if largest < (1 << depth) - 1 and largest not in ((1 << bits) - 1 for bits in range(8, depth)):
        largest = (1 << depth) - 1
    return entries[(values - first).clip(0, len(entries) - 1).astype(np.int64)], largest


def _number(data: Dataset, name: str, default: float) -> float:
    """Return a decimal field, or its first value if it has several; ``default`` if it is absent or empty."""
    try:
        value = data.get(name)
        if value is not None and not isinstance(value, str | int | float):
            value = value[0] if len(value) else None
        return default if value is None or value == "" else float(value)
    except ValueError:
        raise _Refused(f"its {name} is not a number") from None
