"""Small charts of the corpus's audit: one question each, drawn only where the audit holds an answer."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator, PercentFormatter

from pacer.core.contexts import CONTEXTS
from pacer.records.schemas import EMPHASIS_POSITIONS, SPLITS
from pacer.reporting.corpus_audit import WORDING_LIMIT, plain, reading_audit, wording_rates
from pacer.reporting.figures import LIGHT, drawing
from pacer.reporting.tables import number, percent

WIDTH = 3.6
#: Reasons that a chart names; the others are one bar.
_REASONS = 7
#: Longest list that the histogram of emphasis lengths gives a class of its own; longer ones share the last.
_LONGEST_LIST = 250
_CLASS = 10
_FATES = {"used": "used", "bad": "bad", "left_out": "left out", "beyond_limit": "beyond the limit"}
_VIEW_COLOURS = {"AP": "--series-1", "PA": "--series-2", "other": "--series-none"}


@dataclass(frozen=True)
class Chart:
    """A chart of the section on the corpus; ``name`` is that of its file."""

    name: str
    title: str
    svg: str


def corpus_charts(audit: Mapping[str, Any]) -> list[Chart]:
    """The charts that apply to this corpus.

    Raises:
        DataError: the audit lacks a part.
    """
    with reading_audit():
        sizes = [
            (f"{context.upper()} {split}", counts["records"], counts["paper"] if audit["format"] == "rg4" else 0)
            for context in CONTEXTS
            for split, counts in ((s, audit["contexts"][context][s]) for s in SPLITS if context in audit["contexts"])
        ]
        views: dict[str, dict[str, int]] = {c: audit["views"][c] for c in CONTEXTS if c in audit["views"]}
        rates = {context: counts for context, counts in wording_rates(audit["prior_wording"]).items() if counts[1]}
        strict = bool(audit["strict"])
        gaps = _gap_classes(audit["priors"]["gaps"])
        lengths = {int(start): count for start, count in audit["emphasis"]["lengths"].items()}
        fates = [(word, audit["rows"][name]) for name, word in _FATES.items()]
        reasons = [
            (reason, count, kind)
            for kind in ("excluded", "left_out")
            for reason, count in audit[kind]["reasons"].items()
        ]
    beside = any(paper for _, _, paper in sizes)
    charts = [Chart("corpus-records", "Records, beside the paper's" if beside else "Records", _sizes_chart(sizes))]
    if views:
        charts.append(Chart("corpus-views", "Frontal views", _views_chart(views)))
    if rates:
        fate = "left out" if strict else "kept"
        title = f"Targets that presuppose an absent previous report ({fate})"
        charts.append(Chart("corpus-wording", title, _wording_chart(rates, strict)))
    if any(count for _, count in gaps):
        charts.append(Chart("corpus-gaps", "Time since the previous study", _bars(gaps, "studies")))
    if lengths:
        charts.append(Chart("corpus-emphasis", "Length of the emphasis lists", _lengths_chart(lengths)))
    if any(count for word, count in fates if word != "used"):
        charts.append(Chart("corpus-rows", "What became of the rows", _bars(fates, "rows")))
    if reasons:
        charts.append(Chart("corpus-reasons", "Why something is bad or left out", _reasons_chart(reasons)))
    return charts


def _gap_classes(gaps: Mapping[str, int]) -> list[tuple[str, int]]:
    """The audit's classes, each with both of its ends: ``up to 30`` after ``up to 7`` is 7 to 30 days."""
    classes, before = [], None
    for name, count in gaps.items():
        word, _, end = name.rpartition(" ")
        shown = f"{int(end):,} {'day' if end == '1' else 'days'}"
        classes.append((f"{word} {shown}" if before is None or word == "over" else f"{before} to {shown}", count))
        before = f"{int(end):,}"
    return classes


def _thousands(value: float, _: int | None = None) -> str:
    return f"{value / 1000:,.0f}k" if value >= 1000 else f"{value:,.0f}"


def _sizes_chart(sizes: Sequence[tuple[str, int, int]]) -> str:
    """Records and, where it is not 0, the paper's number per context and split on a logarithmic axis; a split without
    records has a cross at its left end."""

    def draw(axes: Axes) -> None:
        rows = range(len(sizes))
        records, paper = [found for _, found, _ in sizes], [expected for _, _, expected in sizes]
        least = min((value for value in (*records, *paper) if value), default=1)
        start = 10.0 ** (len(str(least)) - 1) / 2
        for row, (found, expected) in enumerate(zip(records, paper, strict=True)):
            if found and expected:
                axes.hlines(row, found, expected, color=LIGHT["--rule"], linewidth=3)
        here = [(found, row) for row, found in enumerate(records) if found]
        if any(paper):
            axes.scatter(paper, list(rows), s=28, facecolors="none", edgecolors=LIGHT["--ink"], label="paper", zorder=3)
        axes.scatter(
            [x for x, _ in here], [y for _, y in here], s=26, color=LIGHT["--series-1"], label="this corpus", zorder=3
        )
        empty = [row for row, found in enumerate(records) if not found]
        if empty:
            axes.scatter(
                [start * 1.25] * len(empty),
                empty,
                s=22,
                marker="x",
                color=LIGHT["--series-2"],
                label="no record",
                zorder=3,
            )
        axes.set_xscale("log")
        axes.set_xlim(start, max(*records, *paper, 1) * 2)
        axes.xaxis.set_major_locator(FixedLocator([10.0**power for power in range(9)]))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(_thousands))
        axes.set_yticks(list(rows), [name for name, _, _ in sizes])
        for row in range(len(SPLITS), len(sizes), len(SPLITS)):
            axes.axhline(row - 0.5, color=LIGHT["--rule"], linewidth=0.6)
        _category_axis(axes, len(sizes))
        _legend(axes, 3)

    return drawing(WIDTH, 0.75 + 0.185 * len(sizes), draw)


def _views_chart(views: Mapping[str, Mapping[str, int]]) -> str:
    """Stacked bars of shares, one per context."""
    contexts = list(views)

    def draw(axes: Axes) -> None:
        left = [0.0] * len(contexts)
        for view, variable in _VIEW_COLOURS.items():
            widths = [views[context].get(view, 0) / sum(views[context].values()) for context in contexts]
            if any(widths):
                axes.barh(range(len(contexts)), widths, left=left, height=0.6, color=LIGHT[variable], label=view)
            left = [start + width for start, width in zip(left, widths, strict=True)]
        for row, context in enumerate(contexts):
            axes.text(1.02, row, number(sum(views[context].values())), va="center", fontsize=8.5)
        axes.set_xlim(0, 1.0)
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.set_yticks(range(len(contexts)), [context.upper() for context in contexts])
        axes.set_xlabel("share of the records")
        _category_axis(axes, len(contexts))
        _legend(axes, 3)

    return drawing(WIDTH, 1.0 + 0.27 * len(contexts), draw)


def _wording_chart(rates: Mapping[str, tuple[int, int]], strict: bool) -> str:
    """The rate of each context, and the share above which a reader should look."""
    contexts = list(rates)
    shares = [comparing / records for comparing, records in rates.values()]

    def draw(axes: Axes) -> None:
        colours = [LIGHT["--series-2" if share > WORDING_LIMIT and not strict else "--series-1"] for share in shares]
        axes.barh(range(len(contexts)), shares, height=0.55, color=colours)
        axes.axvline(WORDING_LIMIT, color=LIGHT["--muted"], linewidth=1, linestyle=":")
        for row, counts in enumerate(rates.values()):
            _label(axes, shares[row], row, f"{percent(*counts)} of {number(counts[1])}")
        end = 1.75 * max(*shares, 1.6 * WORDING_LIMIT)  # room for the labels
        axes.set_xlim(0, end)
        axes.xaxis.set_major_locator(FixedLocator([v for v in MaxNLocator(5).tick_values(0, end) if v <= min(1, end)]))
        axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.set_yticks(range(len(contexts)), [context.upper() for context in contexts])
        axes.set_xlabel(f"share of the targets; dotted: {percent(WORDING_LIMIT, 1)}")
        _category_axis(axes, len(contexts))

    return drawing(WIDTH, 0.65 + 0.34 * len(contexts), draw)


def _bars(counts: Sequence[tuple[str, int]], unit: str) -> str:
    """One bar per class, in the given order, with its count."""

    def draw(axes: Axes) -> None:
        axes.barh(range(len(counts)), [count for _, count in counts], height=0.62, color=LIGHT["--series-1"])
        for row, (_, count) in enumerate(counts):
            _label(axes, count, row, number(count))
        axes.set_yticks(range(len(counts)), [name for name, _ in counts])
        _count_axis(axes, max(count for _, count in counts), unit)
        _category_axis(axes, len(counts))

    return drawing(WIDTH, 0.55 + 0.24 * len(counts), draw)


def _lengths_chart(lengths: Mapping[int, int]) -> str:
    """Histogram of lists by their number of entries; what upstream's training does not read is pale."""
    classes: dict[int, int] = {}
    for start, count in lengths.items():
        shown = min(start, _LONGEST_LIST)
        classes[shown] = classes.get(shown, 0) + count

    def draw(axes: Axes) -> None:
        starts = sorted(classes)
        axes.bar(starts, [classes[s] for s in starts], width=0.88 * _CLASS, align="edge", color=LIGHT["--series-1"])
        axes.grid(axis="x", visible=False)
        end = max(starts) + _CLASS
        axes.set_xlim(min(0, *starts), max(end, 5 * _CLASS))
        if end > EMPHASIS_POSITIONS:
            axes.axvline(EMPHASIS_POSITIONS, color=LIGHT["--muted"], linewidth=1, linestyle=":")
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number(int(value))))
        label = "entries" + (f"; dotted: {EMPHASIS_POSITIONS}, what upstream reads" if end > EMPHASIS_POSITIONS else "")
        axes.set_xlabel(label + (f"; last bar: {_LONGEST_LIST} and more" if _LONGEST_LIST in classes else ""))
        axes.set_ylabel("records")

    return drawing(WIDTH, 2.1, draw)


def _reasons_chart(reasons: Sequence[tuple[str, int, str]]) -> str:
    """One bar per reason below its words, bad rows and left-out ones in colours of their own."""
    ordered = sorted(reasons, key=lambda entry: -entry[1])
    shown = [(plain(reason, 88), count, kind) for reason, count, kind in ordered[:_REASONS]]
    if len(ordered) > _REASONS:
        rest = ordered[_REASONS:]
        others = "another reason" if len(rest) == 1 else f"{number(len(rest))} other reasons"
        shown.append((others, sum(count for _, count, _ in rest), "rest"))
    wrapped = [textwrap.wrap(reason, 50, max_lines=2, placeholder="…") for reason, _, _ in shown]

    def draw(axes: Axes) -> None:
        labels: set[str] = set()
        position = 0.0
        for lines, (_, count, kind) in zip(wrapped, shown, strict=True):
            for line in lines:
                position += 0.8
                # a reason is no formula
                axes.text(0.0, position, line.replace("$", r"\$"), fontsize=8, color=LIGHT["--ink"], va="center")
            position += 0.75
            label = {"excluded": "bad", "left_out": "left out"}.get(kind)
            variable = {"excluded": "--series-2", "left_out": "--series-1"}.get(kind, "--series-none")
            axes.barh(position, count, height=0.5, color=LIGHT[variable], label=None if label in labels else label)
            labels |= {label} if label else set()
            _label(axes, count, position, number(count))
            position += 0.3
        axes.set_yticks([])
        axes.set_ylim(position + 0.4, 0.1)
        _count_axis(axes, max(count for _, count, _ in shown), "lines of problems.csv")
        axes.grid(axis="y", visible=False)
        _legend(axes, 2)

    return drawing(WIDTH, 0.75 + 0.16 * sum(map(len, wrapped)) + 0.22 * len(shown), draw)


def _label(axes: Axes, x: float, y: float, text: str) -> None:
    axes.annotate(text, (x, y), (4, 0), textcoords="offset points", va="center", fontsize=8.5)


def _count_axis(axes: Axes, largest: int, unit: str) -> None:
    """Room for the counts at the bars' ends, and whole numbers below."""
    axes.set_xlim(0, 1.25 * max(largest, 1))
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number(int(value))))
    axes.set_xlabel(unit)


def _category_axis(axes: Axes, rows: int) -> None:
    axes.tick_params(axis="y", labelcolor=LIGHT["--ink"])
    axes.set_ylim(rows - 0.4, -0.6)
    axes.grid(axis="y", visible=False)


def _legend(axes: Axes, columns: int) -> None:
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(-0.02, 1.0),
        ncols=columns,
        handletextpad=0.3,
        columnspacing=1.0,
        handlelength=1.0,
        borderaxespad=0.2,
    )
