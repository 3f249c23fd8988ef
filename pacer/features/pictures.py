"""What decoding tells about images (``pictures.parquet``): files that hold one picture, pixels that need a check."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import polars as pl

from pacer.core.audits import Check, counted, number
from pacer.core.io import atomic_path

_SCHEMA = {"key": pl.String(), "picture": pl.String(), "notes": pl.List(pl.String())}
#: The hash of the pixels that the encoder gets, and notes on what deserves a check.
Look = tuple[str, list[str]]


def read_looks(path: Path) -> dict[str, Look]:
    """Return the looks of earlier runs by the key of the image's entry in the store; none if there are none."""
    rows = pl.read_parquet(path, glob=False).iter_rows() if path.exists() else ()
    return {key: (picture, notes) for key, picture, notes in rows}


def write_looks(path: Path, looks: Mapping[str, Look]) -> None:
    """Write looks by the key of the image's entry in the store, in the order of the keys."""
    with atomic_path(path) as temporary:
        rows = [(key, *look) for key, look in sorted(looks.items())]
        pl.DataFrame(rows, _SCHEMA, orient="row").write_parquet(temporary)


def picture_checks(pictures: Path, index: Path, records: pl.DataFrame) -> Iterator[Check]:
    """Yield the lines of an audit; none if there is nothing to tell.

    Args:
        pictures: written by :func:`write_looks`. index: of the images in the feature store.
        records: those that name the images.
    """
    looks, images = (pl.read_parquet(path, glob=False) for path in (pictures, index))
    images = images.join(looks, on="key", how="left", maintain_order="left")
    if unseen := images["picture"].null_count():
        yield Check("Images that were encoded before, and not decoded by this version", number(unseen), good=False)
    noted = images.explode("notes").drop_nulls("notes").group_by("notes", maintain_order=True)
    counts = noted.agg(pl.len(), pl.col("image_id").first()).iter_rows()
    if odd := [f"{number(count)} × {note} (first: {first})" for note, count, first in counts]:
        yield Check("Decoded images that need a check", ", ".join(odd), good=False)
    owners = {"two patients": "subject_id", "two splits": "split", "two studies": "study_id"}
    named = records.unpivot(["frontal", "lateral"], index=[*owners.values()], value_name="image_id")
    again = images.drop_nulls("picture").filter(pl.col("key").n_unique().over("picture") > 1)
    used = named.join(again, on="image_id", maintain_order="left").group_by("picture", maintain_order=True)
    used = used.agg(pl.col(*owners.values()).n_unique() > 1, pl.col("image_id").unique(maintain_order=True).head(2))
    if shared := counted({name: int(used[column].sum()) for name, column in owners.items()}, "{} in {}"):
        first = " and ".join(used.filter(pl.any_horizontal(*owners.values()))["image_id"][0])
        yield Check("Pictures in several files with other bytes", f"{shared} (first: {first})", good=False)
