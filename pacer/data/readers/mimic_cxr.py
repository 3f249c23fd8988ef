"""Reader of MIMIC-CXR as PhysioNet ships it: the report files, and MIMIC-CXR-JPG's tables of metadata and splits.

The rows are those of the metadata, one per image. Each gets its split and the sections of its study's report, and then
goes the way of a table of studies (:mod:`pacer.data.readers.image_rows`).
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from pacer.config import Corpus
from pacer.core.errors import DataError
from pacer.data.account import Account
from pacer.data.readers.image_rows import TEXTS, UNUSED, studies_of
from pacer.data.readers.mimic_reports import read_report_files
from pacer.data.sections import find_sections
from pacer.data.source import Source
from pacer.data.studies import check_roles
from pacer.data.tables import open_table, shown_columns
from pacer.data.values import LEFT_OUT

_STUDY = ["subject", "study"]
_IMAGE = [*_STUDY, "dicom"]
#: The columns of the two tables, and our names of them.
_IDS = {"subject_id": "subject", "study_id": "study", "dicom_id": "dicom"}
_METADATA = _IDS | {"ViewPosition": "view", "StudyDate": "date", "StudyTime": "time"}
_SPLIT = _IDS | {"split": "split"}


def read(source: Source, config: Corpus, account: Account) -> pl.DataFrame:
    """Every study of the metadata; images and reports that are part of none are listed.

    ``account`` gets the topics of :func:`~pacer.data.readers.image_rows.studies_of`, ``last_paragraphs`` (reports whose
    conclusion has no heading) and ``study_times`` (studies whose images differ in date or time).

    Raises:
        DataError: a file is missing or damaged, lacks a column, a study has two reports, or an image two splits.
    """
    check_roles(source.files, "reports", "metadata", "split")
    metadata, split, archive = (source.files[role] for role in ("metadata", "split", "reports"))
    images = _table(metadata, _METADATA)
    account.read["metadata"] += images.height
    images = images.with_columns(
        # a number without the zeros before it; of the other forms the reader of times refuses what is ambiguous
        pl.when(pl.col("time").str.contains(r"^(?:0|[1-9]\d{0,3})$"))
        .then(pl.col("time").str.zfill(6))
        .otherwise("time")
    )
    # where no folder names the subject of a report, its study does
    subjects = images.select("study", known="subject").unique("study", keep="first", maintain_order=True)
    reports = _reports(archive, account).join(subjects, on="study", how="left", maintain_order="left")
    reports = reports.with_columns(pl.coalesce("subject", "known")).drop("known")
    splits = _splits(split)
    folder = pl.format("p{}/", "subject").fill_null("")
    name = pl.format("{}/{}s{}.txt", pl.lit(str(archive)), folder, "study")
    _list_unknown(reports, images, _STUDY, name, "reports", "its study is not in the metadata", account)
    _list_unknown(splits, images, _IMAGE, pl.lit(str(split)), "split", "its image is not in the metadata", account)
    images = images.join(splits.drop("line"), on=_IMAGE, how="left", maintain_order="left")
    # where another image of the study has a split, this one is a slip of the table; else the study is not in it
    listed = pl.col("split").drop_nulls().n_unique().over(_STUDY)
    slip = pl.col("split").is_null() & (listed > 0)
    place = {"file": pl.lit(str(metadata)), "row": pl.format("line {}", "line"), "id": "study", "rows": pl.lit(1)}
    images = images.with_columns(**place)
    images = account.divert(images, "", slip, "the image is not in the table of splits", LEFT_OUT).drop(place)
    images = _one_time(images, account).join(reports.drop("line"), on=_STUDY, how="left", maintain_order="left")
    images = images.with_columns(
        pl.format("p{}/p{}/s{}/{}.jpg", pl.col("subject").str.head(2), "subject", "study", "dicom").alias("image"),
        pl.when(listed == 0)
        .then(pl.lit("the table of splits has none of its images"))
        .when(listed > 1)
        .then(pl.lit("its images are in two splits"))
        .when(pl.col("with_report").is_null())
        .then(pl.lit("there is no report"))
        .alias(UNUSED),
        pl.when(listed == 1).then("split"),
    )
    return studies_of(images.drop("dicom", "with_report"), str(metadata), "line", "metadata", config, account)


def _table(path: Path, columns: dict[str, str]) -> pl.DataFrame:
    """Some columns as text under our names, and ``line``."""
    table = open_table(path)
    theirs = {name: table.only(name) for name in columns}
    missing = [name for name, column in theirs.items() if column is None]
    if missing:
        raise DataError(f"{path} lacks {', '.join(missing)}; it has {shown_columns(table.columns)}")
    frame = table.frame([column for column in theirs.values() if column is not None])
    return frame.rename(dict(zip(frame.columns, columns.values(), strict=True))).with_columns(
        line=pl.Series(table.numbers, dtype=pl.Int64)
    )


def _splits(path: Path) -> pl.DataFrame:
    """The split of every image, once."""
    splits = _table(path, _SPLIT).unique([*_IMAGE, "split"], keep="first", maintain_order=True)
    twice = splits.filter(pl.col("dicom").is_duplicated())
    if twice.height:
        raise DataError(f"{path} gives image {twice['dicom'][0]!r:.80} two splits; keep the correct one")
    return splits


def _reports(path: Path, account: Account) -> pl.DataFrame:
    """The sections of every report, and ``line``, its number in the order of studies. No raw text is held."""
    columns = {name: pl.String() for name in (*_STUDY, *TEXTS)}
    held = []
    for file in read_report_files(path, "reports"):
        sections = find_sections(file.text, file.study)
        account.count("last_paragraphs", "reports", "the impression has no heading", sections.last_paragraph)
        held.append((file.subject or None, file.study, *(getattr(sections, name) for name in TEXTS)))
    reports = pl.DataFrame(held, columns, orient="row").with_row_index("line").with_columns(with_report=True)
    twice = reports.filter(pl.col("study").is_duplicated())
    if twice.height:
        raise DataError(f"{path} holds two reports of study {twice['study'][0]}; keep one")
    return reports


def _list_unknown(
    table: pl.DataFrame, images: pl.DataFrame, on: list[str], file: pl.Expr, role: str, reason: str, account: Account
) -> None:
    """List the rows of ``table`` that the metadata does not know; ``file`` names their file."""
    lost = table.join(images, on=on, how="anti", maintain_order="left")
    row = pl.format("line {}", "line") if role == "split" else pl.lit("")
    lost = lost.with_columns(file=file, row=row, id="study", rows=pl.lit(1))
    if lost.height:
        account.read[role] += lost.height
    account.divert(lost, "", pl.lit(True), reason, LEFT_OUT)


def _one_time(images: pl.DataFrame, account: Account) -> pl.DataFrame:
    """The images of a study with the date and time of its first one; what is no number stays, to be refused."""
    day, clock = (pl.col(name).cast(pl.Float64, strict=False) for name in ("date", "time"))
    instant = (day * 1_000_000 + clock).alias("instant")
    images = images.with_columns(instant)
    first = [pl.col(name).sort_by("instant", nulls_last=True).first().over(_STUDY) for name in ("date", "time")]
    differ = pl.col("instant").drop_nulls().n_unique() > 1
    number = int(images.group_by(_STUDY).agg(differ.alias("differ"))["differ"].sum())
    account.count("study_times", "metadata", "the first image counts", number)
    return images.with_columns(
        pl.when(pl.col("instant").is_null()).then(name).otherwise(value).alias(name)
        for name, value in zip(("date", "time"), first, strict=True)
    ).drop("instant")
