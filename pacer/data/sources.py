"""A table from any source: a file, or a frame, mapping or list in memory.

Of the packages of frames and series, pandas, polars, pyarrow and Hugging Face's, only polars is
imported.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from pacer.core.errors import DataError
from pacer.core.io import read_json
from pacer.data.tables import Table, open_table
from pacer.data.values import shown

#: Names of columns of ids, in any case; the first one that a table has is used.
ID_COLUMNS = ("probe_id", "record_id", "id", "study_id", "image_id", "ids", "case")
#: Column name for a file that holds only texts.
ALONE = "the only column"
#: Column names that messages may show; anything else could be report text.
_NAME = re.compile(r"(?=.{1,50}\Z)[\w-]+( [\w-]+)?")
#: The last words of messages about a form that is not known.
FORMS = "docs/evaluation.md lists the accepted formats"
#: References or hypotheses: the path of a file, or one of the forms in Python.
Source = str | Path | Table | Mapping[str, Any] | Sequence[Any] | pl.DataFrame | Any
#: How the row numbers of a frame become ids.
NAME_INDEX = (
    " (pandas: an unnamed index 0, 1, 2, … only numbers the rows; for ids, name it: "
    'frame.index.name = "id")'
)


def open_source(
    source: Source, name: str, texts: Collection[str], ids: Collection[str] = ID_COLUMNS
) -> Table:
    """Read a file, whose suffix determines the format, or an object in memory, which messages call
    ``name``; a table that was read is returned. ``texts``, ``ids``: names of columns of texts and
    ids, in small letters, by which the form of an object is told."""
    if isinstance(source, Table):
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
    if (blank := (None,) * len(table.columns)) in table.rows and table.kind == "csv":
        place = table.places[table.rows.index(blank)]
        raise DataError(f'{path}, {place}: blank line; remove it, or write "" for an empty report')
    return table if table.kind == "csv" else _with_plain_values(table)


def _with_plain_values(table: Table) -> Table:
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
        raise DataError(
            f"{error}; name JSON lines .jsonl" if "Extra data" in str(error) else str(error)
        ) from None


def _table_of(
    path: Path, content: Any, texts: Collection[str], ids: Collection[str] = ID_COLUMNS
) -> Table:
    """Return the table of JSON or a Python object, in a form named above; a list of one element
    stands for it."""
    columns = _columns_of(content, str(path), ids)
    if columns is not None:
        rows = list(zip(*columns.values(), strict=True))
        return Table(path, "parquet", list(columns), range(1, len(rows) + 1), rows)
    if isinstance(content, np.ndarray):
        content = content.tolist()
    if isinstance(content, Mapping):
        content = _objects(path, content, texts)
    elif not isinstance(content, Sequence) or isinstance(content, str):
        content = [content]
    elif content and all(isinstance(row, list) and len(row) == len(content[0]) for row in content):
        header = [ALONE] if len(content[0]) == 1 else list(map(str, content[0]))
        content = [dict(zip(header, row, strict=True)) for row in content[len(header) > 1 :]]
    elif all(isinstance(_plain(text), str | None) for text in content):
        content = [{ALONE: text} for text in content]
    if odd := [row for row in content if not isinstance(row, Mapping)]:
        raise DataError(
            f"{path} must be an object mapping ids to reports, a list of objects, or lists of "
            f"equal length; got {shown(odd[0])}; {FORMS}"
        )
    names = list(dict.fromkeys(name for row in content for name in row))
    rows = [tuple(map(row.get, names)) for row in content]
    return Table(path, "json", names, range(1, len(rows) + 1), rows)


def _objects(
    path: Path, content: Mapping[str, Any], texts: Collection[str]
) -> list[dict[str, Any]]:
    """Return the rows of an object: of objects by id, of columns, or of texts by id."""
    if any(hasattr(value, "with_format") for value in content.values()):
        raise DataError(
            f"{path} has several splits; pass one of them, such as {shown_names([*content])}"
        )
    values: list[Any] = [
        list(value) if hasattr(value, "to_list") else value for value in content.values()
    ]
    content = dict(zip(content, values, strict=True))
    names = {str(key).lower() for key in content}
    if isinstance(content.get("annotations"), list) and all(
        isinstance(row, Mapping) for row in content["annotations"]
    ):
        # of COCO, whose "id" is the caption's
        return [
            {key: row[key] for key in ("image_id", "caption") if key in row}
            for row in content["annotations"]
        ]
    if values and all(isinstance(value, Mapping) for value in values):
        inner = [*values[0]]
        if names & {*texts} and all([*value] == inner for value in values):
            lists = {name: list(column.values()) for name, column in content.items()}
            columns = _with_index(lists, inner, [None], str(path), ID_COLUMNS)
            return [
                dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
            ]
        key = "key" if any("id" in value for value in values) else "id"
        return [{key: id, **value} for id, value in content.items()]
    if all(isinstance(value, list) for value in values) and names & {*texts, *ID_COLUMNS}:
        if len(set(map(len, values))) > 1:
            raise DataError(f"{path}: its lists are read as columns, and must have the same length")
        return [dict(zip(content, row, strict=True)) for row in zip(*values, strict=True)]
    return [{"id": id, "text": text} for id, text in content.items()]


def _plain(value: Any) -> Any:
    """Return a value without a type of numpy or pandas, the element of a list of one; None for a
    missing value."""
    value = value.tolist() if isinstance(value, np.generic | np.ndarray) else value
    value = value.to_list() if isinstance(value, pl.Series) else value
    value = value[0] if isinstance(value, list) and len(value) == 1 else value
    is_nan = isinstance(value, float) and value != value
    return None if is_nan or type(value).__name__ in ("NAType", "NaTType") else value


def _columns_of(
    content: Any, name: str, ids: Collection[str]
) -> Mapping[str, Sequence[Any]] | None:
    """Return the columns of a frame, with its index where that holds ids; None if it is no frame.
    ``name``: of the frame, for messages; ``ids``: names of columns of ids, in small letters. Raises
    a DataError, which has the call, if the frame has to be changed before it can be read."""
    if isinstance(content, pl.LazyFrame):
        content = content.collect()
    # a data set of Hugging Face, not several by split; as arrow, which does not decode its images
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
    return _with_index(columns, list(index), [*getattr(index, "names", [None])], name, ids)


def _with_index(
    columns: Mapping[str, Sequence[Any]],
    index: list[Any],
    names: list[Any],
    name: str,
    ids: Collection[str],
) -> Mapping[str, Sequence[Any]]:
    """Return columns with the levels of an index that have ``names``. A single level of any other
    name than ``ids``, or of none, becomes the column ``id`` if no column has ids; without a name,
    not if it just numbers the rows."""
    if len(names) > 1 and None in names:
        raise DataError(
            f"{name}: some index levels have no names; name them: frame.index.names = "
            f'["study_id", "view"], or drop '
            "the index: frame.reset_index(drop=True)"
        )
    known = any(column.strip().lower() in ids for column in columns)
    is_numbering = names == [None] and [str(key) for key in index] == [
        str(row) for row in range(len(index))
    ]
    if (
        len(names) == 1
        and not known
        and not is_numbering
        and str(names[0]).strip().lower() not in ids
    ):
        return {"id": index, **columns}
    if names == [None]:
        return dict(columns)
    if len(names) == 1 and index == columns.get(str(names[0])):
        return columns  # set_index(..., drop=False)
    if taken := [level for level in map(str, names) if level in columns]:
        raise DataError(
            f"{name}: {taken[0]} is both a column and an index level; drop the index: "
            "frame.reset_index(drop=True)"
        )
    levels = zip(*index, strict=True) if len(names) > 1 else [index]
    return {str(level): list(values) for level, values in zip(names, levels, strict=True)} | dict(
        columns
    )


def shown_names(names: Sequence[str]) -> str:
    """List names of columns for a message, without those that could be report text."""
    return ", ".join(
        name if _NAME.fullmatch(name) else "a text" if name.strip() else "one unnamed"
        for name in names
    )
