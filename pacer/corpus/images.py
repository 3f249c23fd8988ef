"""Which images of a corpus exist and can be opened, with their sizes, found by several threads at once."""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from PIL import Image, UnidentifiedImageError

from pacer.core.progress import track

#: Opening headers waits for the disk, not for the processor.
THREADS = 16


@dataclass(frozen=True)
class ImageHeader:
    """One image file. ``problem`` says why it cannot be used; sizes (bytes, pixels) are then zero."""

    image_id: str
    path: str
    bytes: int = 0
    width: int = 0
    height: int = 0
    problem: str | None = None


def inspect_images(image_ids: Iterable[str], folder: Path, check: Literal["headers", "full"]) -> dict[str, ImageHeader]:
    """Look at every image once.

    Args:
        image_ids: paths as the annotation files write them, relative to ``folder``.
        check: ``headers`` opens each file and reads its size; ``full`` decodes it as well.
    """
    wanted = sorted(set(image_ids))
    with ThreadPoolExecutor(THREADS) as pool:
        headers = pool.map(lambda image_id: _inspect(image_id, folder, check), wanted)
        return {header.image_id: header for header in track(headers, "images", len(wanted))}


def _inspect(image_id: str, folder: Path, check: str) -> ImageHeader:
    path = folder / image_id.lstrip("/")
    try:
        size = os.stat(path).st_size
        with Image.open(path) as image:
            width, height = image.size
            if check == "full":
                image.load()
    except (FileNotFoundError, NotADirectoryError):
        return ImageHeader(image_id, str(path), problem="the file does not exist")
    except UnidentifiedImageError:
        return ImageHeader(image_id, str(path), problem="the file is not an image")
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        return ImageHeader(image_id, str(path), problem=f"the file cannot be decoded ({type(error).__name__})")
    return ImageHeader(image_id, str(path), size, width, height)
