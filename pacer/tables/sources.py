"""A table from any source: a file, or a frame, mapping or list in memory.

Frames and series can be those of pandas, polars, pyarrow and Hugging Face; only polars is imported.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from pacer.config.corpus import Delimiter
from pacer.core.errors import DataError
from pacer.tables.delimited import CsvForm
from pacer.tables.files import open_table
from pacer.tables.shapes import ID_COLUMNS, plain, table_of, with_index
from pacer.tables.table import SourceTable

#: References or hypotheses: the path of a file, or one of the forms in Python.
Source = str | Path | SourceTable | Mapping[str, Any] | Sequence[Any] | pl.DataFrame | Any
#: How the row numbers of a frame become ids.
NAME_INDEX = (
    " (pandas: an unnamed index 0, 1, 2, … only numbers the rows; for ids, name it: "
    'frame.index.name = "id")'
)


def open_source(
    source: Source,
    name: str,
    ids: Collection[str] = ID_COLUMNS,
    delimiter: Delimiter | None = None,
) -> SourceTable:
    """Read a file, whose suffix determines the format, or an object in memory, which messages call
    ``name``; a table that was read is returned. ``ids``: names of columns of ids, in small letters,
    by which the index of a frame is recognised. ``delimiter``: that of a ``.csv`` file."""
    if isinstance(source, SourceTable):
        return source
    if isinstance(source, str | Path):
        is_tsv = str(source).lower().removesuffix(".gz").endswith(".tsv")
        table = open_table(source, None if is_tsv else CsvForm(delimiter))
    else:
        table = _table_in_memory(Path(name), source, ids)
    if table.kind != "csv":
        return table._replace(rows=[tuple(map(plain, row)) for row in table.rows])
    for place, row in zip(table.places, table.rows, strict=True):
        if all(cell is None for cell in row):
            raise DataError(
                f'{table.path}, {place}: blank line; remove it, or write "" for an empty report'
            )
    return table


def _table_in_memory(path: Path, content: Any, ids: Collection[str]) -> SourceTable:
    columns = _columns_of(content, str(path), ids)
    if columns is None:
        return table_of(path, content.tolist() if isinstance(content, np.ndarray) else content)
    rows = list(zip(*columns.values(), strict=True))
    return SourceTable(path, "parquet", list(columns), range(1, len(rows) + 1), rows)


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
    return with_index(columns, list(index), list(getattr(index, "names", [None])), name, ids)
