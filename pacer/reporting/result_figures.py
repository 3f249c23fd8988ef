"""Charts of one run's results: scores by context and by observation with their intervals, and the gate by context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from pacer.comparison.case_statistics import LabelScores
from pacer.comparison.resampling import Interval
from pacer.reporting.figures import LIGHT, SERIES, drawing
from pacer.reporting.tables import contexts_in, number

#: Least width of the score axis, so that small differences do not look large.
NARROWEST = 0.25
#: Records of a context that are drawn as points, at even steps of rank.
_POINTS = 160


def efficacy_chart(scores: Mapping, intervals: Mapping[str, Mapping[str, Interval]]) -> str:
    """Precision, recall and F1 of each context as three points on a line; the interval of F1 as a bar below."""
    contexts = contexts_in(scores)
    names = [*contexts, "mean"] if "mean" in scores else contexts

    def draw(axes: Axes) -> None:
        # an undefined precision or recall has no point
        found = {
            key: [(scores[name][key], row) for row, name in enumerate(names) if scores[name].get(key) is not None]
            for key in ("precision", "recall", "f1")
        }
        values = [value for points in found.values() for value, _ in points] or [0.0]
        for row, name in enumerate(names):
            if scores[name].get("precision") is not None and scores[name].get("recall") is not None:
                axes.hlines(row, scores[name]["precision"], scores[name]["recall"], color=LIGHT["--rule"], linewidth=3)
            bar = intervals.get(name, {}).get("f1")
            if bar is not None and bar.low is not None and bar.high is not None:
                axes.hlines(row + 0.26, bar.low, bar.high, color=LIGHT["--ink"], linewidth=1.2)
                axes.vlines([bar.low, bar.high], row + 0.17, row + 0.35, color=LIGHT["--ink"], linewidth=1.2)
                values += [bar.low, bar.high]
        spare = max(0.0, NARROWEST - (max(values) - min(values))) / 2 + 0.02
        axes.set_xlim(max(0.0, min(values) - spare), min(1.0, max(values) + spare))
        for key, label, marker, size, variable in (
            ("precision", "precision", "<", 34, "--series-1"),
            ("recall", "recall", ">", 34, "--series-2"),
            ("f1", "F1, its interval below", "o", 46, "--ink"),
        ):
            across, down = [value for value, _ in found[key]], [row for _, row in found[key]]
            axes.scatter(across, down, marker=marker, s=size, color=LIGHT[variable], label=label, zorder=3)
        axes.set_yticks(range(len(names)), [name.upper() if name != "mean" else "Mean" for name in names])
        axes.tick_params(axis="y", labelcolor=LIGHT["--ink"])
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.grid(axis="y", visible=False)
        axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=3, handletextpad=0.2, columnspacing=1.2)

    return drawing(5.6, 0.75 + 0.38 * len(names), draw)


def label_chart(labels: Sequence[LabelScores]) -> str:
    """F1 of each observation with its interval over all contexts together, and small marks for the contexts."""
    contexts = list(labels[0].f1)

    def draw(axes: Axes) -> None:
        for row, one in enumerate(labels):
            f1 = one.scores["f1"]
            if f1.value is None or f1.low is None or f1.high is None:
                axes.annotate("undefined", (0.01, row), va="center", fontsize=8, color=LIGHT["--muted"])
                continue
            axes.hlines(row, f1.low, f1.high, color=LIGHT["--series-none"], linewidth=3.5)
            axes.scatter(f1.value, row, s=42, color=LIGHT["--ink"], zorder=4)
        axes.scatter([], [], s=42, color=LIGHT["--ink"], label="all contexts")
        for place, (context, marker) in enumerate(zip(contexts, "<>^v", strict=False)):
            points = [(f1, row) for row, one in enumerate(labels) if (f1 := one.f1[context]) is not None]
            across, down = [value for value, _ in points], [row - 0.3 for _, row in points]
            axes.scatter(across, down, s=16, marker=marker, color=LIGHT[SERIES[place]], zorder=3, label=context.upper())
        axes.set_yticks(range(len(labels)), [f"{one.name}  ({number(one.present)})" for one in labels])
        axes.tick_params(axis="y", labelcolor=LIGHT["--ink"])
        axes.set_ylim(len(labels) - 0.4, -0.8)
        axes.set_xlim(-0.02, 1.02)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("F1 (records with the observation in the reference in brackets)")
        axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=5, handletextpad=0.1, columnspacing=1.0)

    return drawing(6.6, 0.9 + 0.33 * len(labels), draw)


def gate_chart(gates: Mapping[str, Sequence[float]]) -> str:
    """Gate of each context's records: points, a box over the middle half with the median, whiskers over 90 %.

    Args:
        gates: context -> gate of each of its records.
    """
    names = [name for name, values in gates.items() if values]

    def draw(axes: Axes) -> None:
        for row, name in enumerate(names):
            values = np.sort(np.asarray(gates[name], dtype=float))
            shown = values[np.linspace(0, len(values) - 1, min(len(values), _POINTS)).round().astype(int)]
            # the same places every time, spread so that neighbours in rank lie apart
            scatter = 0.18 + 0.26 * ((np.arange(len(shown)) * 0.618034) % 1)
            axes.scatter(shown, row + scatter, s=5, color=LIGHT["--series-1"], alpha=0.55, linewidths=0)
            low, first, median, third, high = np.quantile(values, (0.05, 0.25, 0.5, 0.75, 0.95))
            axes.hlines(row, low, high, color=LIGHT["--muted"], linewidth=1.2)
            axes.hlines(row, first, third, color=LIGHT["--series-1"], linewidth=8)
            axes.vlines(median, row - 0.2, row + 0.2, color=LIGHT["--ink"], linewidth=2)
            axes.annotate(f"{median:.3f}", (median, row - 0.24), ha="center", va="bottom", fontsize=8)
        axes.set_yticks(range(len(names)), [f"{name.upper()}  ({number(len(gates[name]))})" for name in names])
        axes.tick_params(axis="y", labelcolor=LIGHT["--ink"])
        axes.set_ylim(len(names) - 0.4, -0.7)
        axes.grid(axis="y", visible=False)
        axes.xaxis.set_major_locator(MaxNLocator(6))
        axes.set_xlabel("gate g (records in brackets)")

    return drawing(5.6, 0.7 + 0.62 * len(names), draw)
