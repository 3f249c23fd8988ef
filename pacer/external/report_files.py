"""Reports as other systems leave them: CSV, JSONL, JSON and Parquet, with ids or in an order, read strictly.

What a file leaves open is asked, not guessed: which of two columns has the reports, whether the first row of a single
column is its heading.

========================  ==================================================================================
CSV, TSV (also .gz)       a header with an id and a text column; or one column of texts without a header, as
                          R2Gen's ``res.csv`` and ``gts.csv``: paired by position
JSON                      ``{id: text}`` or ``{id: [text]}``, as LLM-RG4's and R2GenGPT's ``test_result.json`` and
                          ``test_refs.json``; ``{id: object}``, as ReXrank's; or a list of objects
JSONL (also .gz)          an object a line, as PACER's own predictions (in which the column `report` is to be named)
Parquet                   an id and a text column, as PACER's ``records.parquet``
========================  ==================================================================================
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pacer.core.errors import DataError
from pacer.core.io import read_json
from pacer.data.tables import Table, open_table, shown_columns
from pacer.data.values import shown

#: Names of the column with the ids, of which the first that a file has is taken, and with the text, of which it may
#: have one; whatever their case.
ID_COLUMNS = ("record_id", "id", "study_id", "image_id")
REFERENCE_COLUMNS = ("reference", "report", "ground_truth", "findings", "text")
HYPOTHESIS_COLUMNS = ("hypothesis", "report", "prediction", "generated", "text")
#: The reports in ReXrank's file of predictions, which repeats the references beside them.
_REXRANK_COLUMN = "model_prediction"
#: What else a file of references may say of its records; some of it is kept as it stands.
KEPT_COLUMNS = ("study_id", "subject_id", "findings_original", "view", "sections")
EXTRA_COLUMNS = ("context", "split", "report_raw", *KEPT_COLUMNS)
#: What stands for the column of ids of an object of JSON.
_KEYS = "the keys"
#: What asks for a column of reports by its name.
_TEXT_OPTIONS = "--reference-text or --hypothesis-text"
#: Parts of the names that programs give to a column of reports.
_NAME_PART = re.compile(
    "caption|finding|generat|hypothes|impression|output|predict|referenc|report|text|truth", re.IGNORECASE
)


@dataclass(frozen=True)
class ReportFile:
    """Rows of a file in its order. ``ids``: None where position alone says which is which; ``texts``: None for a
    report that is missing; ``columns``: which columns they came from; ``extra``: other columns that have a meaning."""

    path: Path
    ids: list[str] | None
    texts: list[str | None]
    columns: dict[str, str] = field(default_factory=dict)
    extra: dict[str, list[Any]] = field(default_factory=dict)

    def key(self, row: int) -> str:
        """What a row pairs by: its id, else its number from 1."""
        return str(row + 1) if self.ids is None else self.ids[row]

    def take(self, rows: Sequence[int]) -> ReportFile:
        """Some rows, in this order."""
        ids = None if self.ids is None else [self.ids[row] for row in rows]
        extra = {name: [values[row] for row in rows] for name, values in self.extra.items()}
        return replace(self, ids=ids, texts=[self.texts[row] for row in rows], extra=extra)

    def name(self, row: int) -> str:
        """A row in words, for errors."""
        return f"row {row + 1}" if self.ids is None else f"id {self.ids[row]}"


def read_reports(
    path: str | Path, text_columns: Sequence[str], id_column: str | None = None, text_column: str | None = None
) -> ReportFile:
    """Read a file of reports by the kind that its name says.

    Args:
        text_columns: names to look for, :data:`REFERENCE_COLUMNS` or :data:`HYPOTHESIS_COLUMNS`.
        id_column, text_column: the columns (or keys) to take instead.

    Raises:
        DataError: the file is missing or of an unknown kind, a column is not there or not the only one in question, a
            single column begins with what may be its heading, or a row holds something else than text; what arrived,
            what was expected and the row are named.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path} does not exist; expected a file of reports, .csv, .tsv, .json, .jsonl or .parquet")
    if path.suffix.lower() == ".json":
        content = read_json(path)
        if isinstance(content, dict) and not any(isinstance(value, dict) for value in content.values()):
            return _of_mapping(path, content, id_column or text_column)
        if isinstance(content, dict):
            content = _with_keys(path, content)
            id_column = id_column or _KEYS
        table = _of_list(path, content)
    else:
        table = open_table(path)
        if not table.columns:
            raise DataError(f"{path} is empty")
        chosen = id_column or text_column or table.named(*text_columns)
        if table.kind == "csv" and len(table.columns) == 1 and not chosen:
            return _without_header(table)
        if not table.rows:
            raise DataError(f"{path} has a header but no rows")
    return _of_columns(table, text_columns, id_column, text_column)


def _of_mapping(path: Path, content: dict[str, Any], column: str | None) -> ReportFile:
    if column:
        raise DataError(f"{path} is an object of ids and texts, which has no column {column}; leave it out")
    single = {key: value[0] if isinstance(value, list) and len(value) == 1 else value for key, value in content.items()}
    texts = [_text(f"{path}, id {key}", "one text", value) for key, value in single.items()]
    ids = [_id(f"{path}, row {row}, the keys", key) for row, key in enumerate(content, start=1)]
    return ReportFile(path, ids, texts, {"id": _KEYS, "text": "the values"})


def _with_keys(path: Path, content: dict[str, Any]) -> list[Any]:
    """Objects by id as a list of them, each with its id; ReXrank's ``context`` is the patient's, none of the four."""
    for key, row in content.items():
        if not isinstance(row, dict):
            raise DataError(f"{path}, id {key}: expected an object as for the others, got {shown(row)}")
    drop = {"context"} if any("image_path" in row for row in content.values()) else set()
    return [
        {_KEYS: key} | {name: value for name, value in row.items() if name not in drop} for key, row in content.items()
    ]


def _of_list(path: Path, content: Any) -> Table:
    """A list of objects as a table."""
    if not isinstance(content, list):
        raise DataError(f"{path}: expected an object of ids and texts, or a list of objects, got {shown(content)}")
    for number, row in enumerate(content, start=1):
        if not isinstance(row, dict):
            raise DataError(f"{path}, row {number}: expected an object, got {shown(row)}")
    names = list(dict.fromkeys(name for row in content for name in row))
    numbers = range(1, len(content) + 1)
    return Table(path, "json", names, numbers, [tuple(map(row.get, names)) for row in content], {})


def _without_header(table: Table) -> ReportFile:
    """One column of texts, as R2Gen writes it."""
    first = table.columns[0]
    words = first.split()
    # a word or a number, or two or three words of which one is like the name of such a column; nothing of a sentence
    if 1 <= len(words) <= 3 and not re.search("[.,:!?]", first) and (len(words) == 1 or _NAME_PART.search(first)):
        raise DataError(
            f"{table.path}: its first row looks like a heading, which would be scored as a report; "
            f"name the column with {_TEXT_OPTIONS}, or put a line `report` above it"
        )
    texts = [first, *(cell or "" for (cell,) in table.rows)]
    return ReportFile(table.path, None, texts, {"text": f"the only column ({len(texts)} rows, no header)"})


def _of_columns(
    table: Table, text_columns: Sequence[str], id_column: str | None, text_column: str | None
) -> ReportFile:
    path, names = table.path, table.columns
    for place, row in zip(table.places, table.rows, strict=True):
        if table.kind == "csv" and row[0] is None:
            raise DataError(f"{path}, {place} is blank; every row needs its {len(names)} cells")
    if len(set(names)) != len(names):
        raise DataError(f"{path} has a column name more than once; its columns are {shown_columns(names)}")
    for name, what in ((text_column, "text"), (id_column, "ids")):
        if name is not None and name not in names:
            raise DataError(f"{path} has no column {name} for the {what}; it has {shown_columns(names)}")
    found = [text_column] if text_column else table.named(*text_columns)
    if text_column is None and text_columns == HYPOTHESIS_COLUMNS:
        found = table.named(_REXRANK_COLUMN) or found
    if not found:
        raise DataError(
            f"{path} has no report column, only {shown_columns(names)}; expected {', '.join(text_columns)}, or name it "
            f"with {_text_option(text_columns)}"
        )
    if len(found) > 1:
        raise DataError(
            f"{path} has several report columns: {', '.join(found)}; choose one with {_text_option(text_columns)}"
        )
    text = found[0]
    identity = id_column or next((name for known in ID_COLUMNS if (name := table.only(known))), None)
    if identity is None and len(names) > 1:
        raise DataError(
            f"{path} has no id column, only {shown_columns(names)}; expected {', '.join(ID_COLUMNS)}, or name it with "
            f"--reference-id or --hypothesis-id"
        )

    def column(name: str) -> list[tuple[str, Any]]:
        return [
            (f"{path}, {place}, {name}", value) for place, value in zip(table.places, table.values(name), strict=True)
        ]

    return ReportFile(
        path,
        None if identity is None else [_id(place, value) for place, value in column(identity)],
        [_text(place, "text", value) for place, value in column(text)],
        {"id": identity or "position", "text": text},
        {known: [value for _, value in column(name)] for known in EXTRA_COLUMNS if (name := table.only(known))},
    )


def _text_option(text_columns: Sequence[str]) -> str:
    return "--hypothesis-text" if text_columns == HYPOTHESIS_COLUMNS else "--reference-text"


def _text(place: str, expected: str, value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise DataError(f"{place}: expected {expected}, got {shown(value)}")
    return value


def _id(place: str, value: Any) -> str:
    if value == "":
        raise DataError(f"{place}: the id is empty")
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise DataError(f"{place}: expected an id as text or a whole number, got {shown(value)}")
    return _text(place, "an id", str(value)) or ""
