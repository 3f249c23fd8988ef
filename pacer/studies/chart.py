"""The tested differences of a study as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from pacer.reporting.figures import LIGHT, SERIES, drawing, legend_above, row_axis
from pacer.studies.paired import Tested
from pacer.studies.study import HEADINGS

#: Scores that are drawn, side by side, of those that the study has; where it has neither, its first.
_DRAWN = ("f1", "bleu4")


def difference_chart(tested: Sequence[Tested], seeds_of: str) -> str | None:
    """SVG: for each pair of rows the mean difference with its interval, and a point a seed; None without any pair."""
    known = list(dict.fromkeys(line.metric for line in tested if line.difference.difference is not None))
    if not known:
        return None
    shown = [metric for metric in _DRAWN if metric in known] or known[:1]
    labels = list(dict.fromkeys(line.label for line in tested))
    seeds = list(dict.fromkeys(seed for line in tested for seed in line.by_seed))

    def panel(axes: Axes, metric: str) -> None:
        axes.axvline(0, color=LIGHT["--muted"], linewidth=1)
        for line in tested:
            row, found = labels.index(line.label), line.difference
            if line.metric != metric or found.difference is None:
                continue
            if found.low is not None and found.high is not None:
                axes.hlines(row, found.low, found.high, color=LIGHT["--series-none"], linewidth=4)
            axes.scatter(found.difference, row, s=40, color=LIGHT["--ink"], zorder=4)
            for seed, apart in line.by_seed.items():
                colour = LIGHT[SERIES[seeds.index(seed) % len(SERIES)]]
                axes.scatter(apart, row - 0.3, s=13, color=colour, zorder=3)
        row_axis(axes, labels, top=-0.7)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.set_xlabel(f"difference in {HEADINGS[metric]}")

    def draw(grid: Any) -> None:
        panels = np.ravel(grid).tolist()
        for axes, metric in zip(panels, shown, strict=True):
            panel(axes, metric)
        if len(seeds) > 1:
            for place, seed in enumerate(seeds):
                panels[0].scatter([], [], s=13, color=LIGHT[SERIES[place % len(SERIES)]], label=f"{seeds_of} {seed}")
            panels[0].scatter([], [], s=40, color=LIGHT["--ink"], label="mean, interval")
            legend_above(panels[0], 6, handletextpad=0.1, columnspacing=1.0)

    return drawing(3.4 + 2.6 * len(shown), 0.9 + 0.42 * len(labels), draw, columns=len(shown), sharey=True)
