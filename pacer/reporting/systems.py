"""Tables of several scored systems: a row a system and a column a score, and every pair of systems
compared."""

from collections.abc import Mapping
from itertools import combinations
from pathlib import Path

import polars as pl

from pacer.core.io import write_text
from pacer.display.numbers import change_cells, score_cell
from pacer.display.tables import Table, first_cell_changes
from pacer.metrics.cases import row_name
from pacer.metrics.result import Result
from pacer.metrics.scores import SCORE_OF, score_of, scores_at
from pacer.reporting.score_tables import span
from pacer.statistics.comparison import Compared, compare
from pacer.statistics.halves import (
    PERCENT,
    UNITS,
    Difference,
    Interval,
    Intervals,
    holm,
    score_intervals,
)

#: Comparisons by the names of both systems.
Pairs = Mapping[tuple[str, str], Compared]


def read_system(place: Path, convention: str | None) -> Intervals:
    """Return the scores of a folder with their intervals, in the order of the registry; those of
    the main table also without, such as CIDEr. ``convention``: of F1, by default its own."""
    result = Result.read(place, whole=False)
    found = score_intervals(
        result.cases,
        convention or result.convention,
        columns=result.signature.score_columns,
        without=result.signature.left_out,
    )
    main = [score.key for score in scores_at("scores") if score.decimals]
    for context, scores in found.scores.items():
        values = result.scores.get(context, {})
        alone = {key: Interval(values[key], None, None) for key in main if key in values}
        found.scores[context] = dict(sorted((alone | scores).items(), key=_place))
    return found


def _place(item: tuple[str, Interval]) -> int:
    """Return the place of a score in the registry; columns of the user are last."""
    return list(SCORE_OF).index(item[0]) if item[0] in SCORE_OF else len(SCORE_OF)


def compare_pairs(
    places: Mapping[str, Path], convention: str | None, with_first: Pairs | None = None
) -> Pairs:
    """Compare every system with each later one; ``with_first``: comparisons that are known."""
    pairs = dict(with_first or {})
    for first, second in combinations(places, 2):
        if (first, second) not in pairs:
            both = compare(places[first], places[second], convention=convention)
            [pairs[first, second]] = both.others.values()
    return pairs


def system_rows(systems: Mapping[str, Intervals]) -> pl.DataFrame:
    """Return a row for each context and system, with the columns ``KEY``, ``KEY_low`` and
    ``KEY_high`` for each score and its interval; ``context`` only if there are several."""
    rows: list[dict[str, str | float | None]] = []
    for context in _contexts(systems):
        for name, intervals in systems.items():
            rows.append({"context": context, "system": name})
            for key in _keys(systems):
                one = intervals.scores[context].get(key, _NONE)
                rows[-1] |= {key: one.value, f"{key}_low": one.low, f"{key}_high": one.high}
    return _without_one_context(pl.DataFrame(rows, infer_schema_length=None))


def system_table(systems: Mapping[str, Intervals]) -> Table:
    """Return a row for each system: its scores in the only context, or their means over contexts,
    the best in bold, with the intervals below them."""
    keys, contexts = _keys(systems), _contexts(systems)
    rows: list[tuple[str, ...]] = []
    bold = set[tuple[int, int]]()
    for name, intervals in systems.items():
        scores = intervals.scores[contexts[-1]]
        values = (score_cell(scores[key].value) if key in scores else "–" for key in keys)
        rows.append((name, *values))
        rows.append((f"{PERCENT} interval", *(span(scores.get(key)) for key in keys)))
    for column, key in enumerate(keys, start=1):
        values = [one.scores[contexts[-1]].get(key, _NONE).value for one in systems.values()]
        known = [value for value in values if value is not None]
        better = score_of(key).better
        if better and len({*known}) > 1:
            best = max(known) if better == "higher" else min(known)
            bold |= {(2 * at, column) for at, one in enumerate(values) if one == best}
    one = next(iter(systems.values()))
    notes = [
        f"Intervals: {one.resamples:,} random splits of {one.units:,} {UNITS[one.unit]} into "
        "halves. The best value of each column is bold."
    ]
    if len(contexts) > 1:
        names = ", ".join(map(row_name, contexts[:-1]))
        notes.append(f"Means over the contexts {names}; the CSV file has each of them.")
    return Table(
        ("System", *(score_of(key).heading for key in keys)),
        tuple(rows),
        dim_rows=frozenset(range(1, len(rows), 2)),
        bold=frozenset(bold),
        notes=tuple(notes),
    )


def pair_rows(pairs: Pairs) -> pl.DataFrame:
    """Return a row for each pair, context and score: both values, the difference (second minus
    first) with its interval and p, and ``p_holm``, which is corrected for all pairs and scores; it
    is null except in the mean over contexts, or in the only context."""
    corrected = {(pair, key): p for pair, key, _, p in _tested(pairs)}
    rows = [
        {
            "context": context,
            "score": key,
            "first": first,
            "second": second,
            "first_value": one.first,
            "second_value": one.second,
            "units": one.units,
            **{name: getattr(one, name) for name in ("difference", "low", "high", "p")},
            "p_holm": corrected.get(((first, second), key))
            if context == list(comparison.scores)[-1]
            else None,
        }
        for (first, second), comparison in pairs.items()
        for context, scores in comparison.scores.items()
        for key, one in scores.items()
    ]
    return _without_one_context(pl.DataFrame(rows, infer_schema_length=None))


def pair_table(pairs: Pairs, splits: str) -> Table:
    """Return a row for each score and pair, in the mean over contexts or in the only context.
    ``splits``: how the intervals were made."""
    tested = _tested(pairs)
    order = list(dict.fromkeys(key for _, key, *_ in tested))
    rows = [
        (
            score_of(key).heading,
            f"{second} − {first}",
            *(score_cell(value) for value in (one.first, one.second)),
            *change_cells(one, p),
        )
        for (first, second), key, one, p in sorted(tested, key=lambda row: order.index(row[1]))
    ]
    comparison = next(iter(pairs.values()))
    means = "means over contexts; " if len(comparison.scores) > 1 else ""
    notes = [
        f"{splits}; {means}p is corrected for all "
        f"{sum(p is not None for *_, p in tested)} differences (Holm)"
    ]
    heads = ("Score", "Pair", "First", "Second", "Change", f"{PERCENT} interval", "p (Holm)")
    return Table(
        heads, tuple(rows), text_columns=2, rules=first_cell_changes(rows), notes=tuple(notes)
    )


def write_table(path: Path, table: Table, rows: pl.DataFrame) -> None:
    """Write a table as Markdown and LaTeX, and its ``rows`` as CSV; ``path`` has no suffix."""
    for suffix, text in ((".md", table.markdown()), (".tex", table.latex())):
        write_text(path.with_name(path.name + suffix), text)
    write_text(path.with_name(f"{path.name}.csv"), rows.write_csv())


_NONE = Interval(None, None, None)


def _tested(pairs: Pairs) -> list[tuple[tuple[str, str], str, Difference, float | None]]:
    """Return the differences of each pair in the mean over contexts, or in the only context, with
    the corrected p."""
    rows = [
        (pair, key, one)
        for pair, comparison in pairs.items()
        for key, one in list(comparison.scores.values())[-1].items()
    ]
    corrected = holm([one.p for *_, one in rows])
    return [(*row, p) for row, p in zip(rows, corrected, strict=True)]


def _contexts(systems: Mapping[str, Intervals]) -> list[str]:
    """Return the contexts, which compared systems share, and the mean if there are several."""
    return list(next(iter(systems.values())).scores)


def _keys(systems: Mapping[str, Intervals]) -> list[str]:
    """Return the scores of the main table and those by which systems are compared."""
    keys = dict.fromkeys(
        key for one in systems.values() for scores in one.scores.values() for key in scores
    )
    chosen = {key: score_of(key) for key in keys}
    return [
        key
        for key, score in chosen.items()
        if score.tested or (score.place == "scores" and score.decimals)
    ]


def _without_one_context(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.drop("context") if rows["context"].n_unique() == 1 else rows
