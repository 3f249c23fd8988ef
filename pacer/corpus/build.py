"""The corpus stage: annotation files and images become checked tables and an audit."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl

from pacer.core.config import Corpus
from pacer.core.errors import DataError
from pacer.core.io import whole_directory, write_json
from pacer.corpus import audit
from pacer.corpus.images import ImageHeader, inspect_images
from pacer.corpus.records import IMAGE_SCHEMA, RECORD_SCHEMA, read_truth, record_frame, write_table
from pacer.corpus.rg4 import BadRow, Reading, bare_id, read_context
from pacer.corpus.source import Source, read_source
from pacer.corpus.text import CLEANER_VERSION

#: Bad rows and duplicate ids shown in an error.
_SHOWN = 10


def build_corpus(config: Corpus, source_dir: Path, out: Path) -> dict[str, Any]:
    """Write ``records.parquet``, ``images.parquet``, ``audit.json`` and, for a generated corpus, ``truth.parquet``.

    Returns:
        The audit.

    Raises:
        DataError: a file is missing or malformed, a record id occurs twice, more rows are unusable than
            ``config.max_bad_rows`` allows, or nothing is left.
    """
    source = read_source(source_dir)
    readings: dict[str, Reading] = {}
    for context in config.contexts:
        readings[context] = read_context(_annotation(source, context), context, config)
    headers = inspect_images(
        (image for reading in readings.values() for row in reading.rows for image in _images_of(row)),
        source.images, config.check_images,
    )  # fmt: skip
    missing = _drop_rows_without_images(readings, source, headers)
    bad = [row for reading in readings.values() for row in reading.bad]
    if len(bad) > config.max_bad_rows:
        raise DataError(_bad_rows_message(bad, config.max_bad_rows))

    records = pl.concat([record_frame(reading.rows) for reading in readings.values()])
    _check_ids(records)
    if records.is_empty():
        raise DataError(f"no usable record in {', '.join(map(str, source.annotations.values()))}")
    used = sorted(set(records["frontal"]) | set(records["lateral"].drop_nulls()))
    fields = tuple(IMAGE_SCHEMA)
    images = pl.DataFrame([{name: getattr(headers[i], name) for name in fields} for i in used], schema=IMAGE_SCHEMA)
    unreadable = sum(header.problem is not None for header in headers.values()) - missing
    result = _audit(config, records, readings, bad) | {"images": audit.image_summary(images, missing, unreadable)}

    with whole_directory(out) as directory:
        write_table(directory / "records.parquet", records, RECORD_SCHEMA)
        write_table(directory / "images.parquet", images, IMAGE_SCHEMA)
        if source.truth is not None:
            _matching_truth(source.truth, records).write_parquet(directory / "truth.parquet")
        write_json(directory / "audit.json", result)
    return result


def _annotation(source: Source, context: str) -> Path:
    if context not in source.annotations:
        raise DataError(
            f"corpus.contexts lists {context}, but the source has annotation files for "
            f"{', '.join(source.annotations) or 'no context'} only; make the source again"
        )
    return source.annotations[context]


def _images_of(row: dict[str, Any]) -> list[str]:
    return [row["frontal"]] if row["lateral"] is None else [row["frontal"], row["lateral"]]


def _drop_rows_without_images(
    readings: dict[str, Reading], source: Source, headers: dict[str, ImageHeader]
) -> int:
    """Turn rows whose image cannot be used into bad rows; returns the number of images that do not exist."""
    if all(header.problem is None for header in headers.values()):
        return 0
    for context, reading in readings.items():
        good = []
        for row, (split, index) in zip(reading.rows, reading.places):
            names = {"APPA_imagepath": row["frontal"], "lateral_imagepath": row["lateral"]}
            problems = [
                BadRow(str(source.annotations[context]), split, index, name, f"{headers[image].path}: {problem}")
                for name, image in names.items()
                if image is not None and (problem := headers[image].problem)
            ]
            if problems:
                reading.bad.append(problems[0])
            else:
                good.append(row)
        reading.rows = good
    return sum(header.problem == "the file does not exist" for header in headers.values())


def _bad_rows_message(bad: list[BadRow], allowed: int) -> str:
    lines = [f"{row.file} {row.split}[{row.index}] {row.field}: {row.reason}" for row in bad[:_SHOWN]]
    more = f"\n  ... and {len(bad) - _SHOWN} more" if len(bad) > _SHOWN else ""
    return (
        f"{len(bad)} unusable rows, corpus.max_bad_rows allows {allowed}; "
        "mend them, or raise corpus.max_bad_rows to exclude and list them\n  " + "\n  ".join(lines) + more
    )


def _check_ids(records: pl.DataFrame) -> None:
    twice = records.filter(pl.col("record_id").is_duplicated())["record_id"].unique().sort()
    if len(twice):
        shown = ", ".join(twice[:_SHOWN])
        raise DataError(f"{len(twice)} record ids occur more than once (an id must be unique in its file): {shown}")


def _audit(config: Corpus, records: pl.DataFrame, readings: dict[str, Reading], bad: list[BadRow]) -> dict[str, Any]:
    reasons = Counter(f"{row.field}: {row.reason.rsplit(': ', 1)[-1]}" for row in bad)
    outside = {c: dict(Counter(row["split"] for row in r.outside_target)) for c, r in readings.items()}
    return {
        "records": records.height,
        "studies": records["study_id"].n_unique(),
        "subjects": records["subject_id"].n_unique(),
        "target": config.target,
        "cleaner": CLEANER_VERSION,
        "limit": config.limit,
        "contexts": audit.count_records(records, list(config.contexts)),
        "overlap": audit.split_overlap(records),
        "views": audit.value_counts(records, "view"),
        "other_views": {c: audit.sum_counts(reading.other_views) for c, reading in readings.items()},
        "sections": audit.value_counts(records, "sections"),
        "blank_sections": {c: reading.blank_sections for c, reading in readings.items()},
        "emphasis": audit.emphasis_summary(records),
        "unknown_fields": {c: audit.sum_counts(reading.unknown_fields) for c, reading in readings.items()},
        "lateral_of_another_study": {c: reading.lateral_of_another_study for c, reading in readings.items()},
        "without_target_section": {
            "counts": outside,
            "records": [row["record_id"] for reading in readings.values() for row in reading.outside_target],
        },
        "excluded": {"count": len(bad), "reasons": audit.sum_counts(reasons), "rows": [asdict(row) for row in bad]},
    }


def _matching_truth(path: Path, records: pl.DataFrame) -> pl.DataFrame:
    """The latent states of the studies in use, with ids written as the records write them."""
    truth = read_truth(path).with_columns(
        pl.col("study_id").map_elements(bare_id, return_dtype=pl.String),
        pl.col("subject_id").map_elements(bare_id, return_dtype=pl.String),
    )
    wanted = records.select("study_id").unique()
    unmatched = wanted.join(truth, on="study_id", how="anti")
    if unmatched.height:
        raise DataError(f"{path} has no row for {unmatched.height} studies, such as {unmatched['study_id'][0]}")
    return truth.join(wanted, on="study_id", how="semi")
