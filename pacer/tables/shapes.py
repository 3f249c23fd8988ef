"""The forms in which JSON files, mappings and lists hold a table."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from pacer.core.errors import DataError
from pacer.core.io import read_json
from pacer.tables.table import SourceTable, shown_columns
from pacer.tables.values import shown

#: Names of columns of ids, in any case; the first one that a table has is used.
ID_COLUMNS = ("probe_id", "record_id", "id", "study_id", "image_id", "ids", "case")
#: Names of columns of texts, in any case, of references and of reports.
REFERENCE_COLUMNS = (
    "reference",
    "report",
    "ground_truth",
    "findings",
    "text",
    "gt",
    "gts",
    "caption",
)
REPORT_COLUMNS = (
    "hypothesis",
    "report",
    "prediction",
    "generated",
    "text",
    "model_prediction",
    "pred",
    "res",
    "caption",
)
TEXT_COLUMNS = tuple(dict.fromkeys(REFERENCE_COLUMNS + REPORT_COLUMNS))
#: Column name for a file that holds only texts.
ONLY_COLUMN = "the only column"
#: The end of messages about an unknown form.
FORMS = "docs/evaluation.md lists the accepted formats"


def read_json_table(path: Path) -> SourceTable:
    """Read a JSON file in any form that :func:`table_of` knows."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) < len(pairs):
            repeated = Counter(name for name, _ in pairs).most_common(1)[0][0]
            raise DataError(f"{path} contains the id {repeated} more than once")
        return content

    try:
        content = read_json(path, object_pairs_hook=once)
    except DataError as error:
        hint = "; name JSON lines .jsonl" if "Extra data" in str(error) else ""
        raise DataError(f"{error}{hint}") from None
    return table_of(path, content)


def table_of(path: Path, content: Any) -> SourceTable:
    """Return the table of the content of a JSON file, or of a mapping or sequence; a list of one
    element is treated as this element."""
    if isinstance(content, Mapping):
        content = _objects(path, content)
    elif not isinstance(content, Sequence) or isinstance(content, str):
        content = [content]
    elif content and all(isinstance(row, list) and len(row) == len(content[0]) for row in content):
        if len(content[0]) == 1:
            content = [{ONLY_COLUMN: row[0]} for row in content]
        else:
            header = list(map(str, content[0]))
            content = [dict(zip(header, row, strict=True)) for row in content[1:]]
    elif all(isinstance(plain(text), str | None) for text in content):
        content = [{ONLY_COLUMN: text} for text in content]
    for row in content:
        if not isinstance(row, Mapping):
            raise DataError(
                f"{path} must be an object mapping ids to reports, a list of objects, or lists of "
                f"equal length; got {shown(row)}; {FORMS}"
            )
    names = list(dict.fromkeys(name for row in content for name in row))
    rows = [tuple(map(row.get, names)) for row in content]
    return SourceTable(path, "json", names, range(1, len(rows) + 1), rows)


def _objects(path: Path, content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of an object: of objects by id, of columns, or of texts by id."""
    if any(hasattr(value, "with_format") for value in content.values()):
        raise DataError(
            f"{path} has several splits; pass one of them, such as {shown_columns(list(content))}"
        )
    values: list[Any] = [
        list(value) if hasattr(value, "to_list") else value for value in content.values()
    ]
    content = dict(zip(content, values, strict=True))
    names = {str(key).lower() for key in content}
    annotations = content.get("annotations")
    if isinstance(annotations, list) and all(isinstance(row, Mapping) for row in annotations):
        # COCO's format, in which "id" is that of the caption
        columns_of_coco = ("image_id", "caption")
        return [{name: row[name] for name in columns_of_coco if name in row} for row in annotations]
    if values and all(isinstance(value, Mapping) for value in values):
        inner = list(values[0])
        if names & {*TEXT_COLUMNS} and all(list(value) == inner for value in values):
            lists = {name: list(column.values()) for name, column in content.items()}
            columns = with_index(lists, inner, [None], str(path), ID_COLUMNS)
            return _rows_of(columns.keys(), columns.values())
        key = "key" if any("id" in value for value in values) else "id"
        return [{key: id, **value} for id, value in content.items()]
    if all(isinstance(value, list) for value in values) and names & {*TEXT_COLUMNS, *ID_COLUMNS}:
        if len(set(map(len, values))) > 1:
            raise DataError(f"{path}: its lists are read as columns, and must have the same length")
        return _rows_of(content, values)
    return [{"id": id, "text": text} for id, text in content.items()]


def _rows_of(names: Iterable[str], columns: Iterable[Sequence[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def plain(value: Any) -> Any:
    """Convert a value of numpy or pandas to one of Python, and a list of one element to this
    element; None for a missing value."""
    value = value.tolist() if isinstance(value, np.generic | np.ndarray) else value
    value = value.to_list() if isinstance(value, pl.Series) else value
    value = value[0] if isinstance(value, list) and len(value) == 1 else value
    is_nan = isinstance(value, float) and value != value
    return None if is_nan or type(value).__name__ in ("NAType", "NaTType") else value


def with_index(
    columns: Mapping[str, Sequence[Any]],
    index: list[Any],
    names: list[Any],
    name: str,
    ids: Collection[str],
) -> Mapping[str, Sequence[Any]]:
    """Return columns, with an index as a further column: under its name if that is one of ``ids``,
    else as ``id`` if no column has ids. An index that only numbers the rows, and has no name, is
    left out."""
    if len(names) > 1:
        raise DataError(f"{name}: its index has several levels; pass frame.reset_index()")
    level = str(names[0])
    if level in columns and index != columns[level]:
        raise DataError(
            f"{name}: {level} is both a column and an index; drop the index: "
            "frame.reset_index(drop=True)"
        )
    if level.strip().lower() in ids:
        return {level: index, **columns}
    has_ids = any(column.strip().lower() in ids for column in columns)
    is_numbering = names == [None] and list(map(str, index)) == list(map(str, range(len(index))))
    return columns if has_ids or is_numbering else {"id": index, **columns}
