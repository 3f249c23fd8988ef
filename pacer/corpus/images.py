"""The images of a corpus: inspection of each image that a record names, and search for copies of
an image."""

import os
import random
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import polars as pl

from pacer.core.io import hash_bytes, hash_file
from pacer.core.progress import Ticker
from pacer.core.schemas import IMAGE_SCHEMA
from pacer.corpus.account import Rows
from pacer.images.greyscale import ImageError, reading_problem
from pacer.images.radiographs import image_header
from pacer.tables.hygiene import name_on_disk, path_outside_root

#: Columns of an inspection.
SCHEMA: dict[str, pl.DataType] = IMAGE_SCHEMA | {
    "problem": pl.String(),  # why the image cannot be used; null if it can
    "notes": pl.List(pl.String()),  # warnings
    "patient": pl.String(),  # the patient that the header names; null if it is not a DICOM file
    "days": pl.List(pl.String()),  # the days that the header names
}

#: Number of images that an inspection decodes: a seeded sample. The stage ``features`` decodes all.
DECODED = 200
#: Number of last bytes that are compared before whole files are read.
_TAIL = 1 << 16
#: Opening headers is limited by the disk, not by the processor.
_THREADS = 16


def images_of(records: pl.DataFrame) -> pl.Series:
    """Return the ids of the images that records name, each once."""
    return pl.concat([records["frontal"], records["lateral"]]).drop_nulls().unique().sort()


def inspect_images(image_ids: Iterable[str], folder: Path) -> pl.DataFrame:
    """Open the header of every image once, and decode a sample of :data:`DECODED`. Return one row
    of :data:`SCHEMA` per id (a path relative to ``folder``, as in the annotation files), sorted by
    id; an unusable image has sizes of zero.
    """
    ids = sorted(set(image_ids))
    decoded = frozenset(random.Random(0).sample(ids, min(DECODED, len(ids))))
    rows = []
    with Ticker("images", len(ids)) as ticker, ThreadPoolExecutor(_THREADS) as pool:
        for row in pool.map(partial(_look, folder=folder, decoded=decoded), ids):
            rows.append(row)
            ticker.advance()
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _look(image_id: str, folder: Path, decoded: Collection[str]) -> tuple[object, ...]:
    name = name_on_disk(image_id, folder)
    path = os.path.join(folder, name)
    problem = path_outside_root(name)
    if problem is None:
        try:
            size = os.stat(path).st_size
            header = image_header(path)
            notes = _notes_of_pixels(path) if image_id in decoded else header.notes
            patient, days = header.owner
            return image_id, path, size, header.width, header.height, None, notes, patient, days
        except (OSError, ValueError) as error:
            problem = reading_problem(error)
        except ImageError as error:
            problem = error.problem
    return image_id, path, 0, 0, 0, problem, [], None, []


def _notes_of_pixels(path: str) -> tuple[str, ...]:
    try:
        return image_header(path, decode=True).notes
    except ImageError as error:
        # its records stay, as do those of damaged images that are not in the sample
        return (f"{error.problem} (`features` refuses it)",)


def find_copies(images: pl.DataFrame) -> pl.DataFrame:
    """Return ``image_id`` and ``picture``, the first id with the same content, of each image that
    has copies. Files of equal size, width and height are compared by their ends, and only those
    that still agree are read whole."""
    keys = ["bytes", "width", "height"]
    for digest in (_hash_of_end, hash_file):
        images = images.filter(pl.len().over(keys) > 1)
        with ThreadPoolExecutor(_THREADS) as pool:
            hashes = list(pool.map(digest, images["path"]))
        keys.append(digest.__name__)
        images = images.with_columns(pl.Series(digest.__name__, hashes, pl.String))
    images = images.filter(pl.len().over(keys) > 1)
    return images.select("image_id", picture=pl.col("image_id").first().over(keys))


def _hash_of_end(path: str) -> str:
    with open(path, "rb") as file:
        file.seek(max(0, file.seek(0, 2) - _TAIL))
        return hash_bytes(file.read())


def pictures_of(records: pl.DataFrame, copies: pl.DataFrame) -> pl.DataFrame:
    """Return a row per record and image, with its ``role`` (frontal, lateral), ``image_id`` and
    ``picture``; images that are not among the ``copies`` (:func:`find_copies`) are pictures of
    their own."""
    index = ["file", "row", "id", "subject_id", "study_id", "split"]
    named = records.unpivot(
        ["frontal", "lateral"], index=index, variable_name="role", value_name="image_id"
    )
    named = named.drop_nulls("image_id").join(copies, on="image_id", how="left")
    return named.with_columns(pl.coalesce("picture", "image_id").alias("picture"))


def list_copies(records: Rows, pictures: pl.DataFrame) -> Rows:
    """Flag the images of a picture that two patients or two splits share."""
    is_shared = pl.any_horizontal(pl.col("subject_id", "split").n_unique().over("picture") > 1)
    shared = pictures.filter(is_shared).unique(["file", "row", "image_id"], maintain_order=True)
    reason = pl.format("the picture {} belongs to two patients or two splits", "picture")
    return records.flag(shared, pl.col("role"), reason, pl.col("image_id"))
