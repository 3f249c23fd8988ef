"""Decoding of DICOM radiographs: modality transform, window or table, padding, and square
pixels."""

from __future__ import annotations

import re
import warnings
from functools import cache, partial
from types import ModuleType
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from PIL import Image, UnidentifiedImageError

from pacer.core.io import yaml_beside
from pacer.images.compressed import check_compressed_size, plugin_of
from pacer.images.greyscale import (
    FAR_LARGEST,
    FAR_PIXELS,
    NOTES,
    OWNER,
    Refused,
    check_size,
    full_range,
    has_far_largest,
    sound_range,
)

if TYPE_CHECKING:
    from pydicom import Dataset, FileDataset

#: DICOM modalities (PS3.3 C.7.3.1.1.1) of machines that make radiographs, and of scanned films and
#: screens.
_MODALITIES = ("CR", "DX", "DR", "RG", "RF", "XR", "OT", "SC")
#: DICOM elements without which the pixels cannot be decoded.
_NEEDED = (
    "Rows",
    "Columns",
    "SamplesPerPixel",
    "BitsAllocated",
    "BitsStored",
    "PixelRepresentation",
    "PixelData",
)
#: Fields with the height and width of a pixel, in the order in which DCMTK reads them.
_SPACINGS = ("PixelSpacing", "ImagerPixelSpacing", "NominalScannedPixelSpacing", "PixelAspectRatio")
_DAYS = ("StudyDate", "SeriesDate", "AcquisitionDate", "ContentDate")
#: Fields with words on how an image was made.
_PROCESSING = (
    "ImageType",
    "SeriesDescription",
    "DerivationDescription",
    "AcquisitionDeviceProcessingDescription",
)
#: Fields that name the view.
_VIEWS = ("ViewPosition", "ViewCodeSequence")
#: Shapes of the display shutter, and the edges of a rectangular one.
_SHUTTER_SHAPES = ("RECTANGULAR", "CIRCULAR", "POLYGONAL")
_SHUTTER_EDGES = (
    "ShutterLeftVerticalEdge",
    "ShutterRightVerticalEdge",
    "ShutterUpperHorizontalEdge",
    "ShutterLowerHorizontalEdge",
)
#: Names of frontal views.
_FRONTAL = r"AP|PA|POSTERO-?ANTERIOR|ANTERO-?POSTERIOR"
#: With fewer distinct values than this, it is unclear whether a window is meant for them.
_FEW_VALUES = 32
#: Parts of the body whose radiographs do not show the lungs.
_OTHER_PARTS = re.compile("|".join(yaml_beside(__file__, "dicom.yaml")["other parts"]))
_CHEST = {"CHEST", "THORAX", "LUNG", "LUNGS", "CXR"}


def other_part(text: str) -> str | None:
    """Return the first word of a text that names a part of the body other than the chest; None if
    there is none, or if the text names the chest as well."""
    words = re.findall("[A-Z]+", text.upper())
    if _CHEST.intersection(words):
        return None
    return next(filter(_OTHER_PARTS.fullmatch, words), None)


@cache
def _pydicom() -> ModuleType:
    """Import pydicom at the first DICOM file, and silence its warnings about fields that are not
    read here."""
    import pydicom.config
    import pydicom.pixels

    pydicom.config.settings.reading_validation_mode = pydicom.config.IGNORE
    warnings.filterwarnings("ignore", module=r"pydicom\.")
    return pydicom


def read_dicom(file: BinaryIO) -> FileDataset:
    """Read the data set; refuse it unless it is a single grey image that an installed decoder can
    read."""
    pydicom = _pydicom()
    if file.read(132)[128:] != b"DICM":
        _refuse_other_format(file)
    file.seek(0)
    # force: some files have the extension but no DICOM preamble; those without the fields are
    # refused below
    data = pydicom.dcmread(file, force=True)
    missing = [
        name for name in _NEEDED if name not in data or data.get_item(name).value in (None, "", b"")
    ]
    if len(missing) == len(_NEEDED):
        raise UnidentifiedImageError
    if missing:
        raise Refused(f"its DICOM header lacks {', '.join(missing)}")
    modality = str(data.get("Modality") or "").strip().upper()
    if modality and modality not in _MODALITIES:
        # a longer word could be a person's name
        name = f" {modality}" if re.fullmatch("[A-Z]{2}", modality) else ""
        raise Refused(
            f"its Modality{name} is not that of a radiograph (expected {', '.join(_MODALITIES)})"
        )
    expected = {
        "PhotometricInterpretation": ("MONOCHROME1", "MONOCHROME2"),
        "SamplesPerPixel": (1,),
        "NumberOfFrames": (0, 1, None, ""),
        "BitsAllocated": (8, 16),
        "BitsStored": range(1, data.BitsAllocated + 1),
        "HighBit": (data.BitsStored - 1, None),
        "PixelRepresentation": (0, 1),
    }
    for name, values in expected.items():
        value = data.get(name)
        if value not in values:
            actual = "missing" if value in (None, "") else str(value)[:16]
            raise Refused(
                f"unsupported pixel format, {name} {actual}; expected a single "
                "frame, PhotometricInterpretation MONOCHROME1 or MONOCHROME2, BitsAllocated 8 or "
                "16, BitsStored at most that, HighBit equal to BitsStored - 1, and "
                "PixelRepresentation 0 or 1"
            )
    check_size(data.Columns, data.Rows)
    if "TransferSyntaxUID" not in data.file_meta:  # no meta header
        if data.original_encoding != (True, True):
            raise Refused(
                "it does not state its transfer syntax and does not use the default (Implicit VR "
                "Little Endian)"
            )
        data.file_meta.TransferSyntaxUID = pydicom.uid.ImplicitVRLittleEndian
    decoder = pydicom.pixels.get_decoder(data.file_meta.TransferSyntaxUID)
    if decoder.is_encapsulated:
        if plugin_of(data) not in decoder.available_plugins:
            raise RuntimeError
        check_compressed_size(data)
    return data


def _refuse_other_format(file: BinaryIO) -> None:
    """Refuse an image of another format under the name of a DICOM file."""
    file.seek(0)
    try:
        with Image.open(file, formats=("JPEG", "PNG", "TIFF", "BMP")) as image:
            found = image.format
    except UnidentifiedImageError:
        return
    raise Refused(
        f"its name is that of a DICOM file, but its content is {found} (rename the file, or export "
        "it as DICOM)"
    )


def header_view(file: BinaryIO) -> tuple[str, str]:
    """Return the view that a DICOM header names, and its words on how the image was made; empty in
    other files. A digital radiograph (DX) must state its view in ViewCodeSequence, and may leave
    ViewPosition out."""
    is_dicom = file.read(132)[128:] == b"DICM"
    file.seek(0)
    try:
        if is_dicom:
            data = _pydicom().dcmread(
                file, stop_before_pixels=True, specific_tags=[*_VIEWS, *_PROCESSING]
            )
            return _view(data), " ".join(str(data.get(name) or "") for name in _PROCESSING)
    except Exception:  # a damaged field can raise anything; the image itself may still be intact
        pass
    return "", ""


def _view(data: FileDataset) -> str:
    """Return the view as the header names it, by a code or in words."""
    if position := str(data.get("ViewPosition") or "").strip():
        return position
    codes = data.get("ViewCodeSequence") or ()
    return " ".join(str(code.get("CodeMeaning") or "") for code in codes)


def dicom_image(data: FileDataset) -> Image.Image:
    """Return 8-bit grey with square pixels, its :data:`OWNER`, and :data:`NOTES` on fields that
    contradict each other or the pixels, or state that the image is not for viewing. Each note
    begins with the field.

    If a header contradicts itself, PhotometricInterpretation takes precedence over
    PresentationLUTShape, and the first spacing in the order of :data:`_SPACINGS` over the others.
    """
    grey, notes = _grey(data)
    part = other_part(str(data.get("BodyPartExamined") or ""))
    if part:
        notes.append(f"BodyPartExamined is {part}")
    orientation = _odd_orientation(data)
    if orientation is not None:
        notes.append(f"PatientOrientation is {orientation}; the image is used as it is stored")
    shutter = _shutter(data)
    if shutter:
        notes.append(f"ShutterShape is {shutter}; the area that it hides is shown")
    if _number(data, "RescaleSlope", 1.0) == 0:
        notes.append("RescaleSlope is 0 and is ignored")
    if "PROCESSING" in str(data.get("PresentationIntentType") or "").upper():
        notes.append("PresentationIntentType is FOR PROCESSING")
    if "For Processing" in getattr(data.get("SOPClassUID"), "name", ""):
        notes.append("SOPClassUID is that of raw images (For Processing)")
    photometric = data.PhotometricInterpretation
    shape = str(data.get("PresentationLUTShape") or "").strip().upper()
    if (photometric, shape) in (("MONOCHROME1", "IDENTITY"), ("MONOCHROME2", "INVERSE")):
        notes.append(f"PresentationLUTShape {shape} contradicts {photometric}, which is used")
    heights = {name: _height_of_pixels(data, name) for name in _SPACINGS}
    ratios = {name: height for name, height in heights.items() if height is not None}
    image = Image.fromarray(grey)
    field, ratio = next(iter(ratios.items()), ("", 1.0))
    is_same = partial(np.isclose, rtol=0.01, atol=0)  # allows for rounding
    others = [name for name, other in ratios.items() if not is_same(other, ratio)]
    notes += [f"{name} contradicts {field}, which is used" for name in others]
    if not is_same(ratio, 1):
        width = data.Columns if ratio > 1 else round(data.Columns / ratio)
        height = round(data.Rows * ratio) if ratio > 1 else data.Rows
        check_size(width, height)
        image = image.resize((width, height), Image.Resampling.BICUBIC)
        notes.append(f"{field} is not square; the image is resampled to square pixels")
    days = [str(data.get(name) or "").replace(".", "") for name in _DAYS]
    owner = str(data.get("PatientID") or ""), [day for day in days if day.isdigit()]
    image.info = {NOTES: tuple(notes), OWNER: owner}
    return image


def _odd_orientation(data: FileDataset) -> str | None:
    """Return the directions of an image's rows and columns in the patient (``R\\F``) if they are
    unusual; None if the patient's head is up and, on a frontal image, the left side is at the
    right. The rows of a lateral image may have either direction."""
    given = data.get("PatientOrientation") or ()
    if len(given) < 2:
        return None
    # of an oblique direction, the main one comes first
    shown = "\\".join(str(direction)[:1].upper() for direction in given)
    usual = ["L\\F"]
    if not re.fullmatch(_FRONTAL, _view(data).strip().upper()):
        usual += ["A\\F", "P\\F"]
    return None if shown in usual else shown


def _shutter(data: FileDataset) -> str:
    """Return the shapes of the display shutter; an empty string if there is none, or it is a
    rectangle around the whole image."""
    given = data.get("ShutterShape") or ""
    shapes = {given} if isinstance(given, str) else {*given}
    if shapes == {"RECTANGULAR"}:
        try:
            left, right, upper, lower = (int(data[name].value) for name in _SHUTTER_EDGES)
        except (KeyError, TypeError, ValueError):
            return "RECTANGULAR"
        if left <= 1 and upper <= 1 and right >= data.Columns and lower >= data.Rows:
            return ""
    return " and ".join(shape for shape in _SHUTTER_SHAPES if shape in shapes)


def _height_of_pixels(data: FileDataset, name: str) -> float | None:
    """Return the height of a pixel in widths, None if the field is absent or has no meaning."""
    try:
        height, width = (float(number) for number in data.get(name) or ())
    except (TypeError, ValueError):
        return None
    return height / width if 0 < height < np.inf and 0 < width < np.inf else None


def _grey(data: FileDataset) -> tuple[np.ndarray, list[str]]:
    """Convert to 8-bit grey by transforming a table of all stored values instead of the pixels:
    this is exact and fast, and needs little memory. pydicom 3.0's own transforms refuse some
    tables, and round some ties differently than earlier versions did.

    A table or window that shows more than half of the values in the middle of the image in black or
    white, or all in a quarter of the greys, belongs to another kind of image; then the range of the
    values is used.
    """
    data.pixel_array_options(correct_unused_bits=False, decoding_plugin=plugin_of(data))
    written = data.pixel_array
    num_unused = data.BitsAllocated - data.BitsStored
    # sign extended, without bits outside the values (overlays of old files)
    stored = written << num_unused >> num_unused
    # as the processor orders bytes, which a big-endian file does not
    bits = written.astype(written.dtype.newbyteorder("=")).view(f"u{written.itemsize}")
    has_more_bits = ((stored != written) & (bits >> data.BitsStored != 0)).any()
    lowest = int(stored.min())
    places = stored.astype(np.int32) - lowest
    values = np.arange(lowest, int(stored.max()) + 1)
    padding = np.zeros(values.shape, dtype=bool)
    first = data.get("PixelPaddingValue")
    if first is not None:
        last = data.get("PixelPaddingRangeLimit")
        signed = data.PixelRepresentation == 1
        bounds = (first, first if last is None else last)
        low, high = sorted(_us_or_ss(int(bound), signed) for bound in bounds)
        padding = (values >= low) & (values <= high)
    counts = np.bincount(places.ravel()) * ~padding
    present = counts > 0

    notes: list[str] = []
    if has_more_bits:
        notes.append("BitsStored is too small for the pixel values, whose higher bits are ignored")
    measured = _measured(data, values)
    grey = _windowed(data, measured)
    modality = "ModalityLUTSequence" if data.get("ModalityLUTSequence") else "RescaleSlope"
    voi = "VOILUTSequence" if data.get("VOILUTSequence") else "WindowCenter and WindowWidth"
    if grey is not None and _hides(grey, places, present):
        grey = None
        notes.append(f"{voi}: unsuitable for the pixel values, whose range is used instead")
    if grey is None:
        inside = measured[present] if present.any() else np.zeros(1)
        if data.BitsAllocated > 8 and present.any():
            low, high, has_far = sound_range(inside, counts[present])
            if has_far:
                notes.append(f"PixelData: {FAR_PIXELS}")
            used = values[present & (low <= measured) & (measured <= high)]
            if has_far_largest(used):
                notes.append(
                    f"PixelData: {used[-1]} {FAR_LARGEST}; if it marks areas without an image, add "
                    "it as PixelPaddingValue"
                )
        else:
            low = inside.min()
            high = inside.max()
        grey = full_range(measured, low, high)
    if present.sum() > 1 and not np.ptp(grey[present]):
        by = voi if np.ptp(measured[present]) else modality
        raise Refused(
            f"its pixels differ, but its {by} maps every pixel to the same grey (correct or remove "
            "the field)"
        )
    if data.PhotometricInterpretation == "MONOCHROME1":
        grey = 255 - grey
    grey[padding] = 0
    return grey[places], notes


def _hides(grey: np.ndarray, places: np.ndarray, present: np.ndarray) -> bool:
    """Whether most values in the middle of an image become 0 or 255, or all lie in a quarter of the
    greys; False if there are few values."""
    height, width = places.shape
    middle = np.zeros(grey.shape, dtype=bool)
    middle[places[height // 4 : height - height // 4, width // 4 : width - width // 4]] = True
    shown = grey[middle & present]
    is_cut = 2 * int(((shown == 0) | (shown == 255)).sum()) > len(shown)
    return len(shown) >= _FEW_VALUES and (is_cut or np.ptp(shown) <= 64)


def _measured(data: FileDataset, values: np.ndarray) -> np.ndarray:
    """Convert stored values to the modality's measurements by its table, or else by slope and
    intercept."""
    if data.get("ModalityLUTSequence"):
        signed = data.PixelRepresentation == 1
        return _look_up(data, "ModalityLUTSequence", values, signed)[0].astype(np.float64)
    slope = _number(data, "RescaleSlope", 1.0)
    if slope == 0:  # some devices write a slope and an intercept of 0 if there are none
        return values.astype(np.float64)
    measured = values * slope + _number(data, "RescaleIntercept", 0.0)
    if not np.isfinite(measured).all():
        raise Refused("its RescaleSlope or RescaleIntercept is not finite")
    return measured


def _windowed(data: FileDataset, values: np.ndarray) -> np.ndarray | None:
    """Convert measured values to grey by the file's first VOI table or window (PS3.3 C.11.2); None
    if there is none that the standard allows."""
    if data.get("VOILUTSequence"):
        lowest = -(1 << data.BitsStored - 1) if data.PixelRepresentation == 1 else 0
        ends = _measured(data, np.array([lowest, lowest + (1 << data.BitsStored) - 1]))
        entries, largest = _look_up(data, "VOILUTSequence", np.rint(values), bool(ends.min() < 0))
        return np.rint(entries * (255 / largest)).astype(np.uint8)
    center = _number(data, "WindowCenter", np.nan)
    width = _number(data, "WindowWidth", np.nan)
    function = str(data.get("VOILUTFunction") or "LINEAR").upper()
    if function not in ("LINEAR", "LINEAR_EXACT", "SIGMOID"):
        raise Refused("its VOILUTFunction is not LINEAR, LINEAR_EXACT or SIGMOID")
    # some devices write a width of 0 if there is no window
    if not np.isfinite([center, width]).all() or width <= 0 or (function == "LINEAR" and width < 1):
        return None
    if function == "SIGMOID":
        # equals the standard's 1 / (1 + exp(-x)), but does not overflow
        return np.rint(127.5 * (1 + np.tanh(2 * (values - center) / width))).astype(np.uint8)
    if function == "LINEAR":
        center -= 0.5
        width -= 1
    if width == 0:
        return np.where(values > center, 255, 0).astype(np.uint8)
    return full_range(values, center - width / 2, center + width / 2)


def _us_or_ss(value: int, signed: bool) -> int:
    """Interpret a 16-bit value as signed or unsigned; the VR with which it was written, US or SS,
    is often wrong."""
    value &= 0xFFFF
    return value - (1 << 16) if signed and value >= 1 << 15 else value


def _look_up(
    data: FileDataset, name: str, values: np.ndarray, signed: bool
) -> tuple[np.ndarray, int]:
    """Look up whole numbers in a DICOM table, clamped to its ends; return the entries and the
    largest possible entry.

    ``signed``: whether the inputs of the table can be negative.
    """
    item = data[name][0]
    descriptor = item.get("LUTDescriptor")
    words = item.get("LUTData")
    if len(descriptor or ()) != 3 or words in (None, b"", []):
        raise Refused(f"its {name} must have a LUTDescriptor of three numbers, and LUTData")
    count = (int(descriptor[0]) & 0xFFFF) or 1 << 16
    first = _us_or_ss(int(descriptor[1]), signed)
    depth = int(descriptor[2])
    if isinstance(words, bytes):
        order = "<" if data.file_meta.TransferSyntaxUID.is_little_endian else ">"
        words = np.frombuffer(words + bytes(len(words) % 2), dtype=order + "u2")
    # unsigned, whatever the VR (PS3.3 C.11.1.1.1)
    entries = np.atleast_1d(np.asarray(words, dtype=np.int64)) & 0xFFFF
    if count > 1 and 2 * len(entries) <= count + 1:  # two to a word, the first in its low byte
        entries = entries.astype("<u2").view(np.uint8).astype(np.int64)
        depth = 8
    entries = entries[:count]
    largest = int(entries.max())
    # on some devices the entries have more bits than stated, or are all of a smaller depth, and may
    # not reach its largest value; entries below a quarter of the stated range have a smaller depth
    if largest < (1 << depth) - 1 and largest not in ((1 << bits) - 1 for bits in range(8, depth)):
        if 4 * largest < 1 << depth:
            depth = max(largest.bit_length(), 8)
        largest = (1 << depth) - 1
    return entries[(values - first).clip(0, len(entries) - 1).astype(np.int64)], largest


def _number(data: Dataset, name: str, default: float) -> float:
    """Return a decimal field, or its first value if it has several; ``default`` if it is absent or
    empty."""
    try:
        value = data.get(name)
        if value is not None and not isinstance(value, str | int | float):
            value = value[0] if len(value) else None
        return default if value is None or value == "" else float(value)
    except ValueError:
        raise Refused(f"its {name} is not a number") from None
