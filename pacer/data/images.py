"""The images of a corpus: inspection of each image that a record names."""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import polars as pl

from pacer.core.hygiene import name_on_disk, path_outside_root
from pacer.core.progress import Ticker
from pacer.data.radiographs import ImageError, image_header, reading_problem
from pacer.data.schemas import IMAGE_SCHEMA

#: Columns of an inspection. ``problem``: why an image cannot be used, null if it can. ``notes``: what deserves a look.
SCHEMA: dict[str, pl.DataType] = IMAGE_SCHEMA | {"problem": pl.String(), "notes": pl.List(pl.String())}

#: Opening headers is limited by the disk, not by the processor.
THREADS = 16


def images_of(records: pl.DataFrame) -> pl.Series:
    """Return the ids of the images that records name, each once."""
    return pl.concat([records["frontal"], records["lateral"]]).drop_nulls().unique().sort()


def inspect_images(image_ids: Iterable[str], folder: Path) -> pl.DataFrame:
    """Open the header of every image once.

    Args:
        image_ids: paths as in the annotation files, relative to ``folder``.

    Returns:
        One row of :data:`SCHEMA` per id, sorted by id; the sizes of an unusable image are zero.
    """
    ids = sorted(set(image_ids))
    rows = []
    with Ticker("images", len(ids)) as ticker, ThreadPoolExecutor(THREADS) as pool:
        for row in pool.map(partial(_look, folder=folder), ids):
            rows.append(row)
            ticker.advance()
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _look(image_id: str, folder: Path) -> tuple[object, ...]:
    name = name_on_disk(image_id, folder)
    path, problem = os.path.join(folder, name), path_outside_root(name)
    if problem is None:
        try:
            size, header = os.stat(path).st_size, image_header(path)
            return image_id, path, size, header.width, header.height, None, [*header.notes]
        except (OSError, ValueError) as error:
            problem = reading_problem(error)
        except ImageError as error:
            problem = error.problem
    return image_id, path, 0, 0, 0, problem, []
