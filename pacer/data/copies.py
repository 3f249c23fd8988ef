"""Pictures that a corpus has under several names: files with the same content."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor

import polars as pl

from pacer.core.io import hash_file
from pacer.data.account import Account
from pacer.data.images import THREADS

#: Number of last bytes that are compared before whole files: pictures of one size differ there, if anywhere.
TAIL = 1 << 16


def find_copies(images: pl.DataFrame) -> pl.DataFrame:
    """Return ``image_id`` and ``picture``, the first id with the same content, of each image that has copies.

    Files of equal size, width and height are compared by their ends, and only those that still agree are read whole.

    Args:
        images: with the columns of ``images.parquet``.
    """
    keys = ["bytes", "width", "height"]
    for digest in (_hash_of_end, hash_file):
        images = images.filter(pl.len().over(keys) > 1)
        with ThreadPoolExecutor(THREADS) as pool:
            hashes = list(pool.map(digest, images["path"]))
        keys.append(digest.__name__)
        images = images.with_columns(pl.Series(digest.__name__, hashes, pl.String))
    images = images.filter(pl.len().over(keys) > 1)
    return images.select("image_id", picture=pl.col("image_id").first().over(keys))


def _hash_of_end(path: str) -> str:
    with open(path, "rb") as file:
        file.seek(max(0, file.seek(0, 2) - TAIL))
        return hashlib.sha256(file.read()).hexdigest()


def pictures_of(records: pl.DataFrame, copies: pl.DataFrame) -> pl.DataFrame:
    """Return a row per record and image, with its ``role`` (frontal, lateral), ``image_id`` and ``picture``.

    Args:
        copies: see :func:`find_copies`; other images are pictures of their own.
    """
    index = ["file", "row", "id", "subject_id", "study_id", "split"]
    named = records.unpivot(["frontal", "lateral"], index=index, variable_name="role", value_name="image_id")
    named = named.drop_nulls("image_id").join(copies, on="image_id", how="left")
    return named.with_columns(pl.coalesce("picture", "image_id").alias("picture"))


def list_copies(records: pl.DataFrame, copies: pl.DataFrame, account: Account) -> None:
    """List the images of a picture that two patients or two splits share, as lines of kind ``doubted``."""
    is_shared = pl.any_horizontal(pl.col("subject_id", "split").n_unique().over("picture") > 1)
    shared = pictures_of(records, copies).filter(is_shared).unique(["file", "row", "image_id"], maintain_order=True)
    reason = pl.format("the picture {} is of two patients or in two splits", "picture")
    account.add(
        shared.with_columns(field="role", reason=reason, kind=pl.lit("doubted"), rows=pl.lit(0), value="image_id")
    )
