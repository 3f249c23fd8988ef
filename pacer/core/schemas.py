"""The schemas that all code after the readers uses, and strict reading of the tables.

A row is one scenario record: one examination in one context. An examination has a row for every
context that its sources allow.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from pacer.core.errors import DataError
from pacer.core.findings import FINDINGS
from pacer.core.io import atomic_path

#: Key in the Parquet metadata of ``records.parquet`` that describes how the file was made.
ABOUT = "pacer"

#: Rows per group in a Parquet file, and so the number that a chunked reader holds in memory.
_ROW_GROUP = 4096

#: Number of entries of an emphasis list that upstream's training reads, BOS included.
EMPHASIS_POSITIONS = 100

#: The splits of a corpus, in order.
SPLITS: tuple[str, ...] = ("train", "val", "test")

RECORD_SCHEMA: dict[str, pl.DataType] = {
    "record_id": pl.String(),  # "{context}-{id}", unique
    "context": pl.String(),  # sn | sw | mn | mw
    "split": pl.String(),  # train | val | test
    "study_id": pl.String(),
    "subject_id": pl.String(),
    "view": pl.String(),  # AP | PA | other
    "frontal": pl.String(),  # image id
    "lateral": pl.String(),  # image id; null without a lateral view
    "report": pl.String(),  # cleaned target
    "report_raw": pl.String(),  # the target sections before cleaning
    "findings_original": pl.String(),  # untouched MIMIC-CXR findings; null unless supplied
    "sections": pl.String(),  # findings+impression | findings | impression
    "prior_report": pl.String(),  # cleaned; null without a previous report
    "indication": pl.String(),  # null if absent
    "history": pl.String(),  # null if absent
    "emphasis": pl.List(pl.Float32()),  # as released, the entry of BOS first; null if not supplied
    # cleaned text that the emphasis follows; null if that is `report`
    "emphasis_text": pl.String(),
}

#: The earlier examination that supplied the previous report, if the format identifies it; one row
#: per examination.
PRIOR_SCHEMA: dict[str, pl.DataType] = {
    "study_id": pl.String(),
    "prior_study_id": pl.String(),
    # whole unless both examinations have a time; null if only the order is known
    "gap_days": pl.Float64(),
}

IMAGE_SCHEMA: dict[str, pl.DataType] = {
    "image_id": pl.String(),  # the path in the annotation file
    "path": pl.String(),  # the path to open
    "bytes": pl.Int64(),
    "width": pl.Int32(),  # pixels
    "height": pl.Int32(),  # pixels
}

#: ``emphasis.parquet``: one row per record, in the order of the records.
EMPHASIS_SCHEMA: dict[str, pl.DataType] = {
    "record_id": pl.String(),
    # for BOS, the report's tokens and EOS; null: no marks, or a test record
    "emphasis": pl.List(pl.Float32()),
}

#: ``truth.parquet`` of a generated corpus: the latent state of every examination.
TRUTH_SCHEMA: dict[str, pl.DataType] = {
    "study_id": pl.String(),
    "subject_id": pl.String(),
    "split": pl.String(),
    **{finding: pl.Boolean() for finding in FINDINGS},
    "lateral_only": pl.List(pl.String()),  # findings that only the lateral view shows
    "prior_only": pl.List(pl.String()),  # findings that only the previous report mentions
    # present findings: left | right | bilateral | null; mild | moderate | severe; new | worse |
    # stable | improved
    "states": pl.List(
        pl.Struct(dict.fromkeys(("finding", "side", "severity", "course"), pl.String()))
    ),
    # where a view (frontal | lateral) shows a finding, as fractions of the image's size; a finding
    # of several parts has several boxes
    "boxes": pl.List(
        pl.Struct(
            {"finding": pl.String(), "view": pl.String()}
            | dict.fromkeys(("x", "y", "width", "height"), pl.Float64())
        )
    ),
}


def read_records(path: str | Path, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """Read these columns of ``records.parquet`` (None: all). Raises a DataError as
    :func:`read_table` does, or if a record id occurs twice."""
    columns = list(RECORD_SCHEMA if columns is None else columns)
    records = read_table(
        path, RECORD_SCHEMA, ["record_id", *(name for name in columns if name != "record_id")]
    )
    if records["record_id"].n_unique() != records.height:
        twice = records.filter(pl.col("record_id").is_duplicated())["record_id"][0]
        raise DataError(f"record {twice} appears twice in {path}; rerun the `corpus` stage")
    return records.select(columns)


def of_split(records: pl.DataFrame, split: str) -> pl.DataFrame:
    """Return the records of a split, or of ``all``."""
    return records if split == "all" else records.filter(split=split)


def read_about(path: str | Path) -> dict[str, Any]:
    """Return the settings with which ``records.parquet`` was written: ``cleaner``, ``target``,
    ``unseen_comparisons``, ``format``, ``limit``, and whether it was ``generated``. Empty if
    another program wrote the table."""
    with open(path, "rb") as file:
        about = pl.read_parquet_metadata(file).get(ABOUT)
    return {} if about is None else json.loads(about)


def read_images(path: str | Path) -> pl.DataFrame:
    """Read ``images.parquet``; see :func:`read_table` for the errors."""
    return read_table(path, IMAGE_SCHEMA)


def read_table(
    path: str | Path,
    schema: dict[str, pl.DataType],
    columns: Sequence[str] | None = None,
    optional: Mapping[str, pl.DataType] | None = None,
) -> pl.DataFrame:
    """Read ``columns`` (None: all, in schema order) of a Parquet table with exactly the columns of
    ``schema``, and any of ``optional``.

    Raises:
        DataError: the file is missing or unreadable, or the columns differ; the message names the
            difference.
    """
    if not Path(path).is_file():
        raise DataError(
            f"{path} does not exist; correct the path, or run the stage that writes it (`dvc "
            "repro`)"
        )
    try:
        with open(path, "rb") as file:
            types = pl.read_parquet_schema(file)
    except pl.exceptions.PolarsError as error:
        raise DataError(f"{path} is not a readable Parquet file: {error}") from None
    schema = schema | {name: kind for name, kind in (optional or {}).items() if name in types}
    missing = [name for name in schema if name not in types]
    unknown = [name for name in types if name not in schema]
    if missing or unknown:
        raise DataError(
            f"{path}: missing columns {missing or 'none'}, unknown {unknown or 'none'}; regenerate "
            "it"
        )
    for name, kind in schema.items():
        if types[name] != kind:
            raise DataError(
                f"{path}: column {name} has type {types[name]} instead of {kind}; regenerate the "
                "file"
            )
    return read_columns(path, schema if columns is None else columns)


def read_columns(path: str | Path, columns: Iterable[str]) -> pl.DataFrame:
    """Read columns of a Parquet table. Raises a DataError if the file is unreadable."""
    try:
        with open(path, "rb") as file:
            return pl.read_parquet(file, columns=list(columns))
    except (OSError, pl.exceptions.PolarsError) as error:
        raise DataError(f"{path} is not a readable Parquet file: {error}; regenerate it") from None


def write_table(
    path: str | Path,
    table: pl.DataFrame,
    schema: dict[str, pl.DataType],
    about: Mapping[str, Any] | None = None,
) -> None:
    """Write the columns of ``schema`` atomically as Parquet, with settings in its metadata
    (:func:`read_about`)."""
    import pyarrow.parquet as pq  # tables are read without it

    arrow = (
        table.select(list(schema))
        .cast(pl.Schema(schema))
        .to_arrow(compat_level=pl.CompatLevel.oldest())
    )
    if about is not None:
        arrow = arrow.replace_schema_metadata({ABOUT: json.dumps(about)})
    with atomic_path(path) as temporary:
        pq.write_table(
            arrow,
            temporary,
            compression="zstd",
            write_page_checksum=True,
            row_group_size=_ROW_GROUP,
        )
