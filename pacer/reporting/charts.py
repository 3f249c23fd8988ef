"""Charts of the report, each described in its docstring; all return SVG text (:mod:`pacer.reporting.figures`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes

from pacer.core.contexts import CONTEXTS
from pacer.reporting.figures import LIGHT, drawing, legend_above, row_axis

if TYPE_CHECKING:
    from pacer.metrics.statistics.bootstrap import Interval
    from pacer.metrics.statistics.groups import Coverage

_PRIOR, _LATERAL = "without_prior", "without_lateral"
#: Rows of :func:`source_chart`: words, and the scores with a source, without it, and of what needs no training.
SOURCE_ROWS = {
    "persisting": ("persisting_stated", f"persisting_stated_{_PRIOR}"),
    "gone (lower is better)": ("gone_stated", f"gone_stated_{_PRIOR}"),
    "new": ("new_stated", f"new_stated_{_PRIOR}"),
    "only on the lateral view": ("lateral_only_stated", f"lateral_only_stated_{_LATERAL}"),
    "all findings, F1": ("with_prior_f1", f"{_PRIOR}_f1", "prior_itself_f1", "united_f1"),
}
_SOURCE_MARKS = {
    "with the source": ("--series-1", "o"),
    "without it": ("--series-2", "o"),
    "the previous report itself": ("--series-5", "D"),
    "united with the report without it": ("--series-4", "D"),
}
_POLARITIES = {"positive": "--series-2", "uncertain": "--series-5", "negative": "--series-1"}


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


def source_chart(scores: Mapping[str, Mapping[str, Interval]]) -> str:
    """Draw, by context, the share of findings of a kind that reports state with a source and without it, and F1 beside
    that of reports that need no training, each with its interval (:mod:`pacer.metrics.source_use`); empty if nothing is
    known.

    Args:
        scores: context -> score -> interval, as :class:`~pacer.metrics.statistics.intervals.Intervals` has them.
    """
    rows = {
        f"{context.upper()}: {words}": [found.get(key) for key in keys]
        for context, found in scores.items()
        for words, keys in SOURCE_ROWS.items()
        if (first := found.get(keys[0])) is not None and first.value is not None
    }

    def draw(axes: Axes) -> None:
        for place, (name, (colour, marker)) in enumerate(_SOURCE_MARKS.items()):
            axes.scatter([], [], s=22, marker=marker, color=LIGHT[colour], label=name)
            for row, values in enumerate(rows.values()):
                if place < len(values) and (one := values[place]) is not None and one.value is not None:
                    height = row + 0.18 * (place - (len(values) - 1) / 2)
                    axes.scatter(one.value, height, s=22, marker=marker, color=LIGHT[colour], zorder=3)
                    if one.low is not None and one.high is not None:
                        axes.hlines(height, one.low, one.high, color=LIGHT[colour])
        row_axis(axes, list(rows))
        axes.set_xlim(0, 1)
        axes.set_xlabel("share of these findings that the reports affirm, or F1")
        legend_above(axes, 2, handletextpad=0.2)

    return drawing(6.6, 1.1 + 0.32 * len(rows), draw) if rows else ""
