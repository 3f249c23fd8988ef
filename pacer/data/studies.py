"""The one frame that every reader gives: a row per examination, with the sources that it has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, NamedTuple, get_args, get_type_hints

import polars as pl

from pacer.core.contexts import CONTEXTS, availability
from pacer.core.errors import DataError

#: Studies that are held as tuples at a time.
_BATCH = 4096


class Study(NamedTuple):
    """A row of the frame. Texts stand as they are, None for what is absent."""

    file: str
    row: str  # as in problems.csv
    id: str  # unique in each of its contexts
    contexts: tuple[str, ...]  # those that it gives a record in, in the order of CONTEXTS
    split: str
    study_id: str
    subject_id: str
    view: str  # AP | PA | other
    frontal: str  # paths below the folder of the images
    lateral: str | None = None
    findings: str | None = None
    impression: str | None = None
    prior_findings: str | None = None
    prior_impression: str | None = None
    prior_study_id: str | None = None  # this and the next four: None where the input gives the text alone
    gap_days: float | None = None
    rule: str | None = None
    tied: bool | None = None
    passed_over: int | None = None
    indication: str | None = None
    history: str | None = None
    emphasis: list[float] | None = None  # of the tokens of the cleaned findings and impression, BOS first
    rows: int = 1  # rows of the input that it is made of


_KINDS: dict[Any, pl.DataType] = {
    str: pl.String(),
    int: pl.Int64(),
    float: pl.Float64(),
    bool: pl.Boolean(),
    tuple[str, ...]: pl.List(pl.String()),
    list[float]: pl.List(pl.Float32()),
}
#: The columns of the frame: the fields of :class:`Study`.
STUDY_SCHEMA: dict[str, pl.DataType] = {
    name: _KINDS.get(kind) or _KINDS[get_args(kind)[0]] for name, kind in get_type_hints(Study).items()
}


def study_frame(studies: Iterable[Study]) -> pl.DataFrame:
    """Studies as a frame, in their order."""
    remaining, frames = iter(studies), [pl.DataFrame(schema=STUDY_SCHEMA)]
    while batch := list(islice(remaining, _BATCH)):
        frames.append(pl.DataFrame(batch, STUDY_SCHEMA, orient="row"))
    return pl.concat(frames)


def contexts_of(lateral: pl.Expr, prior: pl.Expr) -> pl.Expr:
    """The contexts that the sources allow, as a list in the order of :data:`~pacer.core.contexts.CONTEXTS`."""
    allowed = []
    for context in CONTEXTS:
        needs_lateral, needs_prior = availability(context)
        sources = (lateral | pl.lit(not needs_lateral)) & (prior | pl.lit(not needs_prior))
        allowed.append(pl.when(sources).then(pl.lit(context)))
    return pl.concat_list(allowed).list.drop_nulls()


def mapped(column: str, function: Callable[[Any], Any], kind: Any = pl.String) -> pl.Expr:
    """What a function makes of each value of a column; null of null."""

    def each(values: pl.Series) -> pl.Series:
        return pl.Series(values.name, [None if value is None else function(value) for value in values], kind)

    return pl.col(column).map_batches(each, return_dtype=kind)


def check_roles(files: Mapping[str, Any], *needed: str) -> None:
    """Make sure that a source describes the files that a reader needs.

    Raises:
        DataError: a role is missing.
    """
    missing = [role for role in needed if role not in files]
    if missing:
        raise DataError(f"the source of this corpus describes no file for {', '.join(missing)}; make the source again")
