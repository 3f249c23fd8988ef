"""Shared parts of the decoding of radiographs: limits, refusals, and the range of grey."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from pacer.core.errors import DataError

MISSING = "the file does not exist"
NOT_AN_IMAGE = "the file is not an image (expected JPEG, PNG, TIFF, BMP or DICOM)"
DAMAGED = "the file cannot be decoded (it is truncated or damaged)"
NO_PLUGIN = (
    "the file is damaged, or no installed plugin can decode it (in a git clone: `pip install -c "
    "constraints.txt '.[dicom]'`), or it is a video or in a vendor-specific format; convert it"
)
ONE_COLOUR = "all its pixels have the same colour"
#: All but a twentieth of a radiograph's pixels have more levels than this, unless bits were lost
#: when it was written.
FEW_LEVELS = 31
#: Smallest side of a radiograph in pixels: that of an encoder's patch.
MIN_SIDE = 14
#: Largest ratio of the sides: an encoder would enlarge the short edge of a strip.
MAX_RATIO = 100
#: Larger images are refused before decoding, because a small file can exhaust memory.
MAX_PIXELS = 80_000_000
WRONG_SIZE = (
    f"a side is shorter than {MIN_SIDE} pixels, there are more than {MAX_PIXELS:,} pixels, or one "
    f"side is more than {MAX_RATIO} times as long as the other"
)
FAR_PIXELS = "a few extreme pixel values were ignored when the grey range was set"
#: Follows the largest value, if it has too many pixels to be ignored.
FAR_LARGEST = "is far above all other pixel values, which lose contrast"
#: Key of ``Image.info`` for warnings, for example that a DICOM field contradicts another one.
NOTES = "notes"
#: Key of ``Image.info`` for the patient's id and the days (YYYYMMDD) that a DICOM header names.
OWNER = "owner"


class ImageError(DataError):
    """An image file cannot be used. ``problem`` is the reason, without the path or any content of
    the file."""

    def __init__(self, message: str, problem: str = ""):
        # one argument, so that the error can be unpickled in another process
        super().__init__(message)
        self.problem = problem


def reading_problem(error: OSError | ValueError) -> str:
    """Return the reason why a file cannot be opened or read."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return MISSING
    if isinstance(error, ValueError):
        return "this is not a valid file name"
    # Pillow's errors have no strerror
    return f"the file cannot be read ({error.strerror})" if error.strerror else DAMAGED


class Refused(Exception):
    """Reason to refuse an image."""


@contextmanager
def problems_of(path: str | Path) -> Generator[None]:
    try:
        yield
        return
    except ImageError:
        raise
    except UnidentifiedImageError:
        problem = NOT_AN_IMAGE
    except OSError as error:
        problem = reading_problem(error)
    except Refused as refusal:
        problem = f"the image cannot be used: {refusal}"
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        problem = f"the image cannot be used: {WRONG_SIZE}"
    except RuntimeError:  # from pydicom
        problem = NO_PLUGIN
    except Exception:
        # a damaged file can make a decoder raise anything, and the message may quote the file
        problem = DAMAGED
    raise ImageError(f"image {path}: {problem}", problem)


def check_size(width: int, height: int) -> None:
    """Refuse an image that is too small, too large or too long."""
    short, long = sorted((width, height))
    if short < MIN_SIDE or long > MAX_RATIO * short or width * height > MAX_PIXELS:
        raise Refused(WRONG_SIZE)


def full_range(values: np.ndarray, low: float, high: float) -> np.ndarray:
    """Scale ``low``..``high`` to 0..255; return all zeros if the two are equal."""
    if low == high:
        return np.zeros(values.shape, dtype=np.uint8)
    return np.rint(((values - low) / (high - low)).clip(0, 1) * 255).astype(np.uint8)


def sound_range(values: np.ndarray, counts: np.ndarray) -> tuple[float, float, bool]:
    """Return the smallest and the largest of distinct values, and whether others are left out:
    values of few pixels (by ``counts``: at most 10, or one in 100,000, and one in 500 of a small
    image) whose distance from the rest exceeds the range of the rest."""
    order = np.argsort(values)
    values = values[order]
    counts = counts[order]
    number = int(counts.sum())
    few = min(number // 500, max(10, number // 100_000))
    is_low_tail = np.cumsum(counts) <= few
    is_high_tail = np.cumsum(counts[::-1])[::-1] <= few
    core = values[~is_low_tail & ~is_high_tail]
    first = 0
    last = len(values) - 1
    if core.size and np.ptp(core) > 0:
        has_gap_above = np.diff(values) > np.ptp(core)
        first = max(np.flatnonzero(has_gap_above & is_low_tail[:-1]) + 1, default=first)
        last = min(np.flatnonzero(has_gap_above & is_high_tail[1:]), default=last)
    return float(values[first]), float(values[last]), bool(first or last < len(values) - 1)


def has_far_largest(values: np.ndarray) -> bool:
    """Whether the distance of the largest of distinct values, in ascending order, from the rest
    exceeds the range of the rest."""
    if len(values) < 3:
        return False
    smallest, second, largest = (float(values[place]) for place in (0, -2, -1))
    return largest - second > second - smallest


def deep_grey(values: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
    """Scale values of more than 8 bits to 8, and return notes on values far outside the rest: a few
    are ignored."""
    if not np.isfinite(values).all():
        raise Refused("it contains values that are not finite")
    if values.dtype.kind in "iu" and int(values.max()) - int(values.min()) < 1 << 20:
        # much faster than sorting
        counts = np.bincount((values.astype(np.int32) - int(values.min())).ravel())
        distinct = np.flatnonzero(counts)
        counts = counts[distinct]
        distinct += int(values.min())
    else:
        distinct, counts = np.unique(values, return_counts=True)
    low, high, has_far = sound_range(distinct, counts)
    notes = (FAR_PIXELS,) if has_far else ()
    used = distinct[(low <= distinct) & (distinct <= high)]
    if has_far_largest(used):
        notes += (f"{used[-1]} {FAR_LARGEST}",)
    return full_range(values.astype(np.float64), low, high), notes


def with_contrast(image: Image.Image) -> Image.Image:
    """Return the image, with a note if it has few levels; refuse it if all pixels are equal."""
    histogram = image.histogram()
    channels = [sorted(histogram[start : start + 256]) for start in range(0, len(histogram), 256)]
    if not any(counts[-2] for counts in channels):
        raise Refused(ONE_COLOUR)
    if all(20 * sum(counts[:-FEW_LEVELS]) <= sum(counts) for counts in channels):
        note = f"it has at most {FEW_LEVELS} levels of grey"
        image.info[NOTES] = (*image.info.get(NOTES, ()), note)
    return image
