"""Charts of the report, each described in its docstring; all return SVG text (:mod:`pacer.reporting.figures`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from pacer.core.audits import number
from pacer.core.contexts import CONTEXTS
from pacer.reporting.figures import LIGHT, SERIES, drawing, legend_above, row_axis
from pacer.reporting.score_tables import row_name, rows_in

if TYPE_CHECKING:
    from pacer.metrics.statistics.bootstrap import Interval
    from pacer.metrics.statistics.groups import Coverage
    from pacer.metrics.statistics.intervals import LabelScores

#: Minimum width of the score axis, so that small differences do not look large.
NARROWEST = 0.25
#: Maximum number of records per context drawn as points, at even steps of rank.
MOST_POINTS = 160
_POLARITIES = {"positive": "--series-2", "uncertain": "--series-5", "negative": "--series-1"}


def efficacy_chart(scores: Mapping, intervals: Mapping[str, Mapping[str, Interval]]) -> str:
    """Draw precision, recall and F1 of each context as three points on a line, with F1's interval as a bar below."""
    names = rows_in(scores)

    def draw(axes: Axes) -> None:
        shown = []
        for row, name in enumerate(names):
            ends = scores[name].get("precision"), scores[name].get("recall")
            if None not in ends:
                axes.hlines(row, *ends, color=LIGHT["--rule"], linewidth=3)
            bar = intervals.get(name, {}).get("f1")
            if bar is not None and bar.low is not None and bar.high is not None:
                axes.hlines(row + 0.26, bar.low, bar.high, color=LIGHT["--ink"], linewidth=1.2)
                axes.vlines([bar.low, bar.high], row + 0.17, row + 0.35, color=LIGHT["--ink"], linewidth=1.2)
                shown += [bar.low, bar.high]
        for key, label, marker, size, variable in (
            ("precision", "precision", "<", 34, "--series-1"),
            ("recall", "recall", ">", 34, "--series-2"),
            ("f1", "F1, its interval below", "o", 46, "--ink"),
        ):
            # an undefined score has no point
            points = [(scores[name][key], row) for row, name in enumerate(names) if scores[name].get(key) is not None]
            across, down = [value for value, _ in points], [row for _, row in points]
            axes.scatter(across, down, marker=marker, s=size, color=LIGHT[variable], label=label, zorder=3)
            shown += across
        low, high = min(shown, default=0.0), max(shown, default=0.0)
        spare = max(0.0, NARROWEST - (high - low)) / 2 + 0.02
        axes.set_xlim(max(0.0, low - spare), min(1.0, high + spare))
        row_axis(axes, [row_name(name) for name in names])
        legend_above(axes, 3, handletextpad=0.2, columnspacing=1.2)

    return drawing(5.6, 0.75 + 0.38 * len(names), draw)


def label_chart(labels: Sequence[LabelScores]) -> str:
    """Draw F1 of each observation with its interval over all contexts together, and small marks for single contexts."""

    def draw(axes: Axes) -> None:
        for row, label in enumerate(labels):
            f1 = label.scores["f1"]
            if f1.value is None or f1.low is None or f1.high is None:
                axes.annotate("undefined", (0.01, row), va="center", fontsize=8, color=LIGHT["--muted"])
                continue
            axes.hlines(row, f1.low, f1.high, color=LIGHT["--series-none"], linewidth=3.5)
            axes.scatter(f1.value, row, s=42, color=LIGHT["--ink"], zorder=4)
        axes.scatter([], [], s=42, color=LIGHT["--ink"], label="all contexts")
        for context, marker, colour in zip(labels[0].f1, "<>^v", SERIES, strict=False):
            points = [(f1, row) for row, label in enumerate(labels) if (f1 := label.f1[context]) is not None]
            across, down = [value for value, _ in points], [row - 0.3 for _, row in points]
            axes.scatter(across, down, s=16, marker=marker, color=LIGHT[colour], zorder=3, label=context.upper())
        row_axis(axes, [f"{label.name}  ({number(label.present)})" for label in labels], top=-0.8)
        axes.set_xlim(-0.02, 1.02)
        axes.set_xlabel("F1 (records with the observation in the reference in brackets)")
        legend_above(axes, 5, handletextpad=0.1, columnspacing=1.0)

    return drawing(6.6, 0.9 + 0.33 * len(labels), draw)


def gate_chart(gates: Mapping[str, Sequence[float]]) -> str:
    """Draw the gate of each context's records: points, a box over the middle half with the median, whiskers over 90 %.

    Args:
        gates: context -> gate of each of its records.
    """
    names = [name for name, values in gates.items() if values]

    def draw(axes: Axes) -> None:
        for row, name in enumerate(names):
            values = np.sort(np.asarray(gates[name], dtype=float))
            shown = values[np.linspace(0, len(values) - 1, min(len(values), MOST_POINTS)).round().astype(int)]
            # deterministic, and spread so that neighbours in rank lie apart
            scatter = 0.18 + 0.26 * ((np.arange(len(shown)) * 0.618034) % 1)
            axes.scatter(shown, row + scatter, s=5, color=LIGHT["--series-1"], alpha=0.55, linewidths=0)
            low, first, median, third, high = np.quantile(values, (0.05, 0.25, 0.5, 0.75, 0.95))
            axes.hlines(row, low, high, color=LIGHT["--muted"], linewidth=1.2)
            axes.hlines(row, first, third, color=LIGHT["--series-1"], linewidth=8)
            axes.vlines(median, row - 0.2, row + 0.2, color=LIGHT["--ink"], linewidth=2)
            axes.annotate(f"{median:.3f}", (median, row - 0.24), ha="center", va="bottom", fontsize=8)
        row_axis(axes, [f"{name.upper()}  ({number(len(gates[name]))})" for name in names], top=-0.7)
        axes.xaxis.set_major_locator(MaxNLocator(6))
        axes.set_xlabel("gate g (records in brackets)")

    return drawing(5.6, 0.7 + 0.62 * len(names), draw)


def coverage_chart(curve: Sequence[Coverage]) -> str:
    """Draw F1 against the share of reports that it is over, those that agree most with their commitment first."""

    def draw(axes: Axes) -> None:
        across, down = [point.share for point in curve], [point.f1 for point in curve]
        axes.plot(across, down, marker="o", markersize=4, color=LIGHT["--series-1"])
        axes.set_xlim(0, 1.02)
        axes.set_ylim(0, 1)
        axes.set_xlabel("share of reports, by agreement")
        axes.set_ylabel("F1")

    return drawing(5.6, 2.6, draw)


def polarity_chart(
    counts: Mapping[str, Mapping[str, Mapping[str, int]]], origins: Mapping[str, Mapping[str, int]]
) -> str:
    """Draw stacked bars, one panel per context: the share of its records that commit to a finding, by polarity.

    Args:
        counts: context -> finding -> {"positive": n, "negative": n, "uncertain": n}. origins: context -> origin of its
            records' targets -> number of records.
    """
    contexts = [context for context in CONTEXTS if context in counts]
    findings = list(counts[contexts[0]])

    def draw(grid: Any) -> None:
        for axes, context in zip(np.ravel(grid), contexts, strict=True):
            by_finding, records = counts[context], max(sum(origins[context].values()), 1)
            left = np.zeros(len(findings))
            for polarity, variable in _POLARITIES.items():
                widths = np.array([by_finding[finding][polarity] for finding in findings]) / records
                axes.barh(range(len(findings)), widths, left=left, height=0.66, color=LIGHT[variable], label=polarity)
                left += widths
            row_axis(axes, findings)
            axes.set_xlim(0, 1)
            axes.set_xticks([0, 0.5], ["0", "50 %"])
            axes.set_xlabel(context.upper())
        bars, names = np.ravel(grid)[0].get_legend_handles_labels()
        np.ravel(grid)[0].figure.legend(bars, names, loc="outside upper left", ncols=3, handlelength=1.0)

    return drawing(6.6, 0.9 + 0.24 * len(findings), draw, columns=len(contexts), sharey=True)
