"""Charts as SVG: stand-alone files for a paper, and the same drawing in the page's own colours.

Charts are drawn in the colours of :data:`LIGHT`. :func:`for_page` turns each of these into a CSS variable of the
page, so a figure follows the reader's light or dark theme.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator, PercentFormatter

#: CSS variable of the page: the colour of the stand-alone file.
LIGHT = {
    "--ink": "#1b1f24",
    "--muted": "#5c6570",
    "--rule": "#d9dde2",
    "--series-1": "#0b6bab",
    "--series-2": "#c4570b",
    "--series-3": "#2a7f4a",
    "--series-4": "#8a4a9e",
    "--series-5": "#a07400",
    "--series-6": "#b83a5e",
    "--series-none": "#9aa3ad",
}
_POLARITY_COLOURS = (("positive", "--series-2"), ("uncertain", "--series-5"), ("negative", "--series-1"))
SERIES = tuple(f"--series-{index}" for index in range(1, 7))
FONT = "sans-serif"

STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "pacer",
    "font.family": FONT,
    "font.size": 9.0,
    "axes.edgecolor": LIGHT["--rule"],
    "axes.labelcolor": LIGHT["--muted"],
    "axes.titlecolor": LIGHT["--ink"],
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": LIGHT["--rule"],
    "grid.linewidth": 0.6,
    "xtick.color": LIGHT["--muted"],
    "ytick.color": LIGHT["--muted"],
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "ytick.minor.size": 0,
    "text.color": LIGHT["--ink"],
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.5,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
}


def for_page(svg: str, name: str) -> str:
    """The drawing as an inline ``<svg>`` element: theme colours, and ids that no other figure of the page has."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*" height="[^"]*"', r"\1", svg, count=1)
    for variable, colour in LIGHT.items():
        svg = svg.replace(colour, f"var({variable})")
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    return svg.replace("url(#", f"url(#{name}-").replace('href="#', f'href="#{name}-')


def drawing(width: float, height: float, draw: Callable[[Any], None], **grid: Any) -> str:
    """Run ``draw(axes)`` on a new figure of the given size in inches; the SVG text.

    Args:
        grid: arguments of ``Figure.subplots`` (``rows``, ``columns``, ...); ``draw`` gets what it returns.
    """
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.13))  # browsers set text wider
        FigureCanvasSVG(figure)
        draw(figure.subplots(grid.pop("rows", 1), grid.pop("columns", 1), **grid))
        return saved(figure)


def saved(figure: Figure) -> str:
    """A drawn figure as SVG text, the same bytes every time."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def truth_chart(groups: Sequence[tuple[str, list[tuple[str, float]]]]) -> str:
    """One bar per entry of :func:`pacer.reporting.tables.truth_groups`; what is compared against is coloured."""

    def draw(axes: Axes) -> None:
        position, ticks, labels = 0.0, [], []
        for question, entries in groups:
            position += 0.55
            axes.text(0.0, position, question, fontsize=8.5, color=LIGHT["--muted"], va="center")
            position += 0.8
            for index, (who, value) in enumerate(entries):
                plain = index > 0 and question != "By context"
                axes.barh(position, value, height=0.62, color=LIGHT["--series-none" if plain else "--series-1"])
                axes.annotate(
                    f"{value:.3f}", (value, position), (4, 0), textcoords="offset points", va="center", fontsize=8.5
                )
                ticks.append(position)
                labels.append(who)
                position += 0.85
        axes.set_yticks(ticks, labels)
        axes.tick_params(axis="y", labelcolor=LIGHT["--ink"])
        axes.set_ylim(position - 0.2, 0.1)
        top = max(value for _, entries in groups for _, value in entries)
        axes.set_xlim(0, min(1.0, top * 1.15) if top > 0 else 1.0)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("micro-F1 over the 13 findings, or recall where it says so")

    rows = sum(len(entries) for _, entries in groups)
    return drawing(6.6, 0.5 + 0.26 * rows + 0.38 * len(groups), draw)


def polarity_chart(counts: Mapping[str, Mapping[str, int]]) -> str:
    """Stacked bars: how often each finding is committed as positive, negative or uncertain.

    Args:
        counts: finding -> {"positive": n, "negative": n, "uncertain": n}.
    """
    findings = list(counts)

    def draw(axes: Axes) -> None:
        left = [0] * len(findings)
        for polarity, variable in _POLARITY_COLOURS:
            widths = [counts[finding].get(polarity, 0) for finding in findings]
            axes.barh(findings, widths, left=left, height=0.66, color=LIGHT[variable], label=polarity)
            left = [start + width for start, width in zip(left, widths, strict=True)]
        axes.set_ylim(len(findings) - 0.4, -0.6)
        axes.tick_params(axis="y", labelcolor=LIGHT["--ink"])
        axes.grid(axis="y", visible=False)
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.set_xlabel("records")
        axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=3, handlelength=1.0, columnspacing=1.2)

    return drawing(6.6, 0.8 + 0.24 * len(findings), draw)


def context_chart(counts: Mapping[str, Mapping[str, Mapping[str, int]]], records: Mapping[str, int]) -> str:
    """Stacked bars side by side for each context: the share of its records that commit to a finding, by polarity.

    Args:
        counts: context -> finding -> {"positive": n, "negative": n, "uncertain": n}. records: of each context.
    """
    contexts = list(counts)
    findings = list(counts[contexts[0]])
    rows = range(len(findings))

    def draw(axes: Axes) -> None:
        for place, context in enumerate(contexts):
            left = [1.15 * place] * len(findings)
            for polarity, variable in _POLARITY_COLOURS:
                widths = [counts[context][finding][polarity] / max(records[context], 1) for finding in findings]
                axes.barh(
                    rows, widths, left=left, height=0.66, color=LIGHT[variable], label=polarity if place == 0 else None
                )
                left = [start + width for start, width in zip(left, widths, strict=True)]
        axes.set_yticks(rows, findings)
        axes.set_ylim(len(findings) - 0.4, -0.6)
        axes.tick_params(axis="y", labelcolor=LIGHT["--ink"])
        axes.grid(axis="y", visible=False)
        marks = [
            (1.15 * place + share, "0" if share == 0 else f"50 %\n{context.upper()}" if share == 0.5 else "")
            for place, context in enumerate(contexts)
            for share in (0, 0.5, 1)
        ]
        axes.set_xticks([mark for mark, _ in marks], [label for _, label in marks])
        axes.set_xlim(0, 1.15 * len(contexts) - 0.1)
        axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=3, handlelength=1.0, columnspacing=1.2)

    return drawing(6.6, 0.9 + 0.24 * len(findings), draw)


def finding_chart(rates: Mapping[str, Mapping[str, float]]) -> str:
    """Two points per finding: how often the references and the generated reports mention it as present.

    Args:
        rates: finding -> {"reference": share of records, "generated": share of records}.
    """
    findings = list(rates)

    def draw(axes: Axes) -> None:
        rows = range(len(findings))
        reference = [rates[finding]["reference"] for finding in findings]
        generated = [rates[finding]["generated"] for finding in findings]
        axes.hlines(rows, reference, generated, color=LIGHT["--rule"], linewidth=3)
        axes.scatter(reference, rows, s=34, facecolors="none", edgecolors=LIGHT["--ink"], label="reference", zorder=3)
        axes.scatter(generated, rows, s=30, color=LIGHT["--series-1"], label="generated", zorder=3)
        axes.set_yticks(list(rows), findings)
        axes.tick_params(axis="y", labelcolor=LIGHT["--ink"])
        axes.set_ylim(len(findings) - 0.4, -0.6)
        axes.grid(axis="y", visible=False)
        axes.set_xlim(left=0)
        axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.set_xlabel("records with the finding, by the labeller")
        axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=2, handletextpad=0.2, columnspacing=1.2)

    return drawing(6.6, 0.8 + 0.24 * len(findings), draw)
