"""Reader of MIMIC-CXR as PhysioNet ships it: the report files, and MIMIC-CXR-JPG's tables of
metadata and splits.

The rows are those of the metadata, one per image. Each row gets its split and the sections of its
examination's report. The rows are then grouped like those of a table
(:mod:`pacer.corpus.studies`).
"""

import re
from pathlib import Path

import polars as pl

from pacer.config import Corpus
from pacer.core.errors import DataError
from pacer.corpus.account import LEFT_OUT, Notes, Rows, fault_where
from pacer.corpus.previous import with_previous
from pacer.corpus.readers.files import read_files
from pacer.corpus.readers.mimic_sections import Sections, find_sections
from pacer.corpus.readers.views import VIEW_IN_FULL
from pacer.corpus.source import Source
from pacer.corpus.studies import (
    OF_PREVIOUS,
    REPORT,
    choose_images,
    group_images,
    view_rank,
)
from pacer.tables.files import open_table
from pacer.tables.hygiene import (
    CONTROL,
    EMPTY_CELL,
    PLACEHOLDER,
    is_absent,
    without_residue,
)
from pacer.tables.table import shown_columns
from pacer.tables.values import mapped, quoted

NAMES = {"frontal": "dicom_id", "lateral": "dicom_id"} | OF_PREVIOUS
_REPORT_FILE = re.compile(r"(?:^|/)s([0-9]+)\.txt\Z")
#: The sections of a report.
SECTIONS = Sections._fields
_STUDY = ["subject", "study"]
_IMAGE = [*_STUDY, "dicom"]
#: The columns of the two tables, and our names for them.
_IDS = {"subject_id": "subject", "study_id": "study", "dicom_id": "dicom"}
_METADATA = _IDS | {
    "ViewPosition": "view",
    "StudyDate": "date",
    "StudyTime": "time",
    VIEW_IN_FULL: "view in full",
}
_SPLIT = _IDS | {"split": "split"}
#: Our names of the splits, by MIMIC-CXR-JPG's.
_SPLITS = {"train": "train", "validate": "val", "test": "test"}


def read(source: Source, config: Corpus, notes: Notes) -> Rows:
    """Return every examination of the metadata; list the reports that belong to no
    examination. Raises a DataError also if an examination has two reports, or an image two
    splits."""
    split = source.files["split"]
    reports = source.files["reports"]
    images = _table(source.files["metadata"], _METADATA)
    if "view in full" in images.columns:
        has_position = ~pl.col("view").str.contains(EMPTY_CELL)
        images = images.with_columns(
            view=pl.when(has_position).then("view").otherwise("view in full")
        )
    notes.read["metadata"] += images.height
    splits = _table(split, _SPLIT).unique([*_IMAGE, "split"], keep="first", maintain_order=True)
    _check_once(splits, "dicom", f"{split} lists more than one split for image")
    texts = _with_texts(read_reports(reports), notes)
    _check_once(texts, "study", f"{reports} has more than one report for study")
    rows = Rows(images)
    lost = texts.join(images, on="study", how="anti", maintain_order="left")
    if lost.height:
        notes.read["reports"] += lost.height
    rows = rows.with_lines(
        lost.with_columns(
            id="study",
            field=pl.lit(""),
            reason=pl.lit("its study is not in the metadata"),
            kind=pl.lit(LEFT_OUT),
        )
    )
    images = images.join(splits.drop("file", "row"), on=_IMAGE, how="left", maintain_order="left")
    num_splits = pl.col("split").drop_nulls().n_unique().over(_STUDY)
    rows = rows._replace(used=images.with_columns(id="study", num_splits=num_splits))
    # if no image of the examination has a split, the whole examination is left out below
    is_omitted = pl.col("split").is_null() & (pl.col("num_splits") > 0)
    rows = rows.exclude("", is_omitted, "the image is not in the split table", LEFT_OUT)
    images = rows.used.join(
        texts.drop("file", "row"), on="study", how="left", maintain_order="left"
    )
    fields = pl.col("subject", "study", "view", "date", "time", "split").str.strip_chars()
    images = images.with_columns(fields.str.replace(EMPTY_CELL, "").replace("", None))
    # a time is a number, so its leading zeros are lost: 85027.0 is 08:50:27
    number = pl.col("time").str.extract_groups(r"^(\d{1,6})(\.\d+)?$")
    digits = number.struct.field("1").str.zfill(6) + number.struct.field("2").fill_null("")
    images = images.with_columns(
        day=pl.col("date").str.to_date("%Y%m%d", strict=False),
        clock=digits.str.to_time("%H%M%S%.f", strict=False),
        known_split=pl.col("split").replace_strict(_SPLITS, default=None),
        image=pl.format(
            "p{}/p{}/s{}/{}.jpg", pl.col("subject").str.head(2), "subject", "study", "dicom"
        ),
        unused=pl.when(pl.col("num_splits") == 0)
        .then(pl.lit("none of its images is in the split table"))
        .when(pl.col("num_splits") > 1)
        .then(pl.lit("its images are in two splits"))
        .when(pl.col("has_file").is_null())
        .then(pl.lit("there is no report")),
        rank=mapped("view", view_rank, pl.Int64),
    )
    faults = (
        fault_where(
            pl.col(written).is_not_null() & pl.col(parsed).is_null(),
            field,
            f"expected {form}",
            mapped(written, quoted),
        )
        for written, parsed, field, form in (
            ("date", "day", "StudyDate", "YYYYMMDD"),
            ("time", "clock", "StudyTime", "HHMMSS.f as a number"),
            ("split", "known_split", "split", ", ".join(_SPLITS)),
        )
    )
    one_split = pl.when(pl.col("num_splits") == 1).then("known_split")
    images = images.with_columns(fault=pl.coalesce(faults)).with_columns(split=one_split)
    candidates, image_rows = group_images(rows._replace(used=images))
    studies, _ = choose_images(candidates, image_rows, "metadata", notes)
    # also a study without a split, or without a usable image, can be the previous one
    is_text = ~pl.any_horizontal(pl.col(REPORT).str.contains(CONTROL).fill_null(False))
    sources = candidates.used.with_columns(may_precede=is_text)
    return with_previous(studies, sources, "metadata", notes)


def _with_texts(reports: pl.DataFrame, notes: Notes) -> pl.DataFrame:
    """Return the sections of reports without entities, removed names (``___``) and words for an
    absent text."""
    for name in SECTIONS:
        plain = mapped(name, without_residue).str.replace_all(PLACEHOLDER, "___")
        reports = notes.null_if_absent(reports.with_columns(plain), name, is_absent, "study")
    return reports


def read_reports(path: Path) -> pl.DataFrame:
    """Read the sections of every report file (``p10/p10000032/s50414267.txt``) by examination, and
    its ``file``, at any depth of a folder or of an archive of it. Raises a DataError if there is no
    text file, or one cannot be read."""
    rows = []
    for name, content in read_files(path, ".txt"):
        if match := _REPORT_FILE.search(name):
            try:
                sections = find_sections(content.decode("utf-8"))
            except UnicodeDecodeError as error:
                # another encoding would be a guess, and a wrong guess silently changes the
                # references
                reason = f"{error.reason} at byte {error.start}"
                raise DataError(
                    f"{path}/{name} is not valid UTF-8 ({reason}); save it as UTF-8"
                ) from None
            rows.append(
                (f"{path}/{name}", match[1], *(getattr(sections, section) for section in SECTIONS))
            )
    columns = dict.fromkeys(("file", "study", *SECTIONS), pl.String())
    return (
        pl.DataFrame(rows, columns, orient="row")
        .with_columns(row=pl.lit(""), has_file=True)
        .sort("study", "file")
    )


def read_original_findings(path: Path | None) -> pl.DataFrame:
    """Read ``study_id`` (unique) and ``findings_original`` from report files
    (:func:`read_reports`), for scores against the original reports; the first text of an
    examination counts. No rows if there is no path."""
    if path is None:
        return pl.DataFrame(schema={"study_id": pl.String(), "findings_original": pl.String()})
    originals = read_reports(path).unique("study", keep="first", maintain_order=True)
    return originals.select(study_id="study", findings_original="findings").drop_nulls()


def _table(path: Path, columns: dict[str, str]) -> pl.DataFrame:
    """Read the columns as text under our names, with their places. A copy of the metadata may lack
    views in full."""
    table = open_table(path)
    present = [name for name in columns if name in table.columns]
    missing = columns.keys() - {*present, VIEW_IN_FULL}
    if missing:
        raise DataError(
            f"{path}: missing columns {', '.join(sorted(missing))}; it has "
            f"{shown_columns(table.columns)}"
        )
    frame = table.frame(present).rename({name: columns[name] for name in present})
    return frame.with_columns(file=pl.lit(str(path)), row=pl.Series(table.places, dtype=pl.String))


def _check_once(table: pl.DataFrame, column: str, problem: str) -> None:
    twice = table.filter(pl.col(column).is_duplicated())
    if twice.height:
        raise DataError(f"{problem} {twice[column][0]!r:.80}; keep the correct one")
