"""Charts of the training logs: one panel of curves, and the quantities that run through the three phases."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from pacer.reporting.figures import LIGHT, SERIES, drawing
from pacer.reporting.training_logs import Curve, Panel

#: Log name, axis label of what is followed over all phases.
FOLLOWED = (("rho", "ρ, direct route"), ("alpha", "α_D, residual"))


def curve_chart(panel: Panel) -> str:
    """Lines over updates; a logarithmic axis when the positive values span more than a factor of 50."""
    values = [v for _, curve in panel.curves for v in curve.values if math.isfinite(v)]
    logarithmic = bool(values) and min(values) > 0 and max(values) / min(values) > 50

    def draw(axes: Axes) -> None:
        for index, (label, curve) in enumerate(panel.curves):
            marker = "o" if len(curve.steps) < 12 else None
            colour = LIGHT[SERIES[index % len(SERIES)]]
            style = "-" if index < len(SERIES) else "--"
            axes.plot(curve.steps, curve.values, style, color=colour, label=label, marker=marker, markersize=2.5)
        axes.set_xlabel("update")
        if logarithmic:
            axes.set_yscale("log")
        else:
            axes.yaxis.set_major_locator(MaxNLocator(5))
            axes.margins(y=0.12)
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.ticklabel_format(axis="x", style="plain")
        if len(panel.curves) > 1:
            axes.legend(loc="best", handlelength=1.4, labelspacing=0.25)

    return drawing(3.6, 2.3, draw)


def schedule_chart(phases: Mapping[str, Mapping[str, Curve]]) -> str | None:
    """ρ and α_D over the updates of all phases, one after another; None where no phase logs either.

    Args:
        phases: phase -> its curves by name, in the order of training.
    """
    shown = [(name, label) for name, label in FOLLOWED if any(name in curves for curves in phases.values())]
    if not shown:
        return None
    lengths = [
        max((step for curve in curves.values() for step in curve.steps), default=0) for curves in phases.values()
    ]
    starts = [sum(lengths[:place]) for place in range(len(lengths))]

    def draw(grid: Any) -> None:
        rows: Sequence[Axes] = grid if len(shown) > 1 else [grid]
        for axes, (name, label) in zip(rows, shown, strict=True):
            for start, (phase, curves) in zip(starts, phases.items(), strict=True):
                if name in curves:
                    curve = curves[name]
                    steps = [start + step for step in curve.steps]
                    axes.plot(steps, curve.values, color=LIGHT["--series-1"], marker="o" if len(steps) == 1 else None)
                if start:
                    axes.axvline(start, color=LIGHT["--muted"], linewidth=0.8, linestyle=(0, (3, 3)))
                if axes is rows[0]:
                    axes.annotate(
                        phase,
                        (start, 1.03),
                        xycoords=("data", "axes fraction"),
                        fontsize=8.5,
                        xytext=(3, 0),
                        textcoords="offset points",
                    )
            axes.set_ylabel(label, fontsize=8)
            axes.yaxis.set_major_locator(MaxNLocator(4))
            axes.margins(x=0, y=0.12)
        rows[0].set_ylim(-0.03, 1.05) if shown[0][0] == "rho" else None
        rows[-1].set_xlabel("updates of all phases, one after another")
        rows[-1].xaxis.set_major_locator(MaxNLocator(6, integer=True))
        rows[-1].ticklabel_format(axis="x", style="plain")

    return drawing(6.6, 0.6 + 1.55 * len(shown), draw, rows=len(shown), sharex=True)
