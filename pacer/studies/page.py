"""A study's table as Markdown, LaTeX and an HTML page, and its differences as a chart."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from pacer.core.io import write_text
from pacer.metrics.scores import score_of
from pacer.reporting.figures import LIGHT, SERIES, drawing, for_page, legend_above, row_axis
from pacer.reporting.html import render
from pacer.reporting.tables import Table
from pacer.studies.paired import RowDifference, difference_table

#: Scores that are drawn side by side, if the study has them; if it has neither, its first score is drawn.
_DRAWN = ("f1", "bleu4")


def write_table(scores: Table, tested: Sequence[RowDifference], folder: Path) -> str:
    """Write ``table.md``, ``table.tex``, ``table.html`` and, if rows were tested, ``table.svg`` into ``folder``; return
    the Markdown."""
    tables = [scores, *([difference_table(scores.caption, tested)] if tested else [])]
    chart = difference_chart(tested)
    inline = chart and for_page(chart, "differences")
    texts = {
        "md": "\n".join(f"## {table.caption}\n\n{table.markdown(caption=False)}" for table in tables),
        "tex": "\n".join(table.latex() for table in tables),
        "html": render("tables.html", kicker="study", title=scores.caption, tables=tables, chart=inline),
    }
    for ending, text in (texts | ({"svg": chart} if chart else {})).items():
        write_text(folder / f"table.{ending}", text)
    return texts["md"]


def difference_chart(tested: Sequence[RowDifference]) -> str | None:
    """Draw the mean difference of each pair of rows with its interval, and a point per replicate; None without any."""
    known = list(dict.fromkeys(line.metric for line in tested if line.difference.difference is not None))
    if not known:
        return None
    shown = [metric for metric in _DRAWN if metric in known] or known[:1]
    labels = list(dict.fromkeys(line.label for line in tested))
    replicates = dict.fromkeys(label for line in tested for label in line.by_replicate)
    colours = dict(zip(replicates, cycle(LIGHT[name] for name in SERIES), strict=False))

    def panel(axes: Axes, metric: str) -> None:
        axes.axvline(0, color=LIGHT["--muted"], linewidth=1)
        for line in tested:
            row, difference = labels.index(line.label), line.difference
            if line.metric != metric or difference.difference is None:
                continue
            if difference.low is not None and difference.high is not None:
                axes.hlines(row, difference.low, difference.high, color=LIGHT["--series-none"], linewidth=4)
            axes.scatter(difference.difference, row, s=40, color=LIGHT["--ink"], zorder=4)
            for label, apart in line.by_replicate.items():
                axes.scatter(apart, row - 0.3, s=13, color=colours[label], zorder=3)
        row_axis(axes, labels, top=-0.7)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.set_xlabel(f"difference in {score_of(metric).column}")

    def draw(grid: Any) -> None:
        panels = np.ravel(grid).tolist()
        for axes, metric in zip(panels, shown, strict=True):
            panel(axes, metric)
        if len(colours) > 1:
            for label, colour in colours.items():
                panels[0].scatter([], [], s=13, color=colour, label=label)
            panels[0].scatter([], [], s=40, color=LIGHT["--ink"], label="mean, interval")
            legend_above(panels[0], 6, handletextpad=0.1, columnspacing=1.0)

    return drawing(3.4 + 2.6 * len(shown), 0.9 + 0.42 * len(labels), draw, columns=len(shown), sharey=True)
