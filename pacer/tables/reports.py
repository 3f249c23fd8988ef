"""Files and objects in Python with reports of any system (docs/evaluation.md lists them), read
strictly: any source -> texts by id.

The caller names the columns, or they are looked up in the lists below and, for ids, in
``ID_COLUMNS`` (``shapes.py``), of which the first one in the table is used. Several possible text
columns are an error.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl

from pacer.config.corpus import Delimiter
from pacer.core.errors import DataError
from pacer.tables.hygiene import ENGLISH, is_absent, is_empty_cell
from pacer.tables.ids import format_ids
from pacer.tables.shapes import (
    FORMS,
    ID_COLUMNS,
    ONLY_COLUMN,
    REFERENCE_COLUMNS,
    REPORT_COLUMNS,
    TEXT_COLUMNS,
)
from pacer.tables.sources import NAME_INDEX, Source, open_source
from pacer.tables.table import SourceTable, shown_columns
from pacer.tables.values import shown


class Side(NamedTuple):
    """One side of a comparison, or a table of texts alone: what its files and options are called.

    Attributes:
        name: the beginning of its options, such as ``reference`` in ``reference_text``.
        columns: names of its column of texts, in any case; a file may have only one of them.
        id_option: the option that names its column of ids.
    """

    name: str
    columns: tuple[str, ...]
    id_option: str


REFERENCES = Side("reference", REFERENCE_COLUMNS, "`--id`, in Python reference_id")
HYPOTHESES = Side("hypothesis", REPORT_COLUMNS, "`--id`, in Python hypothesis_id")
#: A table of texts to label.
REPORTS = Side("report", TEXT_COLUMNS, "`--id`")
#: Text column of references in ReXrank's form, with the headings and columns that it is made of.
REXRANK = "rexrank"
_REXRANK_SECTIONS = {"Findings": "section_findings", "Impression": "section_impression"}
#: Optional columns of a file of references.
EXTRA_COLUMNS = (
    "context",
    "split",
    "report_raw",
    "study_id",
    "subject_id",
    "findings_original",
    "view",
    "prior_report",
)
#: Names of columns with the id of a record, examination, patient or image: if both files have one,
#: it must agree within a pair.
IS_ID = re.compile(
    r"(.*[_ -])?u?id|ids|(study|image|subject|patient|dicom|series|record)(uid|id)?|mrn"
    r"|(study|series|sop)instanceuid|accession([_ ]?(number|no))?",
    re.IGNORECASE,
)
#: Prefix of further columns among the rows of :class:`Reports`.
ALSO = "also "


class Reports(NamedTuple):
    """The content of a file of reports."""

    #: For a frame or another object in memory, a name without a suffix.
    path: Path
    #: A row per report, in file order: ``id`` (the row number from 1 if the file has no ids),
    #: ``text`` (null: missing), :data:`EXTRA_COLUMNS` as text (null: the cell is blank, has only
    #: punctuation or a word such as ``N/A``, or the file has no such column), and ``also NAME`` for
    #: further columns of ids (:data:`IS_ID`).
    rows: pl.DataFrame
    #: The file's names of the columns used as ``id`` (if the file has ids) and ``text``.
    columns: dict[str, str]


def reports_of(
    source: Source,
    side: Side,
    id_column: str | None = None,
    text_column: str | None = None,
    delimiter: Delimiter | None = None,
    *,
    needs_ids: bool = True,
) -> Reports:
    """Read a file of reports, whose suffix determines the format, or reports in memory.

    Args:
        id_column, text_column: columns of ids and texts; None: found by name. The text column
            :data:`REXRANK` is made of two.
        delimiter: that of a ``.csv`` file.
        needs_ids: without it, rows of a table with several columns can do without ids.

    Raises:
        DataError: the file is missing, damaged or of another kind, a column is missing or
            ambiguous, or a row holds something other than text.
    """
    if isinstance(source, str) and " " in source and not Path(source).suffix[1:].isalnum():
        raise DataError(
            f"{side.name}: expected the path of a file, a list of texts or texts by id, got "
            f"{shown(source)}"
        )
    id_names = ID_COLUMNS if id_column is None else (*ID_COLUMNS, id_column.lower())
    # stands in messages instead of a path if the reports are in memory; a table to label is always
    # a file
    name = "references" if side is REFERENCES else "hypotheses"
    table = open_source(source, name, id_names, delimiter)
    if text_column == REXRANK:
        table = _with_rexrank_text(table)
    path = table.path
    names = table.data_columns()
    if not table.rows:
        raise DataError(f"{path} contains no reports")
    candidates = _named(names, text_column, (*side.columns, ONLY_COLUMN))
    text_option = f"{side.name}_text (--{side.name}-text)"
    if len(candidates) > 1:
        several = shown_columns(candidates)
        raise DataError(
            f"{path} has several possible report columns: {several}; choose one with {text_option}"
        )
    ids = _named(names, id_column, ID_COLUMNS)
    absent = [] if candidates else [_absent("reports", text_column, side.columns, text_option)]
    if not ids and (id_column or (needs_ids and len(table.columns) > 1)):
        absent.append(_absent("ids", id_column, ID_COLUMNS, side.id_option))
        if not path.suffix:  # a frame in memory
            absent[-1] += NAME_INDEX
    if absent and table.kind == "csv" and len(table.columns) == 1:
        absent.append("its first line must be a column name")
    if absent:
        raise DataError(
            f"{path} has the columns {shown_columns(table.columns)}: {'; '.join(absent)}"
        )
    columns = {"id": ids[0], "text": candidates[0]} if ids else {"text": candidates[0]}
    return Reports(path, _rows(table, columns, names), columns)


def _with_rexrank_text(table: SourceTable) -> SourceTable:
    """Add the column :data:`REXRANK`: ``Findings: … Impression: …``, of the sections that are not
    blank."""
    if missing := [name for name in _REXRANK_SECTIONS.values() if name not in table.columns]:
        raise DataError(
            f"{table.path} has no column {missing[0]}, of which ReXrank's references are made; it "
            f"has the columns {shown_columns(table.columns)}"
        )
    sections = zip(*map(table.values, _REXRANK_SECTIONS.values()), strict=True)
    texts = [
        " ".join(
            f"{heading}: {text.strip()}"
            for heading, text in zip(_REXRANK_SECTIONS, row, strict=True)
            if isinstance(text, str) and not is_blank(text)
        )
        for row in sections
    ]
    rows = [(*row, text) for row, text in zip(table.rows, texts, strict=True)]
    return table._replace(columns=[*table.columns, REXRANK], rows=rows)


def id_columns(
    references: SourceTable, hypotheses: SourceTable, name: str | None
) -> tuple[str | None, str | None]:
    """Return the column of ids of each table: ``name`` if the table has such a column, else None.
    Raises a DataError if neither has it."""
    columns = [table.columns for table in (references, hypotheses)]
    if name is not None and not any(name in names for names in columns):
        first, second = map(shown_columns, columns)
        raise DataError(
            f"no column is named {name}: {references.path} has the columns {first}, and "
            f"{hypotheses.path} has {second}; choose one of them with `--id`"
        )
    in_references = name if name in references.columns else None
    in_hypotheses = name if name in hypotheses.columns else None
    return in_references, in_hypotheses


def _rows(table: SourceTable, columns: Mapping[str, str], names: Sequence[str]) -> pl.DataFrame:
    """Return the rows of :class:`Reports`; ``names``: the table's columns without row numbers."""
    text_name = columns["text"]
    id_name = columns.get("id", "")
    keys = table.values(id_name) if id_name else list(range(1, len(table.rows) + 1))
    for place, text, key in zip(table.places, table.values(text_name), keys, strict=True):
        if text is not None and not isinstance(text, str):
            message = (
                f"{table.path}, {place}, {text_name}: expected text, got {shown(text)}; {FORMS}"
            )
            if isinstance(text, list) and all(isinstance(part, str) for part in text):
                message += (
                    "; if these are texts of one id, score one of them, and the others in separate "
                    "runs"
                )
            raise DataError(message)
        if isinstance(key, bool) or not isinstance(key, str | int) or not str(key).strip():
            message = (
                f"{table.path}, {place}, {id_name}: expected an id (text or a whole number), got "
                f"{shown(key)}"
            )
            if isinstance(key, float):
                message += "; a missing value made the column decimal, so write ids as text"
            raise DataError(message)
    known = {name.strip().lower(): name for name in names}
    if "patient_id" in known:
        known.setdefault("subject_id", known["patient_id"])
    extra = {name: known[name] for name in EXTRA_COLUMNS if name in known}
    owners = [extra[name] for name in ("study_id", "subject_id") if name in extra]
    table.check_ids([id_name, *owners] if id_name else owners)
    also = [
        name
        for name in names
        if name not in columns.values()
        and IS_ID.fullmatch(name.strip())
        and {*map(type, table.values(name))} <= {str, int, float, type(None)}
    ]
    cells = table.frame(list({text_name, *extra.values(), *also}))  # numbers become text
    # an empty cell of CSV or Excel is an empty report; null in other forms means that it is missing
    text = cells[text_name]
    if table.kind in ("csv", "xlsx"):
        text = text.fill_null("")
    content = {"id": pl.Series(map(str, keys), dtype=pl.String), "text": text}
    for name in EXTRA_COLUMNS:
        values = cells[extra[name]] if name in extra else [None] * len(keys)
        written = [None if value is None or is_empty_cell(value) else value for value in values]
        content[name] = pl.Series(written, dtype=pl.String)
    for name in also:  # 7.0 in one file is the same value as 7 in the other
        content[f"{ALSO}{name}"] = (
            cells[name].str.strip_chars().str.replace(r"(\d)\.0+$", "$1").replace("", None)
        )
    return pl.DataFrame(content)


def is_blank(text: str) -> bool:
    """Return whether a text is blank or a placeholder such as ``nan``."""
    return not text.strip() or is_absent(text)


def not_english(ids: Iterable[str], texts: Iterable[str | None]) -> str | None:
    """Return the number and first ids of texts without a frequent English word; None if there is
    none."""
    rows = pl.DataFrame([pl.Series("id", ids), pl.Series("text", texts, pl.String)])
    foreign = rows.filter(~pl.col("text").str.contains(f"(?i){ENGLISH}"))
    found = [id for id, text in foreign.iter_rows() if not is_blank(text)]
    return f"{len(found)} ({format_ids(found)})" if found else None


def _absent(content: str, given: str | None, known: Sequence[str], option: str) -> str:
    """Return the message that no column has the name ``given`` by ``option`` or, if none is given,
    a ``known`` name."""
    if given is not None:
        return f"none is named {given}; choose one of them with {option}"
    names = ", ".join(known)
    return (
        f"no column of {content} found; expected one of {names}; rename yours, or choose it with "
        f"{option}"
    )


def _named(names: Sequence[str], given: str | None, known: Sequence[str]) -> list[str]:
    """Return the column with the name ``given``, else all columns with a ``known`` name."""
    if given is not None:
        return [name for name in names if name == given]
    return [name for wanted in known for name in names if name.strip().lower() == wanted]
