"""Reader of a user's table of examinations: CSV, Excel, Parquet or JSONL, one row per image or one
row per examination.

The rows are converted by :mod:`pacer.corpus.readers.image_rows`. The columns are checked before any
row is converted.
"""

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from pacer.config import Corpus
from pacer.core.errors import DataError
from pacer.core.findings import FINDINGS
from pacer.core.io import yaml_beside
from pacer.corpus.account import Notes, Rows
from pacer.corpus.priors import YEAR_FIRST
from pacer.corpus.readers.image_rows import (
    COLUMNS,
    OF_PREVIOUS,
    REPORT,
    REQUIRED,
    SPLITS,
    WHOLE,
    studies_of,
)
from pacer.corpus.readers.views import may_be_dicom
from pacer.corpus.source import Source, matching_files
from pacer.images.views import parse_view
from pacer.tables.delimited import CsvForm
from pacer.tables.files import open_table
from pacer.tables.hygiene import is_empty_cell
from pacer.tables.table import SourceTable, shown_columns
from pacer.tables.values import mapped, quoted

#: Columns for the paths of an examination's images, in a table with one row per examination.
_IMAGES = ("frontal", "lateral")
NAMES = {"frontal": "image", "lateral": "image"} | OF_PREVIOUS
_SCRIPTS: dict[str, str] = yaml_beside(__file__, "table.yaml")
#: Columns of labels in public collections.
_LABELS = {*FINDINGS, "no finding"}
#: A table with this many columns of labels, and no text, has no reports.
_MANY_LABELS = 3
#: A column with at most this many values may hold the split.
_FEW = 10
#: Name of the folders of images among the texts that may state the split; they are only a hint.
_FOLDERS = "image folders"
#: Names of columns that may hold the split, whatever their values.
_NAMED_SPLIT = (
    r"(?i)^column (.*(split|fold(?!er)|partition|subset)|set$|(is_?)?(train|val|test)(ing|_?set)?$)"
)


def read(source: Source, config: Corpus, notes: Notes) -> Rows:
    """Return every examination of the table, which may be several files with the same columns."""
    files = matching_files(source.files["file"])
    settings = config.table
    form = CsvForm(settings.delimiter, settings.encoding, "corpus.table.", settings.quotes)
    parts: list[pl.DataFrame] = []
    columns: set[str] | None = None
    cells_of_unused = Counter[str]()
    for path in files:
        table = _open(path, form, settings.sheet, notes)
        if columns is not None and set(table.columns) != columns:
            differ = shown_columns(sorted(set(table.columns) ^ columns))
            raise DataError(
                f"{path} and {files[0]} differ in the columns {differ}; all files of a table must "
                "have the same columns"
            )
        columns = set(table.columns)
        names = _columns(table, settings.columns)
        table = _with_text(table, names.get("image"), notes)
        if script := _script(table, names, str(source.files["file"]), str(source.images)):
            raise DataError(
                f"{path} contains images or lists; run this script, then use the .files.parquet it "
                f"writes:{script}"
            )
        used = table.frame(
            list(dict.fromkeys(names.values())), decimals=(settings.columns.get("time", "time"),)
        )
        images = used.select(pl.col(column).alias(name) for name, column in names.items())
        unused = [column for column in table.columns if column not in names.values()]
        images = images.with_columns(_candidates_for_split(table, unused))
        for column in unused:
            values = table.values(column)
            cells_of_unused[column] += sum(value is not None for value in values)
        parts.append(
            images.with_columns(
                file=pl.lit(str(path)), row=pl.Series(table.places, dtype=pl.String)
            )
        )
    images = _with_whole_ids(pl.concat(parts, how="diagonal"), notes)
    if "frontal" in images.columns:
        images = _image_rows(images, notes)
    if "split" not in images.columns or images["split"].null_count() == images.height:
        images = _with_split(images, os.path.commonpath([path.parent for path in files]), notes)
    split_sources = notes.topics.get("other_split", {}).get("table", ())
    for column, number in cells_of_unused.items():
        if quoted(f"column {column}", words=9) not in split_sources:
            notes.count("unknown_fields", "table", quoted(column), number)
    notes.read["table"] = images.height
    if settings.dates is not None and "date" in images.columns:
        images = images.with_columns(_year_first(settings.dates).alias(YEAR_FIRST))
    return studies_of(Rows(images), "table", notes, source.images)


def _open(path: Path, form: CsvForm, sheet: str | None, notes: Notes) -> SourceTable:
    """Open a file, and note unusual forms and sheets that are not read."""
    table = _with_stripped_names(open_table(path, form, sheet), notes)
    for note, number in (table.notes or {}).items():
        notes.count("table_form", "table", note, number)
    for name, num_rows in (table.unread or {}).items():
        notes.count("unknown_fields", "table", f"sheet {quoted(name)}", num_rows)
    return table


def _candidates_for_split(table: SourceTable, columns: Sequence[str]) -> list[pl.Series]:
    """Return, as texts, those of some columns that have few different values."""
    candidates = []
    for column in columns:
        texts = [str(value) for value in table.values(column)]
        if len(set(texts)) <= _FEW:
            candidates.append(pl.Series(f"column {column}", texts, pl.String))
    return candidates


def _year_first(form: str) -> pl.Expr:
    """Return the column ``date`` as YYYY-MM-DD, with or without zeros. Cells that do not have the
    form, and any text after a date, are unchanged."""
    mark = re.escape(form[2])
    pattern = rf"^\s*(\d{{1,2}}){mark}(\d{{1,2}}){mark}(\d{{4}})"
    replacement = "$3-$1-$2" if form.startswith("MM") else "$3-$2-$1"
    return pl.col("date").str.replace(pattern, replacement)


def _image_rows(studies: pl.DataFrame, notes: Notes) -> pl.DataFrame:
    """Turn a row per examination, whose columns ``frontal`` and ``lateral`` name its images, into a
    row per image; an examination without images keeps a row. ``view`` is that of the frontal
    image."""
    absent = {
        name: pl.lit(None, pl.String) for name in ("lateral", "view") if name not in studies.columns
    }
    filled = [
        mapped(name, lambda cell: None if is_empty_cell(cell) else cell)
        for name in (*_IMAGES, "view")
    ]
    studies = studies.with_columns(**absent).with_columns(*filled)
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
    return pl.concat([frontals, laterals]).drop(_IMAGES)


def _is_not_frontal(view: str) -> bool:
    parsed = parse_view(view)
    return parsed is None or parsed.kind != "frontal"


def _with_split(images: pl.DataFrame, top: str, notes: Notes) -> pl.DataFrame:
    """Add the split, if another column, or the names of the files and of their folders below
    ``top``, state one for each row; else count the columns and names that may state it."""
    texts = {name: images[name] for name in images.columns if name.startswith("column ")}
    texts |= {
        "file names": images["file"].str.strip_prefix(top),
        _FOLDERS: images["image"].str.extract(r"(.*)[/\\]"),
    }
    splits = pl.element().replace_strict(SPLITS, default=None).drop_nulls()
    for source, text in texts.items():
        words = text.str.to_lowercase().str.extract_all("[a-z]+")
        split = words.list.eval(splits).list.last()
        if split.n_unique() > 1 and not split.null_count() and source != _FOLDERS:
            notes.count("other_split", "table", quoted(source, words=9), images.height)
            return images.with_columns(split=split)
        if split.count() or re.search(_NAMED_SPLIT, source):
            notes.count("unused_split", "table", quoted(source, words=9), images.height)
    return images


def _with_whole_ids(images: pl.DataFrame, notes: Notes) -> pl.DataFrame:
    """Remove blanks, and the .0 of whole numbers, which comes from gaps in a column, unless other
    ids have decimals."""
    for name in ("subject", "study"):
        ids = pl.col(name).str.strip_chars()
        is_decimal = ids.str.contains(r"^\d+[.,]\d*[1-9]\d*$").any()
        without_zeros = ids.str.replace(r"^(\d{1,15})[.,]0+$", "$1")
        whole = pl.when(is_decimal).then(ids).otherwise(without_zeros)
        changed = images.filter(whole != pl.col(name)).select(pl.lit(name), name)
        notes.count_first("mended_ids", "table", changed.iter_rows())
        images = images.with_columns(whole.alias(name))
    return images


def _script(table: SourceTable, names: Mapping[str, str], files: str, folder: str) -> str | None:
    """Return a Python script that converts pictures as Hugging Face's Parquet has them (``{bytes,
    path}``, or only the bytes), and lists, to a table of paths with one row per image; None if the
    table is one."""
    if "image" not in names:  # a row per examination
        return None
    first = {
        name: next(filter(None, table.values(names[name])), None)
        for name in ("image", "view")
        if name in names
    }
    lists = [repr(names[name]) for name, cell in first.items() if isinstance(cell, list)]
    picture = first["image"][0] if isinstance(first["image"], list) else first["image"]
    if isinstance(picture, dict | bytes):
        kind = "pictures"
    elif lists:
        kind = "lists"
    else:
        return None
    explode = f".explode({', '.join(lists)})" if lists else ""
    content = 'picture["bytes"] or b""' if isinstance(picture, dict) else "picture"
    return _SCRIPTS[kind].format(
        files=files,
        folder=folder,
        explode=explode,
        content=content,
        image=names["image"],
        read="read_ndjson" if table.kind == "jsonl" else "read_parquet",
    )


def _with_stripped_names(table: SourceTable, notes: Notes) -> SourceTable:
    """Remove the blanks around column names, and count them."""
    stripped = [name.strip() for name in table.columns]
    for name in stripped:
        if name not in table.columns:
            notes.count(
                "table_form", "table", f"column {quoted(name)}: blanks around its name, removed"
            )
    return table._replace(columns=stripped)


def _with_text(table: SourceTable, image: str | None, notes: Notes) -> SourceTable:
    """Decode columns of bytes that are text, as Impala and old versions of Hive write it, and count
    them. The column of images may contain the images themselves, so it is text only if all values
    are file names."""
    columns = {name: table.values(name) for name in table.columns}
    for name, cells in columns.items():
        written = [cell for cell in cells if cell is not None]
        if not written or not all(isinstance(cell, bytes) for cell in written):
            continue
        try:
            texts = [None if cell is None else cell.decode() for cell in cells]
        except UnicodeDecodeError:
            continue
        if name == image and not all(re.search(r"\.\w+$", text or ".png") for text in texts):
            continue
        columns[name] = texts
        note = f"column {quoted(name)}: bytes, which are read as UTF-8"
        notes.count("table_form", "table", note, len(written))
    return table._replace(rows=list(zip(*columns.values(), strict=True)))


def _has_only_numbers(table: SourceTable, columns: list[str]) -> bool:
    """Whether the columns have cells, and all of them are numbers, as in columns of labels."""
    cells = {str(cell).strip() for name in columns for cell in table.values(name) if cell}
    numbers = {cell for cell in cells if re.fullmatch(r"[-+]?\d+([.,]\d+)?", cell)}
    return bool(numbers) and numbers == cells - {""}


def _columns(table: SourceTable, mapping: dict[str, str]) -> dict[str, str]:
    """Map our column names to the table's names, for the columns that the table has.

    A name without a mapping maps to itself, unless the column of that name is mapped to another
    name. One column may be mapped to both ``subject`` and ``study``. The view may be missing if the
    images are DICOM files, whose headers contain it.
    """
    path = table.path
    have = table.columns
    # a column named order may hold anything
    known = (*COLUMNS, *_IMAGES)
    names = {name: name for name in known if name not in (*mapping.values(), "order")} | mapping
    problems = [
        f"unknown key {name} (expected one of {', '.join(known)})"
        for name in names.keys() - set(known)
    ]
    is_by_study = names.get("frontal") in have and names.get("image") not in have
    required = ("subject", "study", "frontal") if is_by_study else REQUIRED
    for name in ("image",) if is_by_study else _IMAGES:
        names.pop(name, None)
    named = list(names.values())
    if "subject" in mapping and names["subject"] == names["study"]:
        named.remove(names["study"])
    image = names.get("image")
    paths = [] if image is None or image not in have else table.values(image)
    if any(may_be_dicom(path) for path in paths if isinstance(path, str)):
        required = tuple(name for name in required if name != "view")
    for name in dict.fromkeys((*required, *mapping)):
        if names.get(name) not in have:
            problems.append(f"no column {names.get(name, name)} for {name}")
    texts = [names[name] for name in (*REPORT, WHOLE) if names.get(name) in have]
    if not texts:
        labels = [name for name in have if name.strip().lower() in _LABELS]
        if len(labels) >= _MANY_LABELS:
            raise DataError(
                f"{path} has labels ({shown_columns(labels[:_MANY_LABELS])}, ...) and no reports, "
                "so it cannot be used; if another column has reports, map it to findings, "
                "impression or whole_report in corpus.table.columns"
            )
        problems.append(
            "no column for findings, impression or whole_report (labels or boxes alone cannot be "
            "used)"
        )
    elif _has_only_numbers(table, texts):
        problems.append(
            f"no words in {shown_columns(texts)}, only numbers, where reports are expected"
        )
    twice = [
        column
        for column in dict.fromkeys(named)
        if column in have and have.count(column) + named.count(column) > 2
    ]
    problems += [f"column {column} appears, or is mapped, more than once" for column in twice]
    if "order" in mapping and names.get("date") in have:
        problems.append(
            f"order and {names['date']} both give the order of studies; remove one from table or "
            "mapping"
        )
    if problems:
        raise DataError(
            f"{path}: {'; '.join(problems)}. Columns of the table: {shown_columns(have)}; "
            "map yours in corpus.table.columns"
        )
    return {name: column for name, column in names.items() if column in have}
