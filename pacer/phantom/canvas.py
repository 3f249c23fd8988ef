"""A square canvas in body coordinates, on which both views are drawn, and shared functions.

Coordinates run from -1 to 1 across the image, x to the image's right, y downwards; lengths are in
half image widths. The frontal view is seen from the front, so the patient's right is at negative x.
Brightness is 0 (black) to 1.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from PIL import Image, ImageDraw

from pacer.phantom.world import FindingState, PhantomStudy

Point = tuple[float, float]
Array = np.ndarray

#: Strokes are drawn at this multiple of the resolution and averaged down.
OVERSAMPLING = 3
#: Number of texture sheets; each image shows a different window of one sheet.
PATTERNS = 8


@lru_cache(maxsize=4)
def pixel_centres(size: int) -> tuple[Array, Array]:
    """Return x and y of every pixel's centre, each float32 [size, size]."""
    line = ((np.arange(size, dtype=np.float32) + 0.5) * (2.0 / size) - 1.0).astype(np.float32)
    x = np.broadcast_to(line, (size, size)).copy()
    y = np.broadcast_to(line[:, None], (size, size)).copy()
    return x, y


@lru_cache(maxsize=64)
def _sheet(size: int, cells: int, pattern: int) -> Array:
    """Generate smooth noise at twice the image size, with zero mean and unit deviation; float32 [2
    size, 2 size]."""
    rng = np.random.default_rng([cells, pattern])
    lattice = Image.fromarray(rng.standard_normal((2 * cells, 2 * cells)).astype(np.float32))
    enlarged = lattice.resize((2 * size, 2 * size), Image.Resampling.BICUBIC)
    noise = np.asarray(enlarged, np.float32)
    return (noise - noise.mean()) / noise.std()


def smooth_noise(size: int, cells: int, choice: float, place: Point = (0.0, 0.0)) -> Array:
    """Return smooth noise with ``cells`` lattice cells per side, approximately zero mean and unit
    deviation; float32 [size, size]. Numbers in [0, 1) select the sheet (``choice``) and the window
    on it (``place``)."""
    left = int(place[0] * size)
    top = int(place[1] * size)
    return _sheet(size, cells, int(choice * PATTERNS))[top : top + size, left : left + size]


def ramp(distance: Array, width: float) -> Array:
    """Rise from 0 to 1 across an edge of ``width``; one half where ``distance`` is 0."""
    return np.clip(distance * np.float32(1.0 / width) + np.float32(0.5), 0.0, 1.0)


def bump(squared: Array) -> Array:
    """Evaluate a smooth hill of a squared scaled radius: 1 at 0, falling to 0 at 1."""
    return np.square(np.clip(1.0 - squared, 0.0, 1.0))


# A world must be the same on every processor, but numpy's float32 functions are not: powers are
# rounded differently with AVX-512, and sine and cosine without an instruction that multiplies and
# adds with one rounding. So the power is computed in float64, and sine and cosine take the steps
# that numpy takes with that instruction.
_MINUS_QUARTER = (-1.570796, -3.1391647e-07, -5.3903025e-15)  # -pi/2, as a sum
_SINE = (2.8404097e-06, -0.00019856491, 0.008333397, -0.16666667)
_COSINE = (2.4372266e-05, -0.001388652, 0.04166662, -0.5, 1.0)


def power(base: Array, exponent: float) -> Array:
    """Return float32 numbers to a power, whose exponent is rounded to float32."""
    return (base.astype(np.float64) ** np.float64(np.float32(exponent))).astype(np.float32)


def sine(angle: Array) -> Array:
    """Return the sine of float32 angles of at most some thousand radians."""
    return _wave(angle, 0)


def cosine(angle: Array) -> Array:
    """Return the cosine of float32 angles of at most some thousand radians."""
    return _wave(angle, 1)


def _wave(angle: Array, ahead: int) -> Array:
    """Return the sine of angles that are larger by ``ahead`` quarters of a turn."""
    quarters = np.rint(angle * np.float64(np.float32(2.0 / np.pi)))
    rest = angle
    for part in _MINUS_QUARTER:
        rest = _multiply_add(quarters, np.float32(part), rest)
    square = rest * rest
    rising = _multiply_add(_polynomial(_SINE, square) * square, rest, rest)
    quadrant = quarters.astype(np.int32) + ahead
    value = np.where(quadrant & 1, _polynomial(_COSINE, square), rising)
    return np.where(quadrant & 2, -value, value)


def _polynomial(coefficients: Sequence[float], x: Array) -> Array:
    """Evaluate a polynomial by Horner's rule; the coefficient of the highest power comes first."""
    value = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        value = _multiply_add(value, x, np.float32(coefficient))
    return value


def _multiply_add(first: Array, second: Array | np.float32, third: Array | np.float32) -> Array:
    """Return ``first * second + third`` of float32 numbers, with one rounding."""
    return (first.astype(np.float64) * second + third).astype(np.float32)


class Canvas:
    """Accumulates the drawing of one view of an examination: soft tissue that replaces air, added
    brightness, and regions of findings.

    Args:
        size: pixels per side.
        bend: sideways swing of the whole body along its height.
        purpose: of the random numbers of this view.
        turned: relative widening of the half at positive x; the other half is narrowed equally.

    Attributes:
        texture: a number in [0, 1) that selects the texture sheets.
        window: two numbers in [0, 1) that select the window on them.
        x, y: body coordinates of every pixel, with the body's shape and position undone; float32
            [size, size].
        clear: share of the air that opacities leave.
        added: brightness to add.
        regions: share of each pixel, 0 to 1, that each drawn finding covers.
    """

    def __init__(
        self, study: PhantomStudy, size: int, bend: float, purpose: int, turned: float = 0.0
    ):
        anatomy = study.anatomy
        self.study = study
        self.size = size
        self.anatomy = anatomy
        self.rng = study.rng(purpose)
        left, top, self.texture = self.rng.random(3).tolist()
        self.window = (left, top)
        self._bend = bend
        self._turned = turned
        self._cos = math.cos(anatomy.tilt) * anatomy.scale
        self._sin = math.sin(anatomy.tilt) * anatomy.scale
        pixel_x, pixel_y = pixel_centres(size)
        shifted_x = pixel_x - np.float32(anatomy.shift[0])
        shifted_y = pixel_y - np.float32(anatomy.shift[1])
        cos = np.float32(self._cos / anatomy.scale**2)
        sin = np.float32(self._sin / anatomy.scale**2)
        self.y = (cos * shifted_y - sin * shifted_x) * np.float32(anatomy.aspect)
        swing = np.float32(bend) * sine(np.float32(2.4) * self.y + np.float32(anatomy.bend_phase))
        x = (cos * shifted_x + sin * shifted_y - swing) / np.float32(anatomy.aspect)
        self.x = np.where(x > 0, x / np.float32(1.0 + turned), x / np.float32(1.0 - turned))
        self.clear = np.ones((size, size), dtype=np.float32)
        self.added = np.zeros((size, size), dtype=np.float32)
        self.regions: dict[str, Array] = {}

    def fill(self, opacity: Array) -> None:
        """Replace the share ``opacity`` of the air by soft tissue."""
        self.clear *= 1.0 - np.clip(opacity, 0.0, 1.0)

    def claim(self, finding: str, region: Array) -> None:
        """Add ``region`` (0 to 1) to the region of ``finding``."""
        region = np.clip(region, 0.0, 1.0)
        known = self.regions.get(finding)
        self.regions[finding] = region if known is None else np.maximum(known, region)

    def stroke(self, lines: Sequence[Sequence[Point]], width: float) -> Array:
        """Return the coverage (0 to 1) of polylines of the given width; float32 [size, size]."""
        pixels = max(1, round(width * self.size * OVERSAMPLING / 2.0))
        return self._coverage(
            lines, lambda draw, line: draw.line(line, fill=255, width=pixels, joint="curve")
        )

    def polygon(self, corners: Sequence[Point]) -> Array:
        """Return the coverage (0 to 1) of a polygon; float32 [size, size]."""
        return self._coverage([corners], lambda draw, line: draw.polygon(line, fill=255))

    def draw_devices(
        self,
        state: FindingState,
        lines: dict[str, list[list[Point]]],
        case: Sequence[Point],
        brightness: float,
    ) -> None:
        """Draw support devices: the ``lines`` of each, which are thick for tubes, and the ``case``
        of a pacemaker, with its brightness."""
        if "pacemaker" in state.devices:
            opaque = self.polygon(case)
            self.added += brightness * opaque
            self.claim(state.finding, opaque)
        is_thick = ("endotracheal tube", "chest tube")
        thin = [
            line for device in state.devices if device not in is_thick for line in lines[device]
        ]
        thick = [line for device in state.devices if device in is_thick for line in lines[device]]
        for drawn, width in ((thin, 0.034), (thick, 0.050)):
            if drawn:
                self.added += (0.31 + 0.09 * state.position[0]) * self.stroke(drawn, width)
        self.claim(state.finding, self.stroke(thin + thick, 0.08))

    def gas(self, x: Array) -> Array:
        """Return the stomach's gas bubble, 0 to 1; ``x``: distance from its centre."""
        _, height, size = self.anatomy.gas
        reach = np.float32(0.008 + 0.022 * size)
        return bump(np.square(x) / reach + np.square(self.y - np.float32(height)) / (0.35 * reach))

    def _coverage(
        self, shapes: Sequence[Sequence[Point]], paint: Callable[[ImageDraw.ImageDraw, list], None]
    ) -> Array:
        side = self.size * OVERSAMPLING
        image = Image.new("L", (side, side))
        draw = ImageDraw.Draw(image)
        for points in shapes:
            paint(draw, [self._place(point, side / 2.0) for point in points])
        return np.asarray(image.reduce(OVERSAMPLING), dtype=np.float32) * np.float32(1 / 255)

    def _place(self, point: Point, scale: float) -> Point:
        x, y = point
        widening = 1.0 + self._turned if x > 0 else 1.0 - self._turned
        x = x * widening * self.anatomy.aspect
        x += self._bend * math.sin(2.4 * y + self.anatomy.bend_phase)
        y /= self.anatomy.aspect
        return (
            (self._cos * x - self._sin * y + self.anatomy.shift[0] + 1.0) * scale,
            (self._sin * x + self._cos * y + self.anatomy.shift[1] + 1.0) * scale,
        )


def curve(start: Point, control: Point, end: Point, points: int = 12) -> list[Point]:
    """Return a quadratic Bezier curve as a polyline."""
    steps = [i / (points - 1) for i in range(points)]
    axes = [
        [(1 - t) ** 2 * first + 2 * t * (1 - t) * middle + t * t * last for t in steps]
        for first, middle, last in zip(start, control, end, strict=True)
    ]
    return list(zip(*axes, strict=True))


def further(state: FindingState, count: int) -> list[float]:
    """Return ``count`` additional numbers in [0, 1) that are specific to a finding and constant
    across its examinations."""
    u, v, w = state.position
    return [
        (11.3 * u + 17.9 * v + 23.7 * w + 0.618 * n * (1.0 + 7.0 * v)) % 1.0
        for n in range(1, count + 1)
    ]
