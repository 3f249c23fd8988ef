"""The images of a corpus: inspection of each image that a record names, and search for copies across splits."""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path

import polars as pl

from pacer.core.hygiene import path_outside_root, with_slashes
from pacer.core.io import hash_file
from pacer.core.progress import Ticker
from pacer.data.radiographs import ImageError, image_header, reading_problem
from pacer.data.schemas import IMAGE_SCHEMA, SPLITS

#: Columns of an inspection. ``problem``: why an image cannot be used, null if it can. ``part``: body part that a DICOM
#: file names, if it is not the chest. ``ignored``: DICOM field that is not followed, with its value.
SCHEMA: dict[str, pl.DataType] = IMAGE_SCHEMA | {"problem": pl.String(), "part": pl.String(), "ignored": pl.String()}

#: Opening headers is limited by the disk, not by the processor.
_THREADS = 16


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
    with Ticker("images", len(ids)) as ticker, ThreadPoolExecutor(_THREADS) as pool:

        def look(image_id: str) -> tuple[object, ...]:
            row = _look(image_id, folder)
            ticker.advance()
            return row

        return pl.DataFrame(list(pool.map(look, ids)), schema=SCHEMA, orient="row")


def _look(image_id: str, folder: Path) -> tuple[object, ...]:
    name = with_slashes(image_id, folder)
    path, problem = os.path.join(folder, name), path_outside_root(name)
    if problem is None:
        try:
            size, header = os.stat(path).st_size, image_header(path)
            return image_id, path, size, header.width, header.height, None, header.part, header.ignored
        except (OSError, ValueError) as error:
            problem = reading_problem(error)
        except ImageError as error:
            problem = error.problem
    return image_id, path, 0, 0, 0, problem, None, None


def copies_across_splits(images: pl.DataFrame, records: pl.DataFrame) -> dict[str, list[tuple[str, str]]]:
    """Find pairs of byte-identical images with different names in different splits.

    Only files of a size that occurs in several splits are read.

    Returns:
        ``{"train-val": [(image of train, image of val), ...], ...}``, with the first of several copies in a split.
    """
    named = [records.select("split", image_id=view) for view in ("frontal", "lateral")]
    files = pl.concat(named).drop_nulls().unique().join(images, on="image_id")
    files = files.filter(pl.col("split").n_unique().over("bytes") > 1)
    paths = files["path"].unique()
    with ThreadPoolExecutor(_THREADS) as pool:
        hashes = pl.DataFrame({"path": paths, "hash": list(pool.map(hash_file, paths))}, {"path": str, "hash": str})
    files = files.join(hashes, on="path").sort("image_id").unique(["split", "hash"], keep="first", maintain_order=True)
    copies: dict[str, list[tuple[str, str]]] = {}
    for first, second in combinations(SPLITS, 2):
        pairs = files.filter(split=first).join(files.filter(split=second), on="hash", suffix="_2")
        pairs = pairs.filter(pl.col("image_id") != pl.col("image_id_2"))
        copies[f"{first}-{second}"] = sorted(pairs.select("image_id", "image_id_2").iter_rows())
    return copies
