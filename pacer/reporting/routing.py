"""Depth routing: over one radiograph, and as means over many images with and without a finding."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import polars as pl
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
from pacer.reporting.images import weight_range
from pacer.reporting.tables import number

#: CheXbert classes that count as a finding being present: positive and uncertain.
PRESENT = (POSITIVE, UNCERTAIN)
#: Images with, and without, a finding below which it has no map: a mean of fewer is one patient's anatomy.
FEWEST = 5
#: Colours of more and less than the even share, or than without a finding; distinct for all readers.
DIVERGING = "RdBu_r"
_RESOLUTION = 160  # dots an inch of the PNG


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
    """The radiograph and one map a depth side by side, with a colour bar: the SVG text and the same as PNG. Warm where
    a patch takes more of the depth than the even share, cool where less.

    Image processors of this family scale the shorter edge and keep the middle square; the patch grid spans that square.

    Args:
        grey: the radiograph. weights: ``[N, K]``, rows sum to 1; N a square grid in row-major order.

    Raises:
        DataError: N is not a square.
    """
    count, limit, edge = weights.shape[1], weight_range(weights), min(grey.size)
    left, top = (grey.width - edge) // 2, (grey.height - edge) // 2
    square = grey.crop((left, top, left + edge, top + edge))
    tiles = count + 1
    width = 2.05 * tiles + 0.75
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, 2.35))
        FigureCanvasAgg(figure)
        # places in inches, as a layout engine would take seconds for each radiograph
        axes = [figure.add_axes((0.03 / width + 2.05 * place / width, 0.02, 2 / width, 0.85)) for place in range(tiles)]
        titles = [f"{name}, mean {weights[:, at].mean():.3f}" for at, name in enumerate(depth_names(count, depths))]
        for one, picture, words in zip(axes, [grey, *[square] * count], [title, *titles], strict=True):
            one.imshow(np.asarray(picture), cmap="gray", vmin=0, vmax=255)
            one.set_title(words, fontsize=8.5)
            one.set_axis_off()
        even = 1 / count
        for one, values in zip(axes[1:], weights.T, strict=True):
            over, strength = _grid(values), 0.2 + 0.4 * np.abs(_grid(values) - even) / limit
            # patches keep their edges: a smooth map would show detail that the router does not have
            how: dict[str, Any] = {"interpolation": "nearest", "extent": (0, edge, edge, 0)}
            one.imshow(over, DIVERGING, vmin=even - limit, vmax=even + limit, alpha=strength, **how)
        place = figure.add_axes((2.05 * tiles / width, 0.08, 0.12 / width, 0.74))
        bar = _bar(figure, DIVERGING, (even - limit, even + limit), "depth weight of a patch", cax=place)
        bar.ax.set_ylim(max(0.0, even - limit), min(1.0, even + limit))  # the scale goes on below 0
        bar.ax.axhline(even, color=LIGHT["--ink"], linewidth=0.8)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=_RESOLUTION, facecolor="white", metadata={"Software": None})
        return saved(figure), buffer.getvalue()


def _grid(values: np.ndarray) -> np.ndarray:
    """Values of the patches ``[N]`` in their places ``[side, side]``."""
    side = math.isqrt(len(values))
    if side * side != len(values):
        raise DataError(f"depth weights of {len(values)} patches do not form a square grid")
    return values.reshape(side, side)


def _bar(figure: Any, cmap: str, ends: tuple[float, float], label: str, **where: Any) -> Colorbar:
    bar = figure.colorbar(ScalarMappable(Normalize(*ends), cmap), **where)
    bar.set_label(label, fontsize=8)
    bar.ax.tick_params(labelsize=7.5)
    return bar


def finding_maps(views: Sequence[ViewRouting], depths: Sequence[int] | None) -> str:
    """For each view a row of maps for the mean over all images, then a row for each finding, the most frequent first:
    weights with it minus without, with the number of images in brackets.

    Args:
        views: at least one.
    """
    limit = max([1e-3, *(float(np.abs(one.difference).max()) for view in views for one in view.findings)])
    scales = {"cividis": (0.0, 1.0), DIVERGING: (-limit, limit)}

    def colours(weights: np.ndarray, cmap: str) -> np.ndarray:
        """The maps of all depths side by side, with a gap behind and below each."""
        gap = ((0, 1), (0, 1))
        maps = np.hstack([np.pad(_grid(values), gap, constant_values=np.nan) for values in weights.T])
        return matplotlib.colormaps[cmap](np.ma.masked_invalid(Normalize(*scales[cmap])(maps)))

    def draw(grid: Any) -> None:
        for axes, view in zip(np.ravel(grid), views, strict=True):
            rows = [colours(view.mean, "cividis"), *(colours(one.difference, DIVERGING) for one in view.findings)]
            axes.imshow(np.vstack(rows), interpolation="none")
            side = len(rows[0]) - 1
            names = [("mean, all images", view.images), *((one.finding, one.with_it) for one in view.findings)]
            places = np.arange(max(len(rows), view.mean.shape[1])) * (side + 1) + (side - 1) / 2
            axes.set_yticks(places[: len(rows)], [f"{name} ({number(count)})" for name, count in names])
            heads = zip(depth_names(view.mean.shape[1], depths), view.mean.mean(axis=0), strict=True)
            axes.set_xticks(places[: view.mean.shape[1]], [f"{name}\n{mean:.3f}" for name, mean in heads])
            axes.tick_params(labelsize=8, labelcolor=LIGHT["--ink"], labeltop=True, labelbottom=False)
            axes.set_title(view.view.capitalize(), fontsize=9)
            axes.set_anchor("N")
            axes.spines[:].set_visible(False)
            axes.grid(visible=False)
        below = {"ax": np.ravel(grid).tolist(), "location": "bottom", "shrink": 0.5, "aspect": 40, "pad": 0.01}
        _bar(axes.figure, "cividis", scales["cividis"], "mean weight (first row)", **below)
        if any(view.findings for view in views):
            _bar(axes.figure, DIVERGING, scales[DIVERGING], "with minus without (other rows)", **below)
        axes.figure.draw_without_rendering()  # room for the names is found once the maps have their shape

    wide = sum(2.3 + 0.75 * view.mean.shape[1] for view in views)
    return drawing(wide, 1.8 + 0.75 * (1 + max(len(view.findings) for view in views)), draw, columns=len(views))
