"""Frames and series in Python, of pandas, polars, pyarrow and Hugging Face, as columns; none of them is imported."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import polars as pl

from pacer.core.errors import DataError

#: Name of the column of a series, and that of ids in an index without a name.
TEXT, ID = "text", "id"


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
    """Return columns with the levels of an index that have ``names``. An index without a name holds ids if it is not
    just the rows' numbers and no column has ids."""
    if len(names) > 1 and None in names:
        raise DataError(
            f'{name}: some index levels have no names; name them: frame.index.names = ["study_id", "view"], or drop '
            "the index: frame.reset_index(drop=True)"
        )
    if names == [None]:
        is_numbering = [str(key) for key in index] == [str(row) for row in range(len(index))]
        named = any(column.strip().lower() in ids for column in columns)
        return dict(columns) if is_numbering or named else {ID: index, **columns}
    if len(names) == 1 and index == columns.get(str(names[0])):
        return columns  # set_index(..., drop=False)
    if taken := [level for level in map(str, names) if level in columns]:
        raise DataError(
            f"{name}: {taken[0]} is both a column and an index level; drop the index: frame.reset_index(drop=True)"
        )
    levels = zip(*index, strict=True) if len(names) > 1 else [index]
    return {str(level): list(values) for level, values in zip(names, levels, strict=True)} | dict(columns)
