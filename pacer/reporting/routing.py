"""Depth routing over one radiograph."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from PIL import Image
from safetensors.numpy import load_file

from pacer.core.errors import DataError
from pacer.reporting.figures import LIGHT, STYLE, saved
from pacer.reporting.images import weight_range

#: Colours of more and less than the even share; distinct for all readers.
DIVERGING = "RdBu_r"
_RESOLUTION = 160  # dots an inch of the PNG


def read_routing(directory: Path) -> dict[str, np.ndarray]:
    """Depth weights ``[N, K]`` by ``<record_id>/<view>``; empty for a model without a router."""
    path = Path(directory) / "routing.safetensors"
    return load_file(path) if path.exists() else {}


def over_radiograph(grey: Image.Image, weights: np.ndarray, depths: Sequence[int], title: str) -> tuple[str, bytes]:
    """The radiograph and one map a depth side by side, with a colour bar: the SVG text and the same as PNG. Warm where
    a patch takes more of the depth than the even share, cool where less.

    Image processors of this family scale the shorter edge and keep the middle square; the patch grid spans that square.

    Args:
        grey: the radiograph. weights: ``[N, K]``, rows sum to 1; N a square grid in row-major order. depths: the K
            encoder blocks.

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
        titles = [f"block {depth}, mean {weights[:, at].mean():.3f}" for at, depth in enumerate(depths)]
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
        bar = figure.colorbar(ScalarMappable(Normalize(even - limit, even + limit), DIVERGING), cax=place)
        bar.set_label("depth weight of a patch", fontsize=8)
        bar.ax.tick_params(labelsize=7.5)
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
