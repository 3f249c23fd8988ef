"""Charts of the report, each described in its docstring; all return SVG text (:mod:`pacer.reporting.figures`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes

from pacer.core.contexts import CONTEXTS
from pacer.reporting.figures import LIGHT, drawing, row_axis

if TYPE_CHECKING:
    from pacer.metrics.statistics.groups import Coverage
    from pacer.metrics.statistics.reliability import Reliability

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


def reliability_chart(curves: Mapping[str, Reliability]) -> str:
    """Draw one panel per context: the share of findings that are there against their mean probability, by bin, with
    intervals; probabilities that are right lie on the diagonal."""

    def draw(grid: Any) -> None:
        for axes, (context, curve) in zip(np.ravel(grid), curves.items(), strict=True):
            across, share, low, high = np.array(curve.bins).T
            axes.plot([0, 1], [0, 1], color=LIGHT["--series-none"], linewidth=0.8)
            bars = [share - low, high - share]
            axes.errorbar(across, share, np.maximum(bars, 0), marker="o", markersize=3, color=LIGHT["--series-1"])
            axes.set_xlim(0, 1)
            axes.set_ylim(0, 1)
            axes.set_xlabel(context.upper())
        np.ravel(grid)[0].set_ylabel("share present")

    return drawing(6.6, 2.0, draw, columns=len(curves), sharey=True)


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
