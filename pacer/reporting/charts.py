"""Charts of the report, as SVG files for a paper and inline in the page."""

import io
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from pacer.statistics.halves import Interval

_STYLE_SHEET = Path(__file__).parent / "templates" / "style.css"
_STYLES_OF_LIGHT_PAGE, _, _ = _STYLE_SHEET.read_text(encoding="utf-8").partition("@media")
#: The page's colours, by their names in ``style.css``, and one for lines of comparison.
LIGHT = dict(re.findall(r"(--[\w-]+): (#\w{6})", _STYLES_OF_LIGHT_PAGE))
LIGHT["--series-none"] = "#9aa3ad"
SERIES = tuple(f"--series-{index}" for index in range(1, 7))


def for_page(svg: str, name: str) -> Markup:
    """Return the drawing as an inline ``<svg>`` element, with ids that are unique on the page."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*" height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    return Markup(svg.replace("url(#", f"url(#{name}-").replace('href="#', f'href="#{name}-'))


def drawing(width: float, height: float, draw: Callable[[Any], None], columns: int = 1) -> str:
    """Run ``draw`` with the axes, or ``columns`` of them, of a new figure (size in inches), and
    return the SVG text."""
    with matplotlib.rc_context(fname=Path(__file__).with_name("figures.mplstyle")):
        # browsers set text wider, which the padding allows for
        figure = Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.13))
        FigureCanvasSVG(figure)
        draw(figure.subplots(1, columns, sharey=True))
        buffer = io.StringIO()
        # without a date, bytes are reproducible
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


class Curves(NamedTuple):
    """The losses of a phase: updates and values."""

    training: tuple[Sequence[float], Sequence[float]]
    #: By context.
    validation: Mapping[str, tuple[Sequence[float], Sequence[float]]]


def training_chart(phases: Mapping[str, Curves]) -> str:
    """Draw one panel per phase: the losses of training and validation by update."""

    def draw(grid: Any) -> None:
        for axes, (phase, curves) in zip(np.ravel(grid), phases.items(), strict=True):
            axes.plot(*curves.training, color=LIGHT["--series-none"], label="training")
            for series, (context, curve) in zip(SERIES, curves.validation.items(), strict=False):
                name = f"validation, {context.upper()}"
                axes.plot(*curve, marker="o", markersize=3, color=LIGHT[series], label=name)
            axes.set_title(phase)
            axes.set_xlabel("update")
        most = max(np.ravel(grid), key=lambda axes: len(axes.lines))
        most.figure.legend(handles=most.lines, loc="outside upper left", ncols=5)
        np.ravel(grid)[0].set_ylabel("loss")

    return drawing(6.6, 2.4, draw, columns=len(phases))


def interval_chart(
    rows: Sequence[str],
    points: Mapping[str, Mapping[str, Interval]],
    label: str,
    height: float,
    line: float = 0.0,
) -> str:
    """Draw values with their intervals in rows, and a line at 0 or another value. ``points``:
    series, each a colour -> row -> value."""

    def draw(axes: Axes) -> None:
        axes.axvline(line, color=LIGHT["--muted"], linewidth=1)
        for place, (name, series) in enumerate(points.items()):
            colour = LIGHT[SERIES[place % len(SERIES)]]
            for row, interval in series.items():
                in_row = [other for other, values in points.items() if row in values]
                from_middle = in_row.index(name) - (len(in_row) - 1) / 2
                height = rows.index(row) + from_middle * 0.7 / len(points)
                if interval.low is not None and interval.high is not None:
                    axes.hlines(height, interval.low, interval.high, color=colour, linewidth=2)
                if interval.value is not None:
                    axes.scatter(interval.value, height, s=30, color=colour, zorder=3)
            axes.scatter([], [], s=30, color=colour, label=name)
        axes.set_yticks(range(len(rows)), rows)
        axes.tick_params(axis="y", labelcolor=LIGHT["--ink"])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel(label)
        axes.legend(
            loc="lower left",
            bbox_to_anchor=(-0.02, 1.0),
            ncols=2,
            handlelength=1.0,
            handletextpad=0.2,
        )

    return drawing(6.6, height, draw)
