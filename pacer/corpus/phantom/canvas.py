"""A square canvas in body coordinates, on which both views are drawn.

Coordinates run from -1 to 1 over the image, x to the image's right, y downwards; lengths are in half image widths.
The frontal view is seen from the front, so the patient's right lies at negative x. Brightness is 0 (black) to 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from PIL import Image, ImageDraw

from pacer.corpus.phantom.world import Anatomy

Point = tuple[float, float]
Array = np.ndarray

#: Strokes are drawn at this multiple of the resolution and averaged down.
OVERSAMPLING = 3
#: Number of different noise patterns.
PATTERNS = 6


@lru_cache(maxsize=4)
def pixel_centres(size: int) -> tuple[Array, Array]:
    """x and y of every pixel's centre, each float32 [size, size]."""
    line = ((np.arange(size, dtype=np.float32) + 0.5) * (2.0 / size) - 1.0).astype(np.float32)
    return np.broadcast_to(line, (size, size)).copy(), np.broadcast_to(line[:, None], (size, size)).copy()


@lru_cache(maxsize=64)
def smooth_noise(size: int, cells: int, pattern: int) -> Array:
    """Smooth noise with ``cells`` lattice cells along a side, zero mean, unit deviation; float32 [size, size]."""
    lattice = np.random.default_rng([cells, pattern]).standard_normal((cells, cells)).astype(np.float32)
    noise = np.asarray(Image.fromarray(lattice).resize((size, size), Image.Resampling.BICUBIC), dtype=np.float32)
    return (noise - noise.mean()) / noise.std()


def ramp(distance: Array, width: float) -> Array:
    """0 to 1 across an edge of ``width``; one half where ``distance`` is 0."""
    return np.clip(distance * np.float32(1.0 / width) + np.float32(0.5), 0.0, 1.0)


def bump(squared: Array) -> Array:
    """A smooth hill that is 1 at 0 and reaches 0 where its argument, a squared scaled radius, is 1."""
    return np.square(np.clip(1.0 - squared, 0.0, 1.0))


class Canvas:
    """Collects what is drawn: soft tissue that takes the place of air, added brightness, and regions of findings.

    Attributes:
        x, y: body coordinates of every pixel, undoing the study's shift, tilt and scale; float32 [size, size].
        clear: share of the air that opacities leave.
        added: brightness to add.
        regions: for each finding drawn, how much of each pixel belongs to it, 0 to 1.
    """

    def __init__(self, size: int, anatomy: Anatomy):
        self.size = size
        self.anatomy = anatomy
        self._cos = math.cos(anatomy.tilt) * anatomy.scale
        self._sin = math.sin(anatomy.tilt) * anatomy.scale
        x, y = pixel_centres(size)
        x, y = x - np.float32(anatomy.shift[0]), y - np.float32(anatomy.shift[1])
        squared = anatomy.scale**2
        cos, sin = np.float32(self._cos / squared), np.float32(self._sin / squared)
        self.x = cos * x + sin * y
        self.y = cos * y - sin * x
        self.clear = np.ones((size, size), dtype=np.float32)
        self.added = np.zeros((size, size), dtype=np.float32)
        self.regions: dict[str, Array] = {}

    def fill(self, opacity: Array) -> None:
        """Replace the share ``opacity`` of the air by soft tissue."""
        self.clear *= 1.0 - np.clip(opacity, 0.0, 1.0)

    def claim(self, finding: str, region: Array) -> None:
        """Add ``region`` (0 to 1) to where ``finding`` shows."""
        region = np.clip(region, 0.0, 1.0)
        known = self.regions.get(finding)
        self.regions[finding] = region if known is None else np.maximum(known, region)

    def stroke(self, lines: Sequence[Sequence[Point]], width: float) -> Array:
        """Coverage (0 to 1) of poly-lines of the given width; float32 [size, size]."""
        side = self.size * OVERSAMPLING
        scale, image = side / 2.0, Image.new("L", (side, side))
        draw = ImageDraw.Draw(image)
        pixels = max(1, round(width * scale))
        for line in lines:
            placed = [self._place(point, scale) for point in line]
            draw.line(placed, fill=255, width=pixels, joint="curve")
        return np.asarray(image.reduce(OVERSAMPLING), dtype=np.float32) * np.float32(1 / 255)

    def polygon(self, corners: Sequence[Point]) -> Array:
        """Coverage (0 to 1) of a polygon; float32 [size, size]."""
        side = self.size * OVERSAMPLING
        scale, image = side / 2.0, Image.new("L", (side, side))
        ImageDraw.Draw(image).polygon([self._place(point, scale) for point in corners], fill=255)
        return np.asarray(image.reduce(OVERSAMPLING), dtype=np.float32) * np.float32(1 / 255)

    def _place(self, point: Point, scale: float) -> Point:
        x, y = point
        return (
            (self._cos * x - self._sin * y + self.anatomy.shift[0] + 1.0) * scale,
            (self._sin * x + self._cos * y + self.anatomy.shift[1] + 1.0) * scale,
        )

    def finish(self, density: Array, air: Array, air_depth: float, rng: np.random.Generator) -> Array:
        """The exposed radiograph, uint8 [size, size]: tissue minus the air that is left, plus what was added."""
        image = density - np.float32(air_depth) * air * self.clear + self.added
        noise = rng.standard_normal((self.size, self.size), dtype=np.float32)
        image = image * np.float32(self.anatomy.gain) + noise * np.float32(self.anatomy.noise)
        image += np.float32(self.anatomy.brightness)
        return (np.clip(image, 0.0, 1.0) * np.float32(255.0)).astype(np.uint8)


def curve(start: Point, control: Point, end: Point, points: int = 12) -> list[Point]:
    """A quadratic Bezier curve as a poly-line."""
    steps = [i / (points - 1) for i in range(points)]
    return [
        (
            (1 - t) ** 2 * start[0] + 2 * t * (1 - t) * control[0] + t * t * end[0],
            (1 - t) ** 2 * start[1] + 2 * t * (1 - t) * control[1] + t * t * end[1],
        )
        for t in steps
    ]
