"""Drawing of charts (:mod:`pacer.reporting.charts`): as SVG files for a paper, and inline in the page."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

_STYLE_SHEET = Path(__file__).parent / "templates" / "style.css"
#: The page's colours, by their names in ``style.css``, and one for what is compared with.
LIGHT = dict(
    re.findall(r"(--[\w-]+): (#\w{6})", _STYLE_SHEET.read_text(encoding="utf-8").partition("@media")[0]),
    **{"--series-none": "#9aa3ad"},
)
SERIES = tuple(f"--series-{index}" for index in range(1, 7))

_STYLE = Path(__file__).with_name("figures.mplstyle")


def for_page(svg: str, name: str) -> Markup:
    """Return the drawing as an inline ``<svg>`` element, with ids that are unique on the page."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*" height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    return Markup(svg.replace("url(#", f"url(#{name}-").replace('href="#', f'href="#{name}-'))


def drawing(width: float, height: float, draw: Callable[[Any], None], columns: int = 1, **grid: Any) -> str:
    """Run ``draw(axes)`` on a new figure of the given size in inches, and return the SVG text.

    Args:
        columns, grid: arguments of ``Figure.subplots``, whose result is passed to ``draw``.
    """
    with matplotlib.rc_context(fname=_STYLE):
        figure = Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.13))  # browsers set text wider
        FigureCanvasSVG(figure)
        draw(figure.subplots(1, columns, **grid))
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})  # without a date, bytes are reproducible
    return buffer.getvalue()


def row_axis(axes: Axes, names: Sequence[str], *, top: float = -0.6) -> None:
    """Put names along the left edge, the first at the top, with grid lines for the values only."""
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", labelcolor=LIGHT["--ink"])
    axes.set_ylim(len(names) - 0.4, top)
    axes.grid(axis="y", visible=False)


def legend_above(axes: Axes, columns: int, **how: Any) -> None:
    """Put a legend with ``columns`` columns above the axes, aligned left."""
    axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=columns, **{"handlelength": 1.0, **how})
