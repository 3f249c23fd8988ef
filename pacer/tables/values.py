"""Values of users' files: column functions, MIMIC's ids, and safe display in messages."""

from collections.abc import Callable
from typing import Any

import polars as pl

#: Subject and study in MIMIC-CXR's paths, also as Windows writes them.
MIMIC_PATH = r"(?:^|[/\\])p(\d+)[/\\]s(\d+)[/\\]"


def mapped(column: str, function: Callable[[Any], Any], kind: Any = pl.String) -> pl.Expr:
    """Apply a function to each value of a column; null stays null."""

    def each(values: pl.Series) -> pl.Series:
        return pl.Series(
            values.name, [None if value is None else function(value) for value in values], kind
        )

    return pl.col(column).map_batches(each, return_dtype=kind)


def bare_id(column: str) -> pl.Expr:
    """Remove MIMIC's letter from a subject or study id: ``s50414267`` becomes ``50414267``; other
    ids are unchanged."""
    return pl.col(column).str.replace(r"^[ps](\d+)$", "$1")


def shown(value: Any) -> str:
    """Describe a value for an error message: numbers are shown, the content of text is not."""
    if isinstance(value, str):
        return f"text of {len(value)} characters" if value.strip() else "blank text"
    if isinstance(value, int | float | None):
        return repr(value)
    if isinstance(value, list):
        return f"a list of length {len(value)}"
    return "an object" if isinstance(value, dict) else f"a {type(value).__name__}"


def quoted(value: str, longest: int = 40, words: int = 3) -> str:
    """Return an id, date, view, split, path or column name for a message; hide a long one, which
    may be report text."""
    if len(value) > longest or len(value.split()) > words:
        return f"text of {len(value)} characters"
    return value if value.isprintable() else ascii(value)[1:-1]
