"""Things on a radiograph that mean nothing: skin folds, buttons, an underwire, a folded sleeve.

They are no findings and no devices. They teach a model that a bright line or spot alone is no disease.
"""

from __future__ import annotations

import numpy as np

from pacer.phantom.anatomy import Exposure
from pacer.phantom.canvas import Array, Canvas, bump, curve, ramp


def add_distractor(canvas: Canvas, exposure: Exposure, across: Array) -> None:
    """Draw the study's distractor, if it has one.

    Args:
        canvas: where; its ``added`` brightness changes.
        exposure: says which distractor and where.
        across: distance from the midline.
    """
    if exposure.distractor is None:
        return
    u, v, w = exposure.distractor_place
    x, y = canvas.x, canvas.y
    if exposure.distractor == "skin fold":
        # sharp on one side and fading on the other; unlike a pleural line it has no thickness
        sign = 1.0 if w > 0 else -1.0
        distance = sign * x - np.float32(0.52 + 0.14 * u) + np.float32(0.30 * v) * (y - 0.1)
        fade = np.clip(1.0 - distance / 0.22, 0.0, 1.0) * (distance > 0)
        canvas.added += 0.07 * fade * ramp(0.62 - np.abs(y - 0.1 - 0.1 * w), 0.2)
    elif exposure.distractor == "buttons":
        place = 0.10 * u
        for step in range(3 + (w > 0)):
            height = -0.62 + 0.08 * v + 0.42 * step
            spot = (np.square(x - np.float32(place)) + np.square(y - np.float32(height))) / 0.0016
            canvas.added += 0.16 * np.sqrt(bump(spot))
    elif exposure.distractor == "underwire":
        low, reach = 0.62 + 0.06 * u, 0.24 + 0.03 * v
        points = ((0.44 - reach, 0.40), (0.44, low + 0.20), (0.44 + reach, 0.36))
        arcs = [curve(*((sign * place, height) for place, height in points), points=8) for sign in (-1, 1)]
        canvas.added += 0.11 * canvas.stroke(arcs, 0.022)
    else:
        # a folded sleeve or blanket: a soft band beside the chest or across its top
        beside = np.abs(across - np.float32(0.93 + 0.04 * u))
        band = np.abs(y + np.float32(0.80 + 0.1 * u) - np.float32(0.25 * v) * x) if w > 0 else beside
        canvas.added += 0.06 * ramp(0.05 - band, 0.05)
