"""The user's numbers by record, next to the scores: columns of a file, and functions of references
and reports.

Numbers become scores, in tables and comparisons too; the texts of a file become groups.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points, packages_distributions, version
from inspect import signature
from pathlib import Path
from traceback import extract_tb
from typing import Any

import numpy as np
import polars as pl

from pacer.core.errors import ConfigError, DataError
from pacer.metrics.options import Function

#: Endings that mark the columns of controls.
_OF_CONTROLS = ("_hypothesis", "_labels", "_unchanged")
#: Names of parameters for references and for generated texts: ``gts``, ``y_true``, ``cands``.
_REFERENCES = re.compile(r"(?:^|_)(?:ref|gt|gold|ground|target|truth|true|label|source|orig)")
_GENERATED = re.compile(r"(?:^|_)(?:cand|completion|gen|hyp|output|pred|response|summar|sys)")
#: The entry points by which an installed package offers metrics.
ENTRY_POINTS = "pacer.scores"


def check_names(names: Sequence[str], taken: Collection[str]) -> None:
    """Raise a :class:`DataError` if a column or metric of the user, or the count of its values, has
    no name, that of another one or one that is ``taken``."""
    for place, name in enumerate(names):
        others = {*taken, *names[:place], *names[place + 1 :]}
        if others & {name, count_of(name)} or not name.strip() or name.endswith(_OF_CONTROLS):
            raise DataError(
                f"rename your column or metric {name!r}: the name must not be empty, and neither "
                f"it nor {count_of(name)} (the number of its values) may be the name of a score, "
                "an id or a cases.parquet column"
            )


def metrics_of(given: Mapping[str, Function] | Iterable[str]) -> dict[str, Function]:
    """Return functions by name; those that are only named are ``module:function``, or one of the
    :data:`ENTRY_POINTS` of installed packages. Raises a ConfigError if no package offers a metric
    of this name, or it cannot be imported."""
    if isinstance(given, Mapping):
        return dict(given)
    offered = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    functions: dict[str, Function] = {}
    for name in [given] if isinstance(given, str) else given:
        if re.fullmatch(r"[\w.]+:[\w.]+", name):
            offered[name] = EntryPoint(name, name, ENTRY_POINTS)
        if name not in offered:
            known = ", ".join(offered) or "none"
            raise ConfigError(
                f"metrics: {name} is unknown; expected module:function, or an entry point of an "
                f"installed package in group {ENTRY_POINTS} (installed: {known})"
            )
        try:
            functions[name] = offered[name].load()
        except Exception as error:  # the user's module may fail in any way
            raise ConfigError(
                f"metrics: {name} ({offered[name].value}) cannot be imported: "
                f"{type(error).__name__}: {error}"
            ) from None
        if not callable(functions[name]):
            raise ConfigError(f"metrics: {name} is no function, but {type(functions[name])}")
    return functions


def _origin(function: Function) -> str:
    """Return where a function is defined: its module, and the installed package that this is of,
    with its version."""
    module = getattr(function, "__module__", None) or type(function).__module__
    packages = packages_distributions().get(module.partition(".")[0], [])
    name = f"{module}:{getattr(function, '__qualname__', type(function).__qualname__)}"
    return " of ".join([name, *(f"{package} {version(package)}" for package in packages[:1])])


def _arguments(
    name: str, function: Function, references: list[str], reports: list[str]
) -> tuple[tuple[list[str], ...], dict[str, list[str]]]:
    """Return the arguments of a metric, positional and named. The names of its parameters tell
    which takes the references and which the reports; otherwise the references come first. Raises a
    ConfigError if both are named as one of the two, or something else is needed."""
    try:
        parameters = signature(function).parameters.values()
    except (TypeError, ValueError):  # of a function in C
        return (references, reports), {}
    known = [one for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    needed = [one.name for one in known if one.default is one.empty]
    names = needed if len(needed) > 1 else [one.name for one in known]
    of_references = [key for key in names if _REFERENCES.search(key)]
    of_reports = [key for key in names if _GENERATED.search(key) and key not in of_references]
    if len(names) < 2:  # of *texts, or of completions and **columns
        if of_reports:
            return (), {of_reports[0]: reports, "references": references}
        return (references, reports), {}
    others = [key for key in names if key not in {*of_references, *of_reports}]
    first = of_references or others[:1]
    second = of_reports or [key for key in others if key not in first]
    if not first or not second or {*needed} - {first[0], second[0]}:
        raise ConfigError(
            f"metrics: {name} takes {', '.join(names)}; expected two parameters, for the "
            "references and for the reports; name them references and texts"
        )
    given = {first[0]: references, second[0]: reports}
    places = [one.name for one in known if one.kind is one.POSITIONAL_ONLY and one.name in given]
    return tuple(given.pop(key) for key in places), given


def metric_columns(
    metrics: Mapping[str, Function], cases: pl.DataFrame
) -> tuple[list[pl.Series], dict[str, str]]:
    """Return the numbers of each metric for ``cases``, which have ``record_id``, ``reference`` and
    ``hypothesis``; and what it means and where it is defined, by name. Raises a DataError if a
    function fails, or returns anything but one finite number for each pair. The message has no text
    of a report."""
    columns: list[pl.Series] = []
    meanings: dict[str, str] = {}
    for name, function in metrics.items():
        origin = _origin(function)
        texts = cases["reference"].to_list(), cases["hypothesis"].to_list()
        positional, named = _arguments(name, function, *texts)
        where = f"metrics: {name} ({origin})"
        meanings[name] = f"mean of your score, {origin}"
        try:
            values = function(*positional, **named)
        except Exception as error:  # its message could hold a report
            file, line, *_ = extract_tb(error.__traceback__)[:2][-1]
            place = f"{type(error).__name__} ({Path(file).name}, line {line})"
            raise DataError(
                f"{where} raised {place}; it is called once with two lists of strings"
            ) from None
        try:
            numbers = np.asarray(values)
            returned = f"{type(values).__name__}, {numbers.dtype}, of shape {numbers.shape}"
        except Exception:  # of a library, which numpy cannot read
            numbers = np.array(None)
            returned = _described(values)
        if numbers.shape != (len(cases),) or numbers.dtype.kind not in "biuf":
            raise DataError(
                f"{where}: expected {len(cases)} numbers, one for each pair of reports, got "
                f"{returned}"
            )
        bad = np.flatnonzero(~np.isfinite(numbers))
        if len(bad):
            record = cases["record_id"][int(bad[0])]
            raise DataError(
                f"{where}: expected a finite number for each pair of reports, got "
                f"{numbers[bad[0]]} for {record}"
            )
        columns.append(pl.Series(name, numbers.astype(float)))
    return columns, meanings


def _described(values: Any) -> str:
    """Describe what numpy cannot read, without its content: a tuple of several results, or a tensor
    of a type that numpy does not have, or with a gradient."""
    name = type(values).__name__
    if isinstance(values, list | tuple):
        parts = list(dict.fromkeys(type(part).__name__ for part in values))
        return f"{name} of {len(values)} ({', '.join(parts)})"
    if getattr(values, "requires_grad", False):
        return f"{name} with a gradient; return values.detach().tolist()"
    if hasattr(values, "dtype"):
        return f"{name}, {values.dtype}; return values.tolist()"
    return name


def column_scores(columns: pl.DataFrame) -> dict[str, float | None]:
    """Return the mean of each numeric column over the records that have a value, and their number
    as ``{name}_n``."""
    scores: dict[str, float | None] = {}
    for name in names_by_kind(columns)["scores"]:
        numbers = columns[name].drop_nulls().to_numpy()
        scores[name] = float(numbers.mean()) if len(numbers) else None
        scores[count_of(name)] = len(numbers)
    return scores


def count_of(name: str) -> str:
    """Return the key of the number of records that have a value in a column."""
    return f"{name}_n"


def names_by_kind(columns: pl.DataFrame) -> dict[str, list[str]]:
    """Return the names of the columns that are ``scores`` and of those that are ``groups``."""
    scores = [column.name for column in columns if column.dtype.is_numeric()]
    return {"scores": scores, "groups": [name for name in columns.columns if name not in scores]}
