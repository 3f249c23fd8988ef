"""README's picture: an example study of the last run, its depth weights, and PACER's commitment and report.

    python bench/example_picture.py docs/figures/example.png            the first example of the page
    python bench/example_picture.py docs/figures/example.png --study 2  the second

Run it in the root of the repository, on the outputs that the report page was made from. The maps are the page's.
"""

from __future__ import annotations

import argparse
import base64
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from pacer.commitments.anchor import POLARITIES
from pacer.config import load_params
from pacer.reporting.cases import CaseImage, ContextReport, example_cases
from pacer.reporting.figures import LIGHT
from pacer.reporting.results import read_results

#: Background of a marked phrase, as in the page's style sheet, and its meaning.
MARKS = {
    "matching": ("#d9efdf", "both reports say it"),
    "reference-only": ("#fdeec2", "only the reference says it"),
    "unverified": ("#f7dcea", "the reference does not say it"),
}
SIGNS = {"positive": "+", "negative": "−", "uncertain": "?"}
#: Height of a line of text, as a share of the area for texts.
LINE = 0.13

#: A word and its background, or None.
Word = tuple[str, str | None]


def opened(address: str) -> Image.Image:
    """Return the image in a ``data:`` address."""
    return Image.open(io.BytesIO(base64.b64decode(address.split(",", 1)[1])))


def draw_maps(row: Iterable[Axes], image: CaseImage) -> None:
    """Draw the radiograph, then each depth's map over it."""
    overlay = image.overlay
    assert overlay is not None, "the run has no depth weights"
    tiles = [(f"{image.name} view", None), *((f"block {m.depth}, mean {m.mean:.3f}", m.address) for m in overlay.maps)]
    for axes, (title, address) in zip(row, tiles, strict=True):
        radiograph = opened(overlay.address).convert("L")
        extent = (0, radiograph.width, radiograph.height, 0)
        axes.imshow(radiograph, cmap="gray", extent=extent)
        if address is not None:
            axes.imshow(opened(address), extent=extent, interpolation="nearest")
        axes.set_title(title, fontsize=9, loc="left")
        axes.axis("off")


def write(axes: Axes, words: Iterable[Word], left: float, right: float, down: float) -> None:
    """Write words from ``left`` to ``right`` in lines, the first at height ``down``."""
    canvas = FigureCanvasAgg(axes.figure.figure)
    at = left
    for word, background in words:
        box = None if background is None else {"facecolor": background, "edgecolor": "none", "pad": 1.5}
        text = axes.text(at, down, word, fontsize=9, va="top", bbox=box)
        width = text.get_window_extent(canvas.get_renderer()).width / axes.get_window_extent().width
        if at + width > right and at > left:
            at, down = left, down - LINE
            text.set_position((at, down))
        at += width + (0.006 if background is None else 0.009)


def reading(axes: Axes, report: ContextReport) -> None:
    """Write the reference report on the left; commitment and report on the right; the legend below."""

    def marked(spans: Iterable) -> list[Word]:
        colours = {mark: colour for mark, (colour, _) in MARKS.items()}
        return [(word, next(map(colours.get, s.marks), None)) for s in spans for word in s.text.split()]

    committed = report.prediction["anchor"] or {}
    chips = [(f"{SIGNS[p]} {name} ", "#eef1f4") for p in POLARITIES for name in committed.get(p, [])]
    for left, title in ((0, "Reference report"), (0.42, f"PACER (sources: {report.sources}): commitment, then report")):
        axes.text(left, 1, title, weight="bold", va="top", fontsize=9, color=LIGHT["--muted"])
    write(axes, marked(report.reference), 0, 0.38, 0.82)
    write(axes, chips or [("none", None)], 0.42, 1, 0.82)
    write(axes, marked(report.generated), 0.42, 1, 0.5)
    write(axes, [(meaning, colour) for colour, meaning in MARKS.values()], 0, 1, 0.12)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--study", type=int, default=1, help="number of the example on the page, from 1")
    options = parser.parse_args()
    data = [Path("data") / name for name in ("corpus", "anchors", "emphasis")]
    results = read_results(*data, Path("predictions"), Path("metrics"), load_params())
    case = example_cases(results)[options.study - 1]
    figure = Figure(figsize=(9.5, 4.4), dpi=150)
    halves: Any = figure.subfigures(2, 1, height_ratios=(1.25, 1))
    top, bottom = halves
    draw_maps(top.subplots(1, 1 + len(results.params.features.depths), gridspec_kw={"wspace": 0.05}), case.images[0])
    top.subplots_adjust(left=0.02, right=0.98, bottom=0.02, top=0.9)
    axes = bottom.add_axes((0.02, 0.02, 0.96, 0.94))
    axes.axis("off")
    reading(axes, case.reports[0])
    figure.savefig(options.out)


if __name__ == "__main__":
    main()
