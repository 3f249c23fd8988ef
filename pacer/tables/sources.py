"""A table from any source: a file, or a frame, mapping or list in memory.

Frames and series can be those of pandas, polars, pyarrow and Hugging Face; only polars is imported.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from pacer.core.errors import DataError
from pacer.core.io import read_json
from pacer.tables.files import SourceTable, open_table
from pacer.tables.values import shown

#: Names of columns of ids, in any case; the first one that a table has is used.
ID_COLUMNS = ("probe_id", "record_id", "id", "study_id", "image_id", "ids", "case")
#: Column name for a file that holds only texts.
ONLY_COLUMN = "the only column"
#: Column names that messages may show; anything else could be report text.
_NAME = re.compile(r"(?=.{1,50}\Z)[\w-]+( [\w-]+)?")
#: The end of messages about an unknown form.
FORMS = "docs/evaluation.md lists the accepted formats"
#: References or hypotheses: the path of a file, or one of the forms in Python.
Source = str | Path | SourceTable | Mapping[str, Any] | Sequence[Any] | pl.DataFrame | Any
#: How the row numbers of a frame become ids.
NAME_INDEX = (
    " (pandas: an unnamed index 0, 1, 2, … only numbers the rows; for ids, name it: "
    'frame.index.name = "id")'
)


def open_source(
    source: Source, name: str, texts: Collection[str], ids: Collection[str] = ID_COLUMNS
) -> SourceTable:
    """Read a file, whose suffix determines the format, or an object in memory, which messages call
    ``name``; a table that was read is returned. ``texts``, ``ids``: names of columns of texts and
    ids, in small letters, by which the form of an object is recognised."""
    if isinstance(source, SourceTable):
        return source
    if not isinstance(source, str | Path):
        return _with_plain_values(_table_of(Path(name), source, texts, ids))
    path = Path(source)
    if path.is_dir():
        raise DataError(
            f"{path} is a folder; `pacer score-run --predictions` scores a folder of predictions"
        )
    if path.name.lower().endswith((".json", ".json.gz")):
        return _with_plain_values(_table_of(path, _read_json(path), texts))
    table = open_table(path)
    if table.kind != "csv":
        return _with_plain_values(table)
    for place, row in zip(table.places, table.rows, strict=True):
        if all(cell is None for cell in row):
            raise DataError(
                f'{path}, {place}: blank line; remove it, or write "" for an empty report'
            )
    return table


def _with_plain_values(table: SourceTable) -> SourceTable:
    return table._replace(rows=[tuple(map(_plain, row)) for row in table.rows])


def _read_json(path: Path) -> Any:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) < len(pairs):
            repeated = Counter(name for name, _ in pairs).most_common(1)[0][0]
            raise DataError(f"{path} contains the id {repeated} more than once")
        return content

    try:
        return read_json(path, object_pairs_hook=once)
    except DataError as error:
        hint = "; name JSON lines .jsonl" if "Extra data" in str(error) else ""
        raise DataError(f"{error}{hint}") from None


def _table_of(
    path: Path, content: Any, texts: Collection[str], ids: Collection[str] = ID_COLUMNS
) -> SourceTable:
    """Return the table of JSON or a Python object; a list of one element is treated as this
    element."""
    columns = _columns_of(content, str(path), ids)
    if columns is not None:
        rows = list(zip(*columns.values(), strict=True))
        return SourceTable(path, "parquet", list(columns), range(1, len(rows) + 1), rows)
    if isinstance(content, np.ndarray):
        content = content.tolist()
    if isinstance(content, Mapping):
        content = _objects(path, content, texts)
    elif not isinstance(content, Sequence) or isinstance(content, str):
        content = [content]
    elif content and all(isinstance(row, list) and len(row) == len(content[0]) for row in content):
        if len(content[0]) == 1:
            content = [{ONLY_COLUMN: row[0]} for row in content]
        else:
            header = list(map(str, content[0]))
            content = [dict(zip(header, row, strict=True)) for row in content[1:]]
    elif all(isinstance(_plain(text), str | None) for text in content):
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


def _objects(
    path: Path, content: Mapping[str, Any], texts: Collection[str]
) -> list[dict[str, Any]]:
    """Return the rows of an object: of objects by id, of columns, or of texts by id."""
    if any(hasattr(value, "with_format") for value in content.values()):
        raise DataError(
            f"{path} has several splits; pass one of them, such as {shown_names(list(content))}"
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
        if names & set(texts) and all(list(value) == inner for value in values):
            lists = {name: list(column.values()) for name, column in content.items()}
            columns = _with_index(lists, inner, [None], str(path), ID_COLUMNS)
            return _rows_of(columns.keys(), columns.values())
        key = "key" if any("id" in value for value in values) else "id"
        return [{key: id, **value} for id, value in content.items()]
    if all(isinstance(value, list) for value in values) and names & {*texts, *ID_COLUMNS}:
        if len(set(map(len, values))) > 1:
            raise DataError(f"{path}: its lists are read as columns, and must have the same length")
        return _rows_of(content, values)
    return [{"id": id, "text": text} for id, text in content.items()]


def _rows_of(names: Iterable[str], columns: Iterable[Sequence[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _plain(value: Any) -> Any:
    """Convert a value of numpy or pandas to one of Python, and a list of one element to this
    element; None for a missing value."""
    value = value.tolist() if isinstance(value, np.generic | np.ndarray) else value
    value = value.to_list() if isinstance(value, pl.Series) else value
    value = value[0] if isinstance(value, list) and len(value) == 1 else value
    is_nan = isinstance(value, float) and value != value
    return None if is_nan or type(value).__name__ in ("NAType", "NaTType") else value


def _columns_of(
    content: Any, name: str, ids: Collection[str]
) -> Mapping[str, Sequence[Any]] | None:
    """Return the columns of a frame, with its index if that holds ids; None if it is not a frame.
    ``name``: name of the frame, for messages; ``ids``: names of columns of ids, in small letters.
    Raises a DataError, which contains the call to make, if the frame has to be changed first."""
    if isinstance(content, pl.LazyFrame):
        content = content.collect()
    # a single data set of Hugging Face; its arrow format does not decode images
    if hasattr(content, "with_format") and not isinstance(content, Mapping):
        if not hasattr(content, "__len__"):
            raise DataError(
                f"{name}: a streaming dataset has no length and cannot be indexed; pass "
                "list(dataset)"
            )
        content = content.with_format("arrow")[:]
    if hasattr(content, "column_names") and hasattr(content, "to_pydict"):  # a table of pyarrow
        content = pl.DataFrame(pl.from_arrow(content))
    if hasattr(content, "to_frame") and not hasattr(content, "columns"):  # a series
        content = content.to_frame("text")
    if not hasattr(content, "columns"):
        return None
    if len(set(map(str, content.columns))) < len(content.columns):
        raise DataError(f"{name} has duplicate column names")
    columns = {str(column): list(content[column]) for column in content.columns}
    index = getattr(content, "index", None)
    if index is None:
        return columns
    return _with_index(columns, list(index), list(getattr(index, "names", [None])), name, ids)


def _with_index(
    columns: Mapping[str, Sequence[Any]],
    index: list[Any],
    names: list[Any],
    name: str,
    ids: Collection[str],
) -> Mapping[str, Sequence[Any]]:
    """Return columns, with the levels of an index as further columns by their ``names``. A single
    level whose name is not one of ``ids`` becomes the column ``id`` if no column has ids, unless it
    has no name and only numbers the rows."""
    if len(names) > 1 and None in names:
        raise DataError(
            f"{name}: some index levels have no names; name them: frame.index.names = "
            '["study_id", "view"], or drop the index: frame.reset_index(drop=True)'
        )
    if len(names) == 1:
        has_ids = any(column.strip().lower() in ids for column in columns)
        is_named_as_ids = str(names[0]).strip().lower() in ids
        is_numbering = names == [None] and [str(key) for key in index] == [
            str(row) for row in range(len(index))
        ]
        if not has_ids and not is_named_as_ids and not is_numbering:
            return {"id": index, **columns}
    if names == [None]:
        return dict(columns)
    if len(names) == 1 and index == columns.get(str(names[0])):
        return columns  # set_index(..., drop=False)
    repeated = [level for level in map(str, names) if level in columns]
    if repeated:
        raise DataError(
            f"{name}: {repeated[0]} is both a column and an index level; drop the index: "
            "frame.reset_index(drop=True)"
        )
    levels = zip(*index, strict=True) if len(names) > 1 else [index]
    return {str(level): list(values) for level, values in zip(names, levels, strict=True)} | dict(
        columns
    )


def shown_names(names: Sequence[str]) -> str:
    """List names of columns for a message, without those that could be report text."""
    return ", ".join(map(_shown_name, names))


def _shown_name(name: str) -> str:
    if not name.strip():
        return "one unnamed"
    return name if _NAME.fullmatch(name) else "a text"
