"""Conversion of brightness to a printed radiograph: objects on the body, blur, noise, contrast, borders, marker, label.

Objects on the body use body coordinates; all else uses detector coordinates. In both, x runs to the right and y
downwards, from -1 to 1.
"""

import numpy as np

from pacer.phantom.anatomy import Exposure
from pacer.phantom.canvas import Array, Canvas, bump, curve, pixel_centres, ramp

#: Side markers as 5 x 7 rasters.
_GLYPHS = {
    "L": ("10000", "10000", "10000", "10000", "10000", "10000", "11111"),
    "R": ("11110", "10001", "10001", "11110", "10100", "10010", "10001"),
}
_STEPS = 1024


def add_distractor(canvas: Canvas, exposure: Exposure) -> None:
    """Draw the study's distractor, if it has one: a skin fold, buttons, an underwire or a folded sleeve.

    Distractors are neither findings nor devices; they teach a model that a bright line or spot is not always disease.
    """
    if exposure.distractor is None:
        return
    u, v, w = exposure.distractor_place
    x, y = canvas.x, canvas.y
    if exposure.distractor == "skin fold":
        # sharp on one side and fading on the other; unlike a pleural line, it is an edge without thickness
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
        # a folded sleeve or blanket: a soft band next to the chest or across its top
        beside = np.abs(np.abs(x) - np.float32(0.93 + 0.04 * u))
        band = np.abs(y + np.float32(0.80 + 0.1 * u) - np.float32(0.25 * v) * x) if w > 0 else beside
        canvas.added += 0.06 * ramp(0.05 - band, 0.05)


def expose(image: Array, exposure: Exposure, rng: np.random.Generator, frontal: bool) -> Array:
    """Convert brightness to the printed radiograph, uint8 [size, size].

    Args:
        image: brightness, about 0 to 1, float32 [size, size]. rng: generates the noise.
        frontal: on a frontal view the marker is on the patient's corresponding side; on a lateral, on either side.
    """
    size = image.shape[0]
    x, y = pixel_centres(size)
    image = _blurred(image, np.float32(exposure.blur))
    corner = np.square(x - np.float32(exposure.centre[0])) + np.square(y - np.float32(exposure.centre[1]))
    image = image * (1.0 - np.float32(0.5 * exposure.vignette) * corner)
    # fewer quanta pass through dense tissue, so bright parts are noisier
    deviation = np.float32(exposure.noise) * (np.float32(0.6) + image)
    image = image + rng.standard_normal((size, size), dtype=np.float32) * deviation
    if exposure.grid:
        rows = np.arange(size, dtype=np.float32) * np.float32(2.0 * np.pi / exposure.grid_period)
        image += (np.float32(exposure.grid) * np.sin(rows))[:, None]
    steps = (np.clip(image, 0.0, 1.0) * np.float32(_STEPS - 1)).astype(np.int16)
    printed = _scale(exposure)[steps]
    _collimate(printed, exposure)
    if exposure.label:
        _burn_label(printed, exposure)
    if exposure.marker:
        _place_marker(printed, exposure, frontal)
    return printed


def _blurred(image: Array, share: np.float32) -> Array:
    """Spread a share of every pixel to its four neighbours."""
    padded = np.pad(image, 1, mode="edge")
    across = padded[1:-1, :-2] + padded[1:-1, 2:] + padded[:-2, 1:-1] + padded[2:, 1:-1]
    return image * (1 - share) + across * (share / 4)


def _scale(exposure: Exposure) -> Array:
    """Return the grey value of each brightness step, uint8 [1024]."""
    level = np.linspace(0.0, 1.0, _STEPS, dtype=np.float32) ** np.float32(exposure.gamma)
    level = (level - 0.4) * np.float32(exposure.gain) + np.float32(0.4 + exposure.brightness)
    return (np.clip(level, 0.0, 1.0) * np.float32(255.0)).astype(np.uint8)


def _collimate(printed: Array, exposure: Exposure) -> None:
    """Draw black borders outside the collimated beam."""
    size = len(printed)
    left, top, right, bottom = (round(width * size / 2) for width in exposure.collimation)
    printed[:, :left] = printed[:, size - right :] = 3
    printed[:top] = printed[size - bottom :] = 3


def _burn_label(printed: Array, exposure: Exposure) -> None:
    """Draw a box with print-like lines in a corner, dark on bright or bright on dark."""
    size = len(printed)
    width, height = round(0.15 * size), round(0.055 * size)
    top = 1 if exposure.label_corner < 2 else size - height - 1
    left = 1 if exposure.label_corner % 2 == 0 else size - width - 1
    ground, ink = (12, 205) if exposure.label == 1 else (215, 40)
    printed[top : top + height, left : left + width] = ground
    printed[top + 1 : top + height - 1 : 3, left + 1 : left + width - 2] = ink
    printed[top + 1 : top + height - 1, left + 3 : left + width : 4] = ground


def _place_marker(printed: Array, exposure: Exposure, frontal: bool) -> None:
    """Draw the marker in an upper corner next to the neck; on frontal views it is on the patient's marked side."""
    size = len(printed)
    pixels = max(1, round(size / 80))  # per dot
    dots = np.array([[dot == "1" for dot in row] for row in _GLYPHS[exposure.marker]])
    glyph = np.kron(dots, np.ones((pixels, pixels), dtype=bool))
    height, width = glyph.shape
    u, v = exposure.marker_place
    inward = round((0.045 + 0.05 * u) * size)
    on_right = exposure.marker == "L" if frontal else u > 0.5
    left = size - inward - width if on_right else inward
    top = round((0.05 + 0.14 * v) * size)
    area = printed[top : top + height, left : left + width]
    area[glyph] = 245
