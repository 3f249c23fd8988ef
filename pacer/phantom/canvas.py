"""A square canvas in body coordinates, on which both views are drawn, and shared functions.

Coordinates run from -1 to 1 across the image, x to the image's right, y downwards; lengths are in
half image widths. The frontal view is seen from the front, so the patient's right is at negative x;
on the lateral view the patient faces left. Brightness is 0 (black) to 1.
"""

import math
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw

from pacer.phantom.world import FindingState, PhantomStudy

Array = np.ndarray
Point = tuple[float, ...]

#: Strokes are drawn at this multiple of the resolution and averaged down.
OVERSAMPLING = 3
#: y of the middle of each lung zone.
ZONE_HEIGHT = {"upper": -0.36, "mid": 0.0, "lower": 0.33}
#: Brightness that the air of the lungs takes away.
_AIR_DEPTH = 0.45


def ramp(distance: Array, width: float) -> Array:
    """Rise from 0 to 1 across an edge of ``width``; one half where ``distance`` is 0."""
    return np.clip(distance * (1.0 / width) + 0.5, 0.0, 1.0)


def bump(squared: Array) -> Array:
    """Evaluate a smooth hill of a squared scaled radius: 1 at 0, falling to 0 at 1."""
    return np.square(np.clip(1.0 - squared, 0.0, 1.0))


def ellipse(x: Array, y: Array, width: float, height: float | Array) -> Array:
    """Return how far inside an ellipse each point is, approximately; negative outside."""
    return (1.0 - np.sqrt(np.square(x / width) + np.square(y / height))) * width


def wave(distance: Array, period: float) -> Array:
    """Return a smooth wave between -1 and 1, with a crest at 0.

    It is much like a cosine. That of numpy differs between processors, but a world must not.
    """
    turns = distance * (1.0 / period)
    t = 2.0 * np.abs(turns - np.rint(turns))
    return 1.0 - 2.0 * np.square(t) * (3.0 - 2.0 * t)


def stripes(distance: Array, period: float, level: float) -> Array:
    """Return bright stripes, 0 to 1, around 0 and every ``period``; they are thinner the lower
    their ``level`` is, from -1 to 1."""
    return np.clip(1.6 * (wave(distance, period) + level), 0.0, 1.0)


def smooth_noise(rng: np.random.Generator, size: int, cells: int) -> Array:
    """Return smooth noise with ``cells`` lattice cells per side and approximately zero mean and
    unit deviation; float32 [size, size]."""
    lattice = Image.fromarray(1.2 * rng.standard_normal((cells, cells), dtype=np.float32))
    return np.asarray(lattice.resize((size, size), Image.Resampling.BICUBIC))


def curve(*controls: Point) -> Array:
    """Return the Bezier curve of these control points as a polyline [12, 2 or 3]."""
    t = np.linspace(0.0, 1.0, 12)[:, None]
    points = np.array(controls)[:, None]
    while len(points) > 1:
        points = (1.0 - t) * points[:-1] + t * points[1:]
    return points[0]


def constants(state: FindingState) -> np.random.Generator:
    """Return a generator of numbers that are specific to a finding and constant across its
    examinations."""
    return np.random.default_rng([int(2**32 * number) for number in state.position])


class Canvas:
    """Accumulates the drawing of one view of an examination: soft tissue that replaces air, added
    brightness, and regions of findings. Frontal and lateral views derive from it.

    Args:
        size: pixels per side.
        bend: sideways swing of the whole body along its height.
        turned: relative widening of the half at positive x; the other half is narrowed equally.
        purpose: of the random numbers of this view.

    Attributes:
        x, y: body coordinates of every pixel, with the body's shape and position undone; float32
            [size, size].
        clear: share of the air that opacities leave.
        added: brightness to add.
        regions: share of each pixel, 0 to 1, that each drawn finding covers.
        trunk: inside of the body, 0 to 1.
        wall: distance inward from the chest wall; negative outside.
        thorax: inside of the rib cage above and below the diaphragm, 0 to 1.
        below: distance below the diaphragm.
        lung: air-filled lung, 0 to 1.
        hilar: the roots of the lungs, 0 to 1.
    """

    #: Distance of findings in the lungs from the y axis: its middle and its range.
    column: tuple[float, float]
    #: Distance of the roots of the lungs from the y axis.
    root: float
    #: Axes that the view shows of points in space (to the left, to the back, downwards).
    plane: tuple[int, int]
    trunk: Array
    wall: Array
    thorax: Array
    below: Array
    lung: Array
    hilar: Array

    def __init__(
        self, study: PhantomStudy, size: int, bend: float, turned: float, purpose: int
    ) -> None:
        anatomy = study.anatomy
        self.study = study
        self.size = size
        self.anatomy = anatomy
        self.rng = study.rng(purpose)
        self._bend = bend
        self._turned = turned
        self._cos = math.cos(anatomy.tilt)
        self._sin = math.sin(anatomy.tilt)
        line = (np.arange(size, dtype=np.float32) + 0.5) * (2.0 / size) - 1.0
        across = (line - anatomy.shift_x) / anatomy.scale
        down = (line[:, None] - anatomy.shift_y) / anatomy.scale
        self.y = self._cos * down - self._sin * across
        x = self._cos * across + self._sin * down - self._swing(self.y)
        self.x = x / (1.0 + turned * np.sign(x))
        self.clear = np.ones_like(x)
        self.added = np.zeros_like(x)
        self.regions: dict[str, Array] = {}

    def _swing(self, y: Array) -> Array:
        """Return how far the body is bent sideways at each height."""
        return 2.6 * self._bend * y * (1.0 - np.square(y))

    def open_lungs(self, wall: Array, below: Array, beside: Array | float) -> None:
        """Set the shape of the lungs: ``wall`` and ``below`` as the attributes, and the share of
        air ``beside`` the mediastinum."""
        loss = self.study.findings.get("atelectasis")
        if loss is not None:  # loss of volume elevates the diaphragm
            for sign in self.sides(loss):
                below = below + (0.07 + 0.07 * loss.severity) * self.on_side(sign)
        self.wall = wall
        self.below = below
        self.thorax = ramp(wall, 0.04)
        self.lung = self.thorax * ramp(-below, 0.04) * beside
        self.hilar = bump(np.square(np.abs(self.x) - self.root) / 0.09 + np.square(self.y) / 0.16)

    def on_side(self, sign: int) -> Array:
        """Return the mask of one side, 0 to 1, with a soft edge."""
        return ramp(sign * self.x, 0.2)

    def sides(self, state: FindingState) -> list[int]:
        """Return the signs of x of the sides on which a finding is drawn."""
        raise NotImplementedError

    def skeleton(self) -> Array:
        """Draw heart, vessels and airways; return the brightness of the bones."""
        raise NotImplementedError

    def fill(self, opacity: Array) -> None:
        """Replace the share ``opacity`` of the air by soft tissue."""
        self.clear *= 1.0 - np.clip(opacity, 0.0, 1.0)

    def claim(self, finding: str, region: Array) -> None:
        """Add ``region`` (0 to 1) to the region of ``finding``."""
        self.regions[finding] = np.maximum(region, self.regions.get(finding, 0.0))

    def stroke(self, lines: Sequence[Array | Sequence[Point]], width: float) -> Array:
        """Return the coverage (0 to 1) of polylines of the given width; float32 [size, size]."""
        side = self.size * OVERSAMPLING
        image = Image.new("L", (side, side))
        draw = ImageDraw.Draw(image)
        for line in lines:
            x, y = np.transpose(line)
            x = x * (1.0 + self._turned * np.sign(x)) + self._swing(y)
            across = (self._cos * x - self._sin * y) * self.anatomy.scale + self.anatomy.shift_x
            down = (self._sin * x + self._cos * y) * self.anatomy.scale + self.anatomy.shift_y
            points = (np.stack([across, down], axis=1) + 1.0) * (side / 2)
            draw.line(points.ravel().tolist(), 255, max(1, round(width * side / 2)), "curve")
        return np.asarray(image.reduce(OVERSAMPLING), dtype=np.float32) / 255.0

    def centre(self, state: FindingState) -> Point:
        """Return the position of a finding in a lung."""
        u, v, _ = state.position
        middle, spread = self.column
        x = self.sides(state)[0] * (middle + spread * (u - 0.5))
        return x, ZONE_HEIGHT[state.zone] + 0.18 * (v - 0.5)

    def around(self, state: FindingState) -> tuple[Array, Array]:
        """Return x and y relative to the centre of a finding in a lung."""
        x, y = self.centre(state)
        return self.x - x, self.y - y

    def draw_heart(self, x: float, y: float, lean: float) -> None:
        """Draw the heart around (x, y), leaning by ``lean`` to the left and downwards."""
        size = self.anatomy.heart
        state = self.study.findings.get("cardiomegaly")
        if state is not None:
            size *= 1.18 + 0.58 * state.severity
        growth = size - self.anatomy.heart
        length = self.anatomy.heart_length + 0.25 * growth
        x += self.anatomy.heart_place + 0.25 * growth
        heart = ramp(ellipse(self.x - x - lean * (self.y - y), self.y - y, size, length), 0.035)
        self.fill(0.80 * heart)
        self.added += 0.07 * heart * ramp(-self.below, 0.05)
        if state is not None:
            self.claim(state.finding, heart)

    def picture(self) -> Array:
        """Draw everything except the findings, which hide the vessels; return the brightness
        [size, size]."""
        density = self.skeleton() + 0.58 * self.trunk + 0.03
        density += 0.11 * ramp(self.below, 0.05) * self.thorax
        vessels = smooth_noise(self.rng, self.size, 22) * self.clear
        texture = (0.018 + 0.04 * self.hilar) * np.clip(vessels, -1.0, 2.0)
        density += self.lung * (texture + (0.08 + 0.4 * self.anatomy.hilum) * self.hilar)
        density += 0.016 * smooth_noise(self.rng, self.size, 5) * self.trunk
        return density + self.added - _AIR_DEPTH * self.lung * self.clear
