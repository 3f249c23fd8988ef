"""Two systems side by side as one SVG drawing: marked text, set line by line, that any program shows alike."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple
from xml.etree.ElementTree import Element, SubElement, tostring

from matplotlib.font_manager import FontProperties, findfont
from PIL import ImageFont

from pacer.core.hygiene import CONTROL
from pacer.reporting.figures import LIGHT
from pacer.reporting.support import LEGEND, Piece

if TYPE_CHECKING:
    from pacer.papers.side_by_side import SideBySide

#: Pixels: the column of radiograph and previous report, that of a text, what is between them, letters and lines.
_SIDE, _TEXT, _GAP, _SIZE, _LEADING = 190, 270, 18, 11, 17
#: By support: background, line below and its dashes; the line of what is unverified is a wave.
_MARKS = {
    "matching": ("--matching", "--series-3", "none"),
    "reference-only": ("--only", "--series-5", "4 2"),
    "unverified": ("--unverified", "--series-6", "none"),
}


class Run(NamedTuple):
    """Words of one piece on one line, from ``start`` to ``end`` in pixels."""

    line: int
    start: float
    end: float
    text: str
    piece: Piece


def runs(found: Sequence[Piece], width: float) -> list[Run]:
    """Marked text set in lines of ``width`` pixels; a word that is longer has a line of its own."""
    words: list[list[tuple[str, Piece]]] = [[]]
    for piece in found:
        for part in re.findall(r"\s+|\S+", re.sub(CONTROL, "\N{REPLACEMENT CHARACTER}", piece.text)):
            if part.isspace():
                words.append([])
            else:
                words[-1].append((part, piece))
    line, x, placed = 0, 0.0, list[Run]()
    for word in filter(None, words):
        ends = list(accumulate((_length(part, piece.changed) for part, piece in word), initial=0.0))
        blank = _length(" ", False) if x else 0.0
        if x + blank + ends[-1] > width and x:
            line, x, blank = line + 1, 0.0, 0.0
        for (part, piece), left, right in zip(word, ends, ends[1:], strict=False):
            start, last = x + blank + left, placed[-1] if placed else None
            if last and last.piece is piece and last.line == line:
                joint = " " if left == 0 else ""
                placed[-1] = last._replace(end=x + blank + right, text=f"{last.text}{joint}{part}")
            else:
                placed.append(Run(line, start, x + blank + right, part, piece))
        x += blank + ends[-1]
    return placed


def draw(shown: SideBySide) -> str:
    """The drawing: radiographs and previous report on the left, a column each for the reference and the systems."""
    columns = [_SIDE + _GAP + at * (_TEXT + _GAP) for at in range(1 + len(shown.systems))]
    width = columns[-1] + _TEXT
    root = Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "font-family": "DejaVu Sans, Verdana, sans-serif"})
    left = 0.0
    for view in shown.views:
        high = _SIDE * view.ratio
        SubElement(root, "image", _numbers(x=0, y=left, width=_SIDE, height=high) | {"href": view.address})
        left = _plain(root, f"Current {view.name} radiograph", 0, left + high, _SIDE)
    for reading in shown.readings:
        if reading.prior_report:
            left = _plain(root, f"Previous report ({reading.context.upper()})", 0, left, _SIDE, bold=True)
            left = _plain(root, reading.prior_report, 0, left, _SIDE)
    y = max(_plain(root, name, x, 0, _TEXT, bold=True) for name, x in zip(("Reference", *shown.systems), columns))
    for reading in shown.readings:
        SubElement(root, "path", {"d": f"M{columns[0]} {y:.1f}H{width}", "stroke": LIGHT["--muted"]})
        y = _plain(root, f"{reading.context.upper()}: {reading.sources}", columns[0], y, width, bold=True)
        y = max(_marked(root, text, x, y, _TEXT) for text, x in zip(reading.texts, columns, strict=True)) + _GAP / 2
    legend = [piece for sample, words in LEGEND for piece in (sample, Piece(f" {words}   "))]
    y = _marked(root, legend, 0, max(y, left) + _GAP / 2, width)
    size = (width + _GAP, round(y) + _GAP)
    root.attrib |= {
        "viewBox": f"{-_GAP // 2} {-_GAP // 2} {size[0]} {size[1]}",
        "width": f"{size[0]}",
        "height": f"{size[1]}",
    }
    return tostring(root, encoding="unicode") + "\n"


def _plain(root: Element, text: str, x: float, y: float, width: float, *, bold: bool = False) -> float:
    return _marked(root, [Piece(text, changed=bold)], x, y, width)


def _marked(root: Element, text: Sequence[Piece], x: float, y: float, width: float) -> float:
    """Draw text whose first line begins at ``x``, ``y``; returns where the next one can."""
    below = y
    for run in runs(text, width):
        top, start, wide = y + run.line * _LEADING, x + run.start, run.end - run.start
        below = top + _LEADING
        attributes = _numbers(x=start, y=top + 12, textLength=wide) | {"font-size": str(_SIZE), "fill": LIGHT["--ink"]}
        attributes |= {"font-weight": "bold"} if run.piece.changed else {}
        if run.piece.support is not None:
            fill, colour, dashes = _MARKS[run.piece.support]
            if run.piece.longitudinal:
                fill, attributes = "--longitudinal", attributes | {"font-style": "italic"}
            SubElement(root, "rect", _numbers(x=start, y=top + 2, width=wide, height=13) | {"fill": LIGHT[fill]})
            waves = f"q1.5 -2.5 3 0t3 0{'t3 0t3 0' * int(wide / 6 - 1)}"
            line = waves if run.piece.support == "unverified" else f"h{wide:.1f}"
            style = {"stroke": LIGHT[colour], "stroke-dasharray": dashes, "fill": "none"}
            SubElement(root, "path", {"d": f"M{start:.1f} {top + 15:.1f}{line}"} | style)
        written = SubElement(root, "text", attributes)
        written.text = run.text
        if run.piece.about:
            SubElement(written, "title").text = run.piece.about
    return below


def _numbers(**values: float) -> dict[str, str]:
    return {name: f"{value:.1f}" for name, value in values.items()}


@cache
def _font(bold: bool) -> ImageFont.FreeTypeFont:
    # matplotlib brings this font along
    return ImageFont.truetype(
        findfont(FontProperties(family="DejaVu Sans", weight="bold" if bold else "normal")), _SIZE
    )


def _length(text: str, bold: bool) -> float:
    return _font(bold).getlength(text)
