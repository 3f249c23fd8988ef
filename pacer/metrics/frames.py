"""Frames and series in Python, of pandas, polars, pyarrow and Hugging Face, as columns; none of them is imported."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import polars as pl

from pacer.core.errors import DataError

#: Name of the column of a series, and that of ids in an index without a name.
TEXT, ID = "text", "id"
#: How the row numbers of a frame become ids.
NAME_INDEX = ' (pandas: an unnamed index 0, 1, 2, … only numbers the rows; as ids, name it: frame.index.name = "id")'


def columns_of(content: Any, name: str, ids: Collection[str]) -> Mapping[str, Sequence[Any]] | None:
    """Return the columns of a frame, with its index where that holds ids; None if it is no frame.

    Args:
        name: of the frame, for messages. ids: names of columns of ids, in small letters.

    Raises:
        DataError: the frame has to be changed before it can be read; the message has the call.
    """
    if isinstance(content, pl.LazyFrame):
        content = content.collect()
    # a data set of Hugging Face, not several by split; as arrow, which does not decode its images
    if hasattr(content, "with_format") and not isinstance(content, Mapping):
        if not hasattr(content, "__len__"):
            raise DataError(f"{name}: a streaming dataset has no length and cannot be indexed; pass list(dataset)")
        content = content.with_format("arrow")[:]
    if hasattr(content, "column_names") and hasattr(content, "to_pydict"):  # a table of pyarrow
        content = pl.DataFrame(pl.from_arrow(content))
    if hasattr(content, "to_frame") and not hasattr(content, "columns"):  # a series
        content = content.to_frame(TEXT)
    if not hasattr(content, "columns"):
        return None
    if len(set(map(str, content.columns))) < len(content.columns):
        raise DataError(f"{name} has duplicate column names")
    columns = {str(column): list(content[column]) for column in content.columns}
    index = getattr(content, "index", None)
    if index is None:
        return columns
    return with_index(columns, list(index), [*getattr(index, "names", [None])], name, ids)


def with_index(
    columns: Mapping[str, Sequence[Any]], index: list[Any], names: list[Any], name: str, ids: Collection[str]
) -> Mapping[str, Sequence[Any]]:
    """Return columns with the levels of an index that have ``names``. A single level of any other name than ``ids``, or
    of none, becomes the column :data:`ID` if no column has ids; without a name, not if it just numbers the rows."""
    if len(names) > 1 and None in names:
        raise DataError(
            f'{name}: some index levels have no names; name them: frame.index.names = ["study_id", "view"], or drop '
            "the index: frame.reset_index(drop=True)"
        )
    known = any(column.strip().lower() in ids for column in columns)
    is_numbering = names == [None] and [str(key) for key in index] == [str(row) for row in range(len(index))]
    if len(names) == 1 and not known and not is_numbering and str(names[0]).strip().lower() not in ids:
        return {ID: index, **columns}
    if names == [None]:
        return dict(columns)
    if len(names) == 1 and index == columns.get(str(names[0])):
        return columns  # set_index(..., drop=False)
    if taken := [level for level in map(str, names) if level in columns]:
        raise DataError(
            f"{name}: {taken[0]} is both a column and an index level; drop the index: frame.reset_index(drop=True)"
        )
    levels = zip(*index, strict=True) if len(names) > 1 else [index]
    return {str(level): list(values) for level, values in zip(names, levels, strict=True)} | dict(columns)
