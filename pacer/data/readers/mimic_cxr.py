"""Reader of MIMIC-CXR as PhysioNet ships it: the report files, and MIMIC-CXR-JPG's tables of metadata and splits.

The rows are those of the metadata, one per image. Each gets its split and the sections of its study's report, and then
goes the way of a table of studies (:mod:`pacer.data.readers.studies`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from pacer.config import Corpus
from pacer.core.errors import DataError
from pacer.data.readers.mimic_reports import read_report_files
from pacer.data.readers.studies import TEXTS, UNUSED, examinations
from pacer.data.rows import LeftOut, Notes, Place, Row, check_roles
from pacer.data.sections import find_sections
from pacer.data.source import Source
from pacer.data.tables import open_table, shown_columns

_STUDY = ["subject", "study"]
_IMAGE = [*_STUDY, "dicom"]
#: The columns of the two tables, and our names of them.
_IDS = {"subject_id": "subject", "study_id": "study", "dicom_id": "dicom"}
_METADATA = _IDS | {"ViewPosition": "view", "StudyDate": "date", "StudyTime": "time"}
_SPLIT = _IDS | {"split": "split"}


def read(source: Source, config: Corpus, notes: Notes) -> Iterator[Row]:
    """Every study of the metadata, and every image and report that is part of none.

    ``notes`` gets the topics of :func:`~pacer.data.readers.studies.examinations`, ``last_paragraphs`` (reports whose
    conclusion has no heading) and ``study_times`` (studies whose images differ in date or time).

    Raises:
        DataError: a file is missing or damaged, lacks a column, a study has two reports, or an image two splits.
    """
    check_roles(source.files, "reports", "metadata", "split")
    metadata, split, archive = (source.files[role] for role in ("metadata", "split", "reports"))
    images = _table(metadata, _METADATA)
    notes.read["metadata"] += images.height
    images = images.with_columns(
        # a number without the zeros before it; of the other forms the reader of times refuses what is ambiguous
        pl.when(pl.col("time").str.contains(r"^(?:0|[1-9]\d{0,3})$"))
        .then(pl.col("time").str.zfill(6))
        .otherwise("time")
    )
    # where no folder names the subject of a report, its study does
    subjects = images.select("study", known="subject").unique("study", keep="first", maintain_order=True)
    reports = _reports(archive, notes).join(subjects, on="study", how="left")
    reports = reports.with_columns(pl.coalesce("subject", "known")).drop("known")
    splits = _splits(split)
    folder = pl.format("p{}/", "subject").fill_null("")
    name = pl.format("{}/{}s{}.txt", pl.lit(str(archive)), folder, "study")
    yield from _without_image(reports, images, _STUDY, name, "reports", "its study is not in the metadata", notes)
    name = pl.lit(str(split))
    yield from _without_image(splits, images, _IMAGE, name, "split", "its image is not in the metadata", notes)
    images = images.join(splits.drop("row"), on=_IMAGE, how="left")
    del splits
    # where another image of the study has a split, this one is a slip of the table; else the study is not in it
    listed = pl.col("split").drop_nulls().n_unique().over(_STUDY)
    slips = pl.col("split").is_null() & (listed > 0)
    for (row,) in images.filter(slips).select("row").iter_rows():
        yield LeftOut(Place(str(metadata), "", row), "the image is not in the table of splits")
    images = _one_time(images.filter(~slips), notes).join(reports.drop("row"), on=_STUDY, how="left")
    del reports
    images = images.sort("row").with_columns(
        pl.format("p{}/p{}/s{}/{}.jpg", pl.col("subject").str.head(2), "subject", "study", "dicom").alias("image"),
        pl.when(listed == 0)
        .then(pl.lit("the table of splits has none of its images"))
        .when(listed > 1)
        .then(pl.lit("its images are in two splits"))
        .when(pl.col("found").is_null())
        .then(pl.lit("there is no report"))
        .alias(UNUSED),
        pl.when(listed == 1).then("split"),
    )
    yield from examinations(images.drop("dicom", "found"), str(metadata), "metadata", config, notes)


def _table(path: Path, columns: dict[str, str]) -> pl.DataFrame:
    """Some columns as text under our names, and ``row``."""
    table = open_table(path)
    found = {name: table.only(name) for name in columns}
    missing = [name for name, column in found.items() if column is None]
    if missing:
        raise DataError(f"{path} lacks {', '.join(missing)}; it has {shown_columns(table.columns)}")
    frame = table.frame([column for column in found.values() if column is not None])
    return (
        frame.rename(dict(zip(frame.columns, columns.values())))
        .cast(pl.String)
        .with_columns(row=pl.Series(table.places))
    )


def _splits(path: Path) -> pl.DataFrame:
    """The split of every image, once."""
    splits = _table(path, _SPLIT)
    if splits["dicom"].is_duplicated().any():
        splits = splits.unique([*_IMAGE, "split"], keep="first", maintain_order=True)
    twice = splits.filter(pl.col("dicom").is_duplicated())
    if twice.height:
        raise DataError(f"{path} gives image {twice['dicom'][0]!r:.80} two splits; keep the correct one")
    return splits


def _reports(path: Path, notes: Notes) -> pl.DataFrame:
    """The sections of every report, and ``row``, its number in the order of studies. No raw text is held."""
    columns = {name: pl.String() for name in (*_STUDY, *TEXTS)}
    held = []
    for file in read_report_files(path, "reports"):
        found = find_sections(file.text, file.study)
        if found.last_paragraph:
            notes.count("last_paragraphs", "reports", "the impression has no heading")
        held.append((file.subject or None, file.study, *(getattr(found, name) for name in TEXTS)))
    reports = pl.DataFrame(held, columns, orient="row").with_row_index("row").with_columns(found=True)
    twice = reports.filter(pl.col("study").is_duplicated())
    if twice.height:
        raise DataError(f"{path} holds two reports of study {twice['study'][0]}; keep one")
    return reports


def _without_image(
    table: pl.DataFrame, images: pl.DataFrame, on: list[str], file: pl.Expr, role: str, reason: str, notes: Notes
) -> Iterator[Row]:
    """The rows of ``table`` that the metadata does not know; ``file`` names their file."""
    lost = table.join(images, on=on, how="anti").select("row", file=file).sort("row")
    if lost.height:
        notes.read[role] += lost.height
    for row, name in lost.iter_rows():
        yield LeftOut(Place(name, "", row), reason)


def _one_time(images: pl.DataFrame, notes: Notes) -> pl.DataFrame:
    """The images of a study with the date and time of its first one; what is no number stays, to be refused."""
    day, clock = (pl.col(name).cast(pl.Float64, strict=False) for name in ("date", "time"))
    instant = (day * 1_000_000 + clock).alias("instant")
    images = images.with_columns(instant)
    first = [pl.col(name).sort_by("instant", nulls_last=True).first().over(_STUDY) for name in ("date", "time")]
    differ = pl.col("instant").drop_nulls().n_unique() > 1
    number = int(images.group_by(_STUDY).agg(differ.alias("differ"))["differ"].sum())
    if number:
        notes.count("study_times", "metadata", "the first image counts", number)
    return images.with_columns(
        pl.when(pl.col("instant").is_null()).then(name).otherwise(value).alias(name)
        for name, value in zip(("date", "time"), first, strict=True)
    ).drop("instant")
