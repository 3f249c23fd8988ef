"""Reader of the format ``table``, which docs/data.md writes down: a table of examinations in CSV,
Excel, Parquet or JSONL, with a row per image or a row per examination.

What is not in the format is refused: a file by an error, a row by a line of ``problems.csv``
(:mod:`pacer.corpus.readers.cells`). :mod:`pacer.corpus.checks` counts what may be wrong and can be
seen.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from pacer.config import Corpus
from pacer.config.corpus import COLUMNS, Column
from pacer.core.errors import DataError
from pacer.corpus.account import LEFT_OUT, Notes, Rows
from pacer.corpus.checks import mender, note_rows
from pacer.corpus.images import images_of, inspect_images
from pacer.corpus.previous import with_previous
from pacer.corpus.readers.cells import WHOLE, with_parsed_fields, with_texts
from pacer.corpus.readers.views import header_views, may_be_dicom
from pacer.corpus.source import Source, matching_files
from pacer.corpus.studies import (
    OF_PREVIOUS,
    PREVIOUS,
    REPORT,
    TEXTS,
    choose_images,
    group_images,
    view_rank,
)
from pacer.images.views import parse_view
from pacer.tables.delimited import CsvForm
from pacer.tables.files import open_table
from pacer.tables.hygiene import EMPTY_CELL
from pacer.tables.table import SourceTable, shown_columns
from pacer.tables.values import mapped, quoted

_IDS = ("site", "subject", "study")
#: Columns for the paths of an examination's images, in a table with one row per examination.
_IMAGES = ("frontal", "lateral")
NAMES = {"frontal": "image", "lateral": "image"} | OF_PREVIOUS | {"prior_findings": PREVIOUS}

#: A path that is a list of paths written as text.
_LIST_AS_TEXT = r"^\s*\[.*\]\s*$|\.\w{2,4}['\"]?\s*[;,|]\s*['\"]?\S+\.\w{2,4}\s*$"


def read(source: Source, config: Corpus, notes: Notes) -> Rows:
    """Return every examination of the table, which may be several files with the same columns."""
    settings = config.table
    form = CsvForm(settings.delimiter, settings.encoding)
    files = matching_files(source.files["file"])
    tables = [_open(path, form, settings.sheet, notes) for path in files]
    for table in tables:
        if set(table.columns) != set(tables[0].columns):
            differ = shown_columns(sorted({*table.columns} ^ {*tables[0].columns}))
            raise DataError(
                f"{table.path} and {files[0]} differ in the columns {differ}; all files of a table "
                "must have the same columns"
            )
    names = _columns(tables[0], {**settings.columns})
    mend = mender(config)
    for table in tables:
        _refuse_lists(table, names, source.images, mend)
    rows = pl.concat(_rows_of(table, names, notes) for table in tables)
    rows = with_texts(_with_sites(rows), notes)
    if "frontal" in names:
        rows = _image_rows(rows, notes)
    notes.read["table"] = rows.height
    rows = with_parsed_fields(rows, settings.dates, mend).with_columns(
        id=pl.col("study").fill_null("")
    )
    note_rows(rows, notes)
    images = Rows(_with_ranks(rows, source.images, notes))
    is_empty = pl.all_horizontal(pl.col(COLUMNS).is_null())
    images = images.exclude("", is_empty, "an empty row", LEFT_OUT)
    studies, image_rows = group_images(images, mend)
    candidates = studies.used
    studies, prior_only = choose_images(studies, image_rows, "table", notes)
    headers = inspect_images(images_of(studies.used), source.images)
    unusable = headers.drop_nulls("problem")["image_id"]
    # the report of another examination, or of an image that is none, is nobody's previous report
    used = studies.used.filter(~pl.col("frontal").is_in(unusable.implode()))["study"]
    may_precede = pl.col("study").is_in([*used, *prior_only])
    sources = candidates.with_columns(may_precede=may_precede)
    studies = with_previous(studies, sources, "table", notes)
    return studies._replace(headers=headers)


def _open(path: Path, form: CsvForm, sheet: str | None, notes: Notes) -> SourceTable:
    """Open a file; blanks around the names of its columns are removed."""
    table = open_table(path, form, sheet)
    for name, num_rows in (table.unread or {}).items():
        notes.count("unknown_fields", "table", f"sheet {quoted(name)}", num_rows)
    return table._replace(columns=[name.strip() for name in table.columns])


def _columns(table: SourceTable, mapping: Mapping[Column, str]) -> dict[str, str]:
    """Map the columns of the format to the table's, for those that the table has.

    A name without a mapping maps to itself, unless the column of that name is mapped to another
    name. One column may be mapped to several of the ids and the image. The view may be missing if
    the images are DICOM files, whose headers contain it.
    """
    have = table.columns
    # a column named order may hold anything
    names = {name: name for name in COLUMNS if name not in (*mapping.values(), "order")}
    names = {**names, **mapping}
    problems: list[str] = []
    is_by_study = names.get("frontal") in have and names.get("image") not in have
    for name in ("image",) if is_by_study else _IMAGES:
        names.pop(name, None)
    needed = ["subject", "study", "frontal" if is_by_study else "image"]
    if not is_by_study and not _may_be_dicom(table, names.get("image")):
        needed.append("view")
    for name in dict.fromkeys((*needed, *(name for name in mapping if name in names))):
        if names.get(name) in have:
            continue
        others = [key for key, column in mapping.items() if column == name]
        if name not in names and others:
            problems.append(
                f"column {name} is mapped to {' and '.join(others)}; if it holds the {name}, too, "
                f"add {name}: {name}"
            )
        else:
            problems.append(f"no column {names.get(name, name)} for {name}")
    if not any(names.get(name) in have for name in (*REPORT, WHOLE)):
        problems.append("no column for findings, impression or whole_report (all in one text)")
    named = [name for name in names.values() if name in have]
    shared = [names.get(name) for name in (*_IDS, "image")]
    twice = [
        column
        for column in dict.fromkeys(named)
        if have.count(column) > 1 or named.count(column) > max(1, shared.count(column))
    ]
    problems += [f"column {column} appears, or is mapped, more than once" for column in twice]
    if "order" in mapping and names.get("date") in have:
        problems.append(
            f"order and {names.get('date')} both give the order of studies; remove one from table "
            "or mapping"
        )
    if problems:
        raise DataError(
            f"{table.path}: {'; '.join(problems)}. Columns of the table: {shown_columns(have)}. "
            "Name your columns in corpus.table.columns, for example {subject: patient_id, "
            "study: exam_id, image: file}"
        )
    return {name: column for name, column in names.items() if column in have}


def _may_be_dicom(table: SourceTable, image: str | None) -> bool:
    paths = table.values(image) if image in table.columns else []
    return any(isinstance(path, str) and may_be_dicom(path) for path in paths)


def _rows_of(table: SourceTable, names: Mapping[str, str], notes: Notes) -> pl.DataFrame:
    """Return the columns of the format as text, with the place of each row; blanks and words for
    empty cells are removed, except in texts. Count the cells of other columns."""
    for column in table.columns:
        if column not in names.values():
            filled = sum(value is not None for value in table.values(column))
            notes.count("unknown_fields", "table", quoted(column), filled)
    ids = {name: table.ids(names[name]) for name in _IDS if name in names}
    others = {name: column for name, column in names.items() if name not in _IDS}
    frame = table.frame(list(dict.fromkeys(others.values())))
    rows = frame.select(
        pl.col(others[name]).alias(name) if name in others else pl.lit(None, pl.String).alias(name)
        for name in COLUMNS
        if name not in _IDS
    )
    rows = rows.with_columns(
        pl.lit(None, pl.String).alias(name) if name not in ids else ids[name].alias(name)
        for name in _IDS
    )
    return rows.with_columns(
        pl.exclude(*TEXTS, WHOLE).str.strip_chars().str.replace(EMPTY_CELL, "").replace("", None),
        file=pl.lit(str(table.path)),
        row=pl.Series(table.places, dtype=pl.String),
    )


def _refuse_lists(
    table: SourceTable,
    names: Mapping[str, str],
    folder: Path,
    mend: Callable[..., str],
) -> None:
    """Raise a DataError with the polars lines that mend a table whose cells hold lists or pictures
    instead of a path."""
    column = names.get("image") or names["frontal"]
    cells = {name: _first_cell(table, name) for name in (column, names.get("view", "")) if name}
    lists = [name for name, cell in cells.items() if isinstance(cell, list)]
    texts = [name for name, cell in cells.items() if isinstance(cell, str)]
    if column in lists:
        what, lines = "a list", mend("explode_lists", columns=lists)
    elif column in texts:
        what, lines = "a list written as text", mend("lists_as_text", columns=texts)
    elif isinstance(cells[column], dict | bytes):
        what = "a picture"
        lines = mend(
            "write_pictures", column=column, folder=str(folder), stem=table.path.name.split(".")[0]
        )
    else:
        return
    raise DataError(
        f"{table.path}, column {column}: {what}, but the format has the path of one image in a "
        "cell; run these lines, then set corpus.table.file to the file that they write, which has "
        "the rows of all files; if the files are splits, take the lines of docs/data.md (Hugging "
        f"Face's Parquet) instead, which add the column split:\n{lines}"
    )


def _first_cell(table: SourceTable, column: str) -> Any:
    """Return the first cell that does not hold a path, if there is one."""
    cells = [cell for cell in table.values(column) if cell]
    return next((cell for cell in cells if not _is_path(cell)), None)


def _is_path(cell: Any) -> bool:
    return isinstance(cell, str) and not re.search(_LIST_AS_TEXT, cell)


def _with_sites(rows: pl.DataFrame) -> pl.DataFrame:
    """Make ids of the column ``site`` and the ids within it (``north/17``)."""
    if rows["site"].null_count() == rows.height:
        return rows
    return rows.with_columns(
        pl.format("{}/{}", pl.col("site").fill_null(""), name).alias(name)
        for name in ("subject", "study")
    )


def _image_rows(studies: pl.DataFrame, notes: Notes) -> pl.DataFrame:
    """Turn a row per examination, whose columns ``frontal`` and ``lateral`` name its images, into a
    row per image; an examination without images keeps a row. ``view`` is that of the frontal
    image."""
    is_other = mapped("view", _is_not_frontal, pl.Boolean)
    for view in studies.filter(is_other)["view"]:
        notes.count("unknown_views", "table", f"{quoted(view)} of a frontal image")
    studies = studies.with_columns(
        view=pl.when(~is_other).then("view").otherwise(pl.lit("FRONTAL"))
    )
    has_none = pl.all_horizontal(pl.col(_IMAGES).is_null())
    frontals = studies.filter(pl.col("frontal").is_not_null() | has_none).with_columns(
        image="frontal"
    )
    laterals = studies.drop_nulls("lateral").with_columns(image="lateral", view=pl.lit("LATERAL"))
    return pl.concat([frontals, laterals])


def _is_not_frontal(view: str) -> bool:
    parsed = parse_view(view)
    return parsed is None or parsed.kind != "frontal"


def _with_ranks(images: pl.DataFrame, folder: Path, notes: Notes) -> pl.DataFrame:
    """Add the ``rank`` of each image's view (:func:`view_rank`). A DICOM header gives the view that
    a row lacks, and the direction of one that is only frontal."""
    headers = header_views(images["image"].drop_nulls().unique(), folder)
    ranks: list[int | None] = []
    contradictions: list[tuple[str, str]] = []
    for view, image, row in images.select("view", "image", "row").iter_rows():
        header, words = headers.get(image, ("", ""))
        parsed = parse_view(view)
        in_header = parse_view(header)
        is_finer = (
            parsed == ("frontal", "other") and in_header is not None and in_header.kind == "frontal"
        )
        if in_header and (view is None or is_finer):
            view = header
        elif in_header and parsed and in_header != parsed:
            note = (
                f"view {quoted(header)} in the header contradicts {quoted(view)} in the table; the "
                "table is used"
            )
            contradictions.append((note, row))
        ranks.append(view_rank(view, words))
    notes.count_first("headers", "views", contradictions)
    return images.with_columns(rank=pl.Series(ranks, dtype=pl.Int64))
