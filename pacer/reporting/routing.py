"""Depth routing: over one radiograph, and as means over many images with and without a finding."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colorbar import Colorbar
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from PIL import Image
from safetensors.numpy import load_file

from pacer.core.errors import DataError
from pacer.metrics.chexbert.observations import OBSERVATIONS, POSITIVE, UNCERTAIN
from pacer.reporting.figures import LIGHT, STYLE, drawing, saved
from pacer.reporting.images import grid, overlays, weight_range
from pacer.reporting.tables import number

#: CheXbert classes that count as a finding being present: positive and uncertain.
PRESENT = (POSITIVE, UNCERTAIN)
#: Images with, and without, a finding below which it has no map: a mean of fewer is one patient's anatomy.
FEWEST = 5
#: Colours of more and less than the even share, or than without a finding; distinct for all readers.
DIVERGING = "RdBu_r"
_RESOLUTION = 160  # dots an inch of the PNG
_TILE, _GAP = 1.16, 0.55  # distance of two maps, and what it is more between two views, in widths of a map


@dataclass(frozen=True)
class FindingMap:
    """Mean depth weights ``[N, K]`` of the images ``with_it`` minus those of the images ``without``."""

    finding: str
    with_it: int
    without: int
    difference: np.ndarray


@dataclass(frozen=True)
class ViewRouting:
    """One view: the mean weights ``[N, K]`` over ``images``, and the maps of the findings that have enough of them."""

    view: str
    images: int
    mean: np.ndarray
    findings: tuple[FindingMap, ...]


def read_routing(directory: Path) -> dict[str, np.ndarray]:
    """Depth weights ``[N, K]`` by ``<record_id>/<view>``; empty for a model without a router."""
    path = Path(directory) / "routing.safetensors"
    return load_file(path) if path.exists() else {}


def average_routing(routing: Mapping[str, np.ndarray], cases: pl.DataFrame) -> list[ViewRouting]:
    """Mean maps by view; findings are those of the reference, positive or uncertain.

    Args:
        routing: see :func:`read_routing`; an image is in it once. cases: ``record_id`` and ``reference_labels``.

    Raises:
        DataError: images have different numbers of patches or depths.
    """
    labels = dict(cases.select("record_id", "reference_labels").iter_rows())
    found = []
    for view in ("frontal", "lateral"):
        names = [name for name in routing if name.endswith(f"/{view}") and name.rpartition("/")[0] in labels]
        if not names:
            continue
        shapes = {routing[name].shape for name in names}
        if len(shapes) > 1:
            raise DataError(f"depth weights of {view} images have the shapes {sorted(shapes)}; decode again")
        weights = np.stack([routing[name] for name in names])
        present = np.isin(np.array([labels[name.rpartition("/")[0]] for name in names]), PRESENT)
        maps = []
        for column, finding in enumerate(OBSERVATIONS):
            has = present[:, column]
            if min(has.sum(), (~has).sum()) >= FEWEST:
                difference = weights[has].mean(axis=0) - weights[~has].mean(axis=0)
                maps.append(FindingMap(finding, int(has.sum()), int((~has).sum()), difference))
        maps.sort(key=lambda one: -one.with_it)
        found.append(ViewRouting(view, len(names), weights.mean(axis=0), tuple(maps)))
    return found


def depth_names(count: int, depths: Sequence[int] | None) -> tuple[str, ...]:
    """``block 4``, ...; numbered where the encoder blocks are not known."""
    if depths is not None and len(depths) == count:
        return tuple(f"block {depth}" for depth in depths)
    return tuple(f"depth {index + 1}" for index in range(count))


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
        place = figure.add_axes((2.05 * tiles / width, 0.08, 0.12 / width, 0.74))
        bar = _bar(figure, DIVERGING, (1 / count - limit, 1 / count + limit), "depth weight of a patch", cax=place)
        bar.ax.set_ylim(max(0.0, 1 / count - limit), min(1.0, 1 / count + limit))  # the scale goes on below 0
        bar.ax.axhline(1 / count, color=LIGHT["--ink"], linewidth=0.8)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=_RESOLUTION, facecolor="white", metadata={"Software": None})
        return saved(figure), buffer.getvalue()


def _bar(figure: Any, cmap: str, ends: tuple[float, float], label: str, **where: Any) -> Colorbar:
    bar = figure.colorbar(ScalarMappable(Normalize(*ends), cmap), **where)
    bar.set_label(label, fontsize=8)
    bar.ax.tick_params(labelsize=7.5)
    return bar


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
    wide = views[0].mean.shape[1] * _TILE  # of every view
    edge = len(views) * (wide + _GAP) - _GAP

    def tile(axes: Axes, left: float, row: int, values: np.ndarray, cmap: str, low: float, high: float) -> None:
        top = row * _TILE
        axes.imshow(
            grid(values), extent=(left, left + 1, top + 1, top), interpolation="none", cmap=cmap, vmin=low, vmax=high
        )

    def draw(axes: Axes) -> None:
        rows = {finding: row for row, finding in enumerate(findings, 1)}
        for place, view in enumerate(views):
            start = place * (wide + _GAP)
            for depth, name in enumerate(depth_names(view.mean.shape[1], depths)):
                left = start + depth * _TILE
                tile(axes, left, 0, view.mean[:, depth], "cividis", 0, 1)
                axes.text(left + 0.5, -0.1, f"{name}\n{view.mean[:, depth].mean():.3f}", ha="center", fontsize=8)
                for one in view.findings:
                    tile(axes, left, rows[one.finding], one.difference[:, depth], DIVERGING, -limit, limit)
            right = start + wide - 0.08
            axes.text(start, -0.85, view.view.capitalize(), fontsize=9)
            for row, count in [(0, view.images), *((rows[one.finding], one.with_it) for one in view.findings)]:
                axes.text(right, row * _TILE + 0.5, number(count), va="center", fontsize=8, color=LIGHT["--muted"])
        places = [row * _TILE + 0.5 for row in range(len(findings) + 1)]
        axes.set_yticks(places, ["mean, all images", *findings])
        axes.tick_params(axis="y", labelcolor=LIGHT["--ink"], labelsize=8)
        axes.set(xlim=(0, edge), ylim=((len(findings) + 1) * _TILE, -1.1), aspect="equal", xticks=[])
        axes.spines[:].set_visible(False)
        axes.grid(visible=False)
        below = {"ax": axes, "location": "bottom", "shrink": 0.5, "aspect": 40, "pad": 0.01}
        _bar(axes.figure, "cividis", (0, 1), "mean weight (first row)", **below)
        if findings:
            _bar(axes.figure, DIVERGING, (-limit, limit), "with minus without (other rows)", **below)

    return drawing(2.0 + 0.64 * edge, 1.7 + 0.64 * (len(findings) + 1), draw)
