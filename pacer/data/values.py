"""Values of a user's files: a function over a column, MIMIC's ids, and how much of a value a message may show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

#: How MIMIC-CXR's paths name subject and study.
MIMIC_PATH = r"(?:^|/)p(\d+)/s(\d+)/"


def mapped(column: str, function: Callable[[Any], Any], kind: Any = pl.String) -> pl.Expr:
    """What a function makes of each value of a column; null of null."""

    def each(values: pl.Series) -> pl.Series:
        return pl.Series(values.name, [None if value is None else function(value) for value in values], kind)

    return pl.col(column).map_batches(each, return_dtype=kind)


def bare_id(column: str) -> pl.Expr:
    """A subject or study id without MIMIC's letter: ``s50414267`` is ``50414267``; other ids stay as they are."""
    return pl.col(column).str.replace(r"^[ps](\d+)$", "$1")


def shown(value: Any) -> str:
    """What arrived, for an error, without its content: numbers are shown, text is not."""
    if isinstance(value, str):
        return "blank text" if not value.strip() else f"text of {len(value)} characters"
    if isinstance(value, bool | float | None):
        return repr(value)
    if isinstance(value, int):
        return repr(value) if abs(value) < 10**20 else "a number of more than 20 digits"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return "an object" if isinstance(value, dict) else f"a {type(value).__name__}"


def quoted(value: str, longest: int = 40, words: int = 3) -> str:
    """An id, date, view, split, path or column name as a message may show it: a longer one could be report text."""
    if len(value) > longest or len(value.split()) > words:
        return f"text of {len(value)} characters"
    return value if value.isprintable() else ascii(value)[1:-1]
