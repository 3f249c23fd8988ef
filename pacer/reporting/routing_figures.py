"""Drawings of depth routing: over one radiograph, and averaged by finding."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from PIL import Image

from pacer.reporting.figures import LIGHT, STYLE, drawing, saved
from pacer.reporting.images import overlays, weight_range
from pacer.reporting.routing import ViewRouting, depth_names, grid
from pacer.reporting.tables import number

#: Colours of more and less than the even share, or than without a finding; told apart by all readers.
DIVERGING = "RdBu_r"
_RESOLUTION = 160  # dots an inch of the PNG
_TILE = 1.16  # distance of two maps, in widths of one


def over_radiograph(
    grey: Image.Image, weights: np.ndarray, depths: Sequence[int] | None, title: str
) -> tuple[str, bytes]:
    """The radiograph and one map a depth side by side, with a colour bar: the SVG text and the same as PNG.

    Args:
        grey: the radiograph. weights: ``[N, K]``, rows sum to 1.
    """
    count, limit = weights.shape[1], weight_range(weights)
    names = depth_names(count, depths)
    tiles = count + 1
    width = 2.05 * tiles + 0.75
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, 2.35))
        FigureCanvasAgg(figure)
        # places in inches, as a layout engine would take seconds for each radiograph
        axes = [figure.add_axes((0.03 / width + 2.05 * place / width, 0.02, 2 / width, 0.85)) for place in range(tiles)]
        _picture(axes[0], grey, title, cmap="gray")
        for place, (name, overlay) in enumerate(zip(names, overlays(grey, weights), strict=True)):
            _picture(axes[place + 1], overlay, f"{name}, mean {weights[:, place].mean():.3f}")
        scale = ScalarMappable(Normalize(1 / count - limit, 1 / count + limit), DIVERGING)
        bar = figure.colorbar(scale, cax=figure.add_axes((2.05 * tiles / width, 0.08, 0.12 / width, 0.74)))
        bar.set_label("depth weight of a patch", fontsize=8)
        bar.ax.tick_params(labelsize=7.5)
        bar.ax.set_ylim(max(0.0, 1 / count - limit), min(1.0, 1 / count + limit))  # the scale goes on below 0
        bar.ax.axhline(1 / count, color=LIGHT["--ink"], linewidth=0.8)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=_RESOLUTION, facecolor="white", metadata={"Software": None})
        return saved(figure), buffer.getvalue()


def _picture(axes: Axes, image: Image.Image, title: str, **how: Any) -> None:
    axes.imshow(np.asarray(image), **how)
    axes.set_title(title, fontsize=8.5)
    axes.set_axis_off()


def finding_maps(views: Sequence[ViewRouting], depths: Sequence[int] | None) -> str:
    """A row of maps for the mean over all images, then a row for each finding: weights with it minus without.

    Args:
        views: at least one; each takes as many columns as it has depths.
    """
    # the finding with most images in the first view first
    counts = {one.finding: one.with_it for view in reversed(views) for one in view.findings}
    findings = sorted(counts, key=lambda finding: -counts[finding])
    limit = max([1e-3, *(float(np.abs(one.difference).max()) for view in views for one in view.findings)])
    edge = _tile_edge(views[-1], len(views) - 1) + views[-1].mean.shape[1] * _TILE

    def tile(axes: Axes, left: float, row: int, values: np.ndarray, **colours: Any) -> None:
        top = row * _TILE
        axes.imshow(grid(values), extent=(left, left + 1, top + 1, top), interpolation="none", **colours)

    def draw(axes: Axes) -> None:
        rows = {finding: row for row, finding in enumerate(findings, 1)}
        for place, view in enumerate(views):
            start = _tile_edge(view, place)
            for depth, name in enumerate(depth_names(view.mean.shape[1], depths)):
                left = start + depth * _TILE
                tile(axes, left, 0, view.mean[:, depth], cmap="cividis", vmin=0, vmax=1)
                axes.text(left + 0.5, -0.1, f"{name}\n{view.mean[:, depth].mean():.3f}", ha="center", fontsize=8)
                for one in view.findings:
                    tile(
                        axes, left, rows[one.finding], one.difference[:, depth], cmap=DIVERGING, vmin=-limit, vmax=limit
                    )
            right = start + view.mean.shape[1] * _TILE - 0.08
            axes.text(start, -0.85, view.view.capitalize(), fontsize=9)
            for row, count in [(0, view.images), *((rows[one.finding], one.with_it) for one in view.findings)]:
                axes.text(right, row * _TILE + 0.5, number(count), va="center", fontsize=8, color=LIGHT["--muted"])
        places = [row * _TILE + 0.5 for row in range(len(findings) + 1)]
        axes.set_yticks(places, ["mean, all images", *findings])
        axes.tick_params(axis="y", labelcolor=LIGHT["--ink"], labelsize=8)
        axes.set(xlim=(0, edge), ylim=((len(findings) + 1) * _TILE, -1.1), aspect="equal", xticks=[])
        axes.spines[:].set_visible(False)
        axes.grid(visible=False)
        for cmap, low, high, label in (
            ("cividis", 0, 1, "mean weight (first row)"),
            (DIVERGING, -limit, limit, "with minus without (other rows)"),
        ):
            if cmap == DIVERGING and not findings:
                continue
            bar = axes.figure.colorbar(
                ScalarMappable(Normalize(low, high), cmap), ax=axes, location="bottom", shrink=0.5, aspect=40, pad=0.01
            )
            bar.set_label(label, fontsize=8)
            bar.ax.tick_params(labelsize=7.5)

    return drawing(2.0 + 0.64 * edge, 1.7 + 0.64 * (len(findings) + 1), draw)


def _tile_edge(view: ViewRouting, place: int) -> float:
    """Where the maps of a view begin; views have the same depths."""
    return place * (view.mean.shape[1] * _TILE + 0.55)
