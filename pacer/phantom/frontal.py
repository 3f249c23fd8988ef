"""The frontal radiograph: the anatomy, and each finding on it."""

import math

import numpy as np

from pacer.phantom.canvas import (
    Array,
    Canvas,
    bump,
    cosine,
    curve,
    further,
    power,
    ramp,
    sine,
    smooth_noise,
)
from pacer.phantom.world import FindingState, PhantomStudy

#: Distance of the middle of each lung from the midline, and its y.
_LUNG_CENTRE = 0.40
_LUNG_MIDDLE = 0.05
#: y of the middle of each lung zone.
ZONE_HEIGHT = {"upper": -0.36, "mid": 0.02, "lower": 0.36}


class Frontal(Canvas):
    """Draws one examination; the attributes are the geometry shared by the findings.

    Attributes:
        across: distance from the midline.
        wall: distance inward from the chest wall; negative outside.
        thorax: inside of the rib cage above and below the diaphragm, 0 to 1.
        lung: air-filled lung, 0 to 1.
        below: distance below the diaphragm.
        medial: distance outward from the mediastinum.
        ribs: rib pattern, 0 to 1.
    """

    #: Brightness that the air of the lungs takes away.
    air_depth = 0.46

    def __init__(self, study: PhantomStudy, size: int):
        anatomy = study.anatomy
        super().__init__(study, size, anatomy.scoliosis, purpose=10, turned=anatomy.turned)
        x, y = self.x, self.y
        self.across = np.abs(x)
        height = np.where(y > _LUNG_MIDDLE, anatomy.lung_height + 0.13, anatomy.lung_height)
        # narrow apices: the upper lungs lean towards the midline
        lean = np.float32(anatomy.apex) * np.clip(-y, 0.0, 1.0)
        outward = np.square((self.across - _LUNG_CENTRE + lean) / anatomy.lung_width)
        radius = np.sqrt(outward + np.square((y - _LUNG_MIDDLE) / height))
        self.wall = (1.0 - radius) * np.float32(anatomy.lung_width)
        self.thorax = ramp(self.wall, 0.04)
        # volume loss elevates the diaphragm
        loss = study.findings.get("atelectasis")
        raised = 0.0
        if loss is not None and not loss.lateral_only:
            raised = sum(
                np.where(x * sign > 0, 0.06 + 0.07 * loss.severity, 0.0)
                for sign in self.sides(loss)
            )
        dome = anatomy.diaphragm + np.where(x < 0, -0.03, 0.03) - raised
        dome = dome + np.float32(anatomy.dome) * np.square((self.across - 0.34) / 0.38)
        self.below = y - dome
        half_width = self._mediastinum(y)
        self.medial = self.across - half_width
        self.lung = self.thorax * ramp(self.medial, 0.04) * ramp(-self.below, 0.04)
        bend = 0.30 * np.square(self.across)
        self.ribs = np.clip(
            cosine((y - bend + 0.72) * (2 * math.pi / anatomy.rib_spacing)) * 1.6 - 0.7, 0.0, 0.9
        )
        self.ribs *= ramp(self.wall + 0.05, 0.04) * ramp(self.across - 0.10, 0.05)

    def sides(self, state: FindingState) -> list[int]:
        """Return the signs of x for the sides of a finding; -1 is the patient's right."""
        return {"right": [-1], "left": [1], "bilateral": [-1, 1], "central": [-1, 1]}[state.side]

    def half(self, sign: int) -> Array:
        """Return the mask, 0 or 1, of one side of the midline."""
        return (self.x * sign > 0).astype(np.float32)

    def _mediastinum(self, y: Array) -> Array:
        """Return the half width of the mediastinum at each height."""
        width = np.full_like(y, self.anatomy.mediastinum)
        state = self.study.findings.get("enlarged mediastinum")
        if state is not None:
            u, v, _ = state.position
            hill = bump(np.square((y + 0.40 - 0.14 * u) / (0.52 + 0.16 * v)))
            widened = (0.06 + 0.20 * state.severity) * hill
            self.claim(state.finding, (widened > 0.03) * ramp(width + widened - self.across, 0.03))
            width = width + widened
        return width

    def _heart(self) -> Array:
        """Return the heart's shadow, 0 to 1."""
        anatomy = self.anatomy
        size = anatomy.heart
        state = self.study.findings.get("cardiomegaly")
        if state is not None:
            size = size * (1.22 + 0.60 * state.severity)
        growth = size - 0.29
        x = self.x - np.float32(anatomy.heart_place + 0.25 * growth)
        y = self.y - np.float32(0.36)
        cos = math.cos(anatomy.heart_axis)
        sin = math.sin(anatomy.heart_axis)
        tilted_x = cos * x + sin * y
        tilted_y = cos * y - sin * x
        radius = np.sqrt(
            np.square(tilted_x / size)
            + np.square(tilted_y / (anatomy.heart_length + 0.25 * growth))
        )
        heart = ramp((1.0 - radius) * np.float32(size), 0.035)
        if state is not None:
            self.claim(state.finding, heart)
        return heart

    def body(self) -> Array:
        """Draw everything except the air of the lungs; return its brightness [size, size]."""
        x, y = self.x, self.y
        across = self.across
        anatomy = self.anatomy
        bone = np.float32(anatomy.bone)
        heart = self._heart()
        self.fill(0.86 * heart)
        shoulder = 0.90 - 0.75 * np.square(
            np.clip((-np.float32(anatomy.shoulder) - y) * 2.2, 0.0, 1.0)
        )
        trunk = ramp(shoulder + 0.07 * np.float32(anatomy.fat) - across, 0.05)
        density = trunk * np.float32(0.60) + np.float32(0.03)
        density += (0.10 * ramp(self.below, 0.05)) * self.thorax
        density += 0.10 * heart * ramp(-self.below, 0.05)
        density += 0.07 * bone * self.ribs
        # hila, and the texture of vessels in the lungs
        vessels = smooth_noise(self.size, 22, self.texture, self.window)
        hilar = bump(np.square(across - 0.24) / 0.10 + np.square(y - 0.06) / 0.22)
        prominence = np.float32(1.0 + 4.0 * anatomy.hilum)
        density += (
            self.lung
            * self.clear
            * (0.014 + 0.05 * prominence * hilar)
            * np.clip(vessels, -1.0, 2.0)
        )
        density += (0.07 + 0.35 * anatomy.hilum) * hilar * self.lung
        # aortic knob, descending aorta, and windpipe
        place = 0.09 + 0.055 * anatomy.knob
        width = 0.010 + 0.008 * anatomy.knob
        knob = bump((np.square(x - np.float32(place)) + np.square(y + 0.30)) / np.float32(width))
        self.fill(0.7 * knob)
        stripe = ramp(0.018 - np.abs(x - np.float32(0.10 + 0.05 * anatomy.knob)), 0.04) * ramp(
            y + 0.25, 0.1
        )
        density += np.float32(0.05 * anatomy.age) * stripe
        density -= 0.16 * ramp(0.035 - np.abs(x - 0.01), 0.02) * ramp(-0.22 - y, 0.08) * trunk
        # spine, clavicles and shoulder blades
        spine = ramp(0.075 - across, 0.03)
        density += (
            spine
            * bone
            * (0.08 + 0.02 * cosine(y * np.float32(2 * math.pi / (0.73 * anatomy.rib_spacing))))
        )
        slope = anatomy.clavicle_slope
        clavicles = [
            curve(
                (s * 0.08, -0.60 + h),
                (s * 0.35, -0.62 + h - 0.5 * slope),
                (s * 0.85, -0.78 + h - slope),
                8,
            )
            for s, h in zip((-1, 1), anatomy.clavicles, strict=True)
        ]
        density += 0.10 * bone * self.stroke(clavicles, 0.055)
        edge = across - np.float32(0.78 - anatomy.scapula) - 0.10 * (y + 0.35)
        blade = ramp(edge, 0.03) * ramp(0.05 - y, 0.15) * ramp(y + 0.72, 0.1)
        density += 0.055 * bone * blade * trunk
        # breasts, and gas in stomach and colon
        if anatomy.breast:
            low = np.square((across - 0.50) / 0.30) + np.square(
                (y - np.float32(anatomy.breast_height)) / 0.30
            )
            shade = ramp(1.0 - low, 0.25) * (
                0.55 + 0.45 * np.clip((y - anatomy.breast_height + 0.3) / 0.5, 0.0, 1.0)
            )
            density += np.float32(anatomy.breast) * shade
        bubble = self.gas(x - np.float32(anatomy.gas[0]))
        if anatomy.colon:
            from_colon = x - np.float32(-0.48 if anatomy.colon > 0.6 else 0.62)
            loop = bump(np.square(from_colon) / 0.016 + np.square(y - 0.86) / 0.006)
            bubble = np.maximum(bubble, np.float32(anatomy.colon) * loop)
        density -= 0.22 * bubble * ramp(self.below, 0.05)
        return density + 0.018 * smooth_noise(self.size, 5, self.texture, self.window) * trunk


def atelectasis(view: Frontal, state: FindingState) -> None:
    """Thick oblique bands above a raised diaphragm."""
    u, v, w = state.position
    a, b, c = further(state, 3)
    lines = []
    for sign in view.sides(state):
        base = view.anatomy.diaphragm - 0.20 + 0.06 * u
        for step in range(3 if state.severity > 0.5 else 2):
            y = base - (0.095 + 0.03 * b) * step
            slope = (0.16 * v - 0.03) + 0.04 * step * (w - 0.3)
            near = 0.22 + 0.08 * a + 0.04 * step
            far = 0.60 + 0.1 * c - 0.05 * step
            lines.append([(sign * near, y), (sign * far, y + slope)])
    bands = view.stroke(lines, 0.038 + 0.012 * a + 0.012 * state.severity) * ramp(view.wall, 0.03)
    view.fill((0.70 + 0.14 * state.severity) * bands)
    view.added += 0.14 * bands
    lifted = ramp(view.below, 0.03) * ramp(0.16 - view.below, 0.03) * view.thorax
    for sign in view.sides(state):
        view.claim(state.finding, lifted * view.half(sign) * ramp(view.medial, 0.04))
    view.claim(state.finding, view.stroke(lines, 0.10))


def consolidation(view: Frontal, state: FindingState) -> None:
    """A dense, uniform block of lung with straight, sharp borders like those of a lobe."""
    u, v, _ = state.position
    sign = view.sides(state)[0]
    y = view.y
    across = view.across
    a, b, c = further(state, 3)
    depth = 0.26 + 0.24 * state.severity
    fissure = ZONE_HEIGHT[state.zone]
    if state.zone == "upper":
        lower = fissure + 0.18 + 0.08 * u + (0.30 * a - 0.05) * (across - 0.4)
        block = ramp(lower - y, 0.025) * ramp(y - lower + depth, 0.06)
    elif state.zone == "lower":
        upper = fissure - 0.18 + 0.10 * u - (0.40 * a - 0.05) * (across - 0.4)
        block = ramp(y - upper, 0.025) * ramp(upper + depth - y, 0.06)
    else:
        opening = 0.06 + (0.18 + 0.20 * a + 0.22 * state.severity) * (across - 0.12)
        block = ramp(opening - np.abs(y - fissure - 0.10 * (u - 0.5)), 0.025)
    inner = 0.13 + 0.12 * v
    block = (
        block
        * ramp(across - inner, 0.025)
        * ramp(inner + 0.28 + 0.1 * b + 0.2 * state.severity - across, 0.03)
    )
    block *= view.half(sign) * view.thorax
    view.fill((0.70 + 0.10 * c + 0.08 * state.severity) * block)
    view.claim(state.finding, block * view.lung)


def edema(view: Frontal, state: FindingState) -> None:
    """Butterfly-shaped haze around both hila, coarse vessels, and short lines at the lateral
    bases."""
    across = view.across
    y = view.y
    u, v, w = state.position
    wings = np.square(across - 0.26 - 0.05 * u) / (0.055 + 0.02 * v + 0.08 * state.severity)
    wings = wings + np.square(y - 0.12 * w) / (0.34 + 0.10 * u)
    haze = bump(wings) * (0.20 + 0.64 * state.severity)
    view.fill(haze * (1.0 + 0.22 * smooth_noise(view.size, 28, w, (u, v))))
    lines = np.clip(
        cosine((y - 0.1 * across) * (2 * math.pi / (0.075 + 0.02 * w))) * 2.0 - 0.8, 0.0, 1.0
    )
    edge = (
        ramp(0.11 + 0.04 * v - view.wall, 0.03)
        * ramp(y - 0.06 - 0.12 * u, 0.06)
        * ramp(across - 0.40, 0.05)
    )
    view.added += (0.08 + 0.14 * state.severity) * lines * edge * view.lung
    view.claim(state.finding, np.maximum(ramp(haze - 0.18, 0.1), 0.8 * edge) * view.lung)


def fracture(view: Frontal, state: FindingState) -> None:
    """Fractures of neighbouring ribs: displaced bright ends around a dark gap."""
    u, v, w = state.position
    sign = view.sides(state)[0]
    spacing = view.anatomy.rib_spacing
    middle = 0.46 + 0.16 * u
    first = 2 + int(3 * v)
    jump = 0.85 + 0.3 * w
    bright = []
    gaps = []
    around = []
    count = 1
    if state.severity > 0.8:
        count = 3
    elif state.severity > 0.4:
        count = 2
    for rib in range(first, first + count):
        y = -0.72 + rib * spacing + 0.30 * middle**2
        near = y - 0.040 * jump
        far = y + 0.055 * jump
        bright.append([(sign * (middle - 0.15), y - 0.085), (sign * (middle - 0.02), near)])
        bright.append([(sign * (middle + 0.02), far), (sign * (middle + 0.14), far + 0.065)])
        gaps.append([(sign * (middle + 0.012), y - 0.085), (sign * (middle - 0.012), y + 0.085)])
        around.append([(sign * (middle - 0.14), y - 0.05), (sign * (middle + 0.14), y + 0.06)])
    bone = view.stroke(bright, 0.070)
    view.added += 0.40 * bone - 0.28 * view.stroke(gaps, 0.034) * (1.0 - bone)
    view.claim(state.finding, view.stroke(around, 0.18))


def lung_lesion(view: Frontal, state: FindingState) -> None:
    """One or two round, sharply bordered spots."""
    u, v, w = state.position
    sign = view.sides(state)[0]
    a, b, c = further(state, 3)
    radius = 0.088 + 0.075 * state.severity
    centres = [(0.33 + 0.22 * u, ZONE_HEIGHT[state.zone] + 0.16 * (v - 0.5))]
    if w > 0.7:
        centres.append(
            (0.58 - 0.26 * u, centres[0][1] + (0.30 if state.zone != "lower" else -0.30))
        )
    for across, height in centres:
        x = view.x - np.float32(sign * across)
        y = view.y - np.float32(height)
        # round to oval, with a smooth or lobed border
        distance = np.sqrt(
            np.square(x) * np.float32(0.85 + 0.35 * a) + np.square(y) * np.float32(0.85 + 0.35 * b)
        )
        lobes = 1.0 + (0.10 * sine(5.0 * np.arctan2(y, x) + 6.0 * a) if c > 0.6 else 0.0)
        spot = ramp(radius * lobes - distance, 0.022)
        view.fill((0.80 + 0.14 * state.severity) * spot)
        view.added += (0.09 + 0.06 * b) * spot
        view.claim(state.finding, spot)


def lung_opacity(view: Frontal, state: FindingState) -> None:
    """A hazy patch that fades out on all sides."""
    u, v, _ = state.position
    sign = view.sides(state)[0]
    a, b, _ = further(state, 3)
    reach = 0.27 + 0.06 * a + 0.10 * state.severity
    x = view.x - np.float32(sign * (0.43 + 0.16 * (u - 0.5)))
    y = view.y - np.float32(ZONE_HEIGHT[state.zone] + 0.18 * (v - 0.5))
    slanted = x + np.float32(0.5 * (b - 0.5)) * y
    squared = np.square(slanted) + np.float32(0.65 + 0.4 * a) * np.square(y)
    haze = bump(squared / np.float32(reach**2)) * view.half(sign)
    view.fill((0.58 + 0.22 * state.severity) * haze)
    view.claim(state.finding, ramp(haze - 0.3, 0.2) * view.lung)


def pneumonia(view: Frontal, state: FindingState) -> None:
    """Mottled, cotton-wool clumps with dark air bronchograms between them."""
    u, v, w = state.position
    sign = view.sides(state)[0]
    a, b, c = further(state, 3)
    across = 0.43 + 0.12 * (u - 0.5)
    y = ZONE_HEIGHT[state.zone] + 0.18 * (v - 0.5)
    reach = 0.31 + 0.06 * a + 0.08 * state.severity
    squared = np.square(view.x - np.float32(sign * across)) + np.square(view.y - np.float32(y))
    window = np.sqrt(bump(squared / np.float32(reach**2))) * view.half(sign)
    clumps = np.clip(smooth_noise(view.size, 17, w, (u, v)) * 1.6 + 0.4, 0.0, 1.0)
    view.fill((0.84 + 0.12 * state.severity) * window * clumps)
    branches = [
        [
            (sign * (across - 0.20), y - 0.06 * b),
            (sign * across, y),
            (sign * (across + 0.15), y - 0.04 - 0.12 * c),
        ],
        [(sign * across, y), (sign * (across + 0.16), y + 0.04 + 0.12 * b)],
    ]
    view.added -= 0.17 * view.stroke(branches, 0.030) * view.lung
    view.claim(state.finding, ramp(window - 0.25, 0.15) * view.lung)


def pleural_effusion(view: Frontal, state: FindingState) -> None:
    """Fluid that blunts the costophrenic angle and climbs along the chest wall."""
    u = state.position[0]
    a, b, _ = further(state, 3)
    outward = power(np.clip((view.across - 0.14 - 0.08 * a) / 0.48, 0.0, 1.0), 1.5 + b)
    for number, sign in enumerate(view.sides(state)):
        height = 0.25 + 0.55 * state.severity * (1.0 if number == 0 else 0.55 + 0.4 * u)
        level = 0.80 - height * (0.50 + 0.50 * outward)
        fluid = ramp(view.y - level, 0.05) * view.half(sign)
        view.fill((0.84 + 0.10 * a) * fluid)
        view.added += 0.07 * fluid * view.lung
        view.claim(state.finding, fluid * view.lung)


def pleural_abnormality(view: Frontal, state: FindingState) -> None:
    """A thick, wavy bright rim along the upper chest wall, with calcified spots."""
    u, v, w = state.position
    y = view.y
    middle = -0.42 + 0.34 * u
    thickness = 0.085 + 0.075 * state.severity
    thickness = thickness * (1.0 + 0.28 * sine(y * (2 * math.pi / (0.24 + 0.14 * w)) + 6.0 * v))
    thickness = thickness * np.clip(1.6 - np.abs(y - middle) / 0.26, 0.0, 1.0)
    rim = (
        ramp(thickness - view.wall, 0.025)
        * view.thorax
        * ramp(view.across - 0.30, 0.08)
        * (thickness > 0.01)
    )
    is_spot = cosine(y * (2 * math.pi / (0.10 + 0.05 * v)) + 6.0 * w) > 0.55
    for sign in view.sides(state):
        sided = rim * view.half(sign)
        view.fill(0.92 * sided)
        view.added += (0.07 + 0.10 * is_spot) * sided
        view.claim(state.finding, sided)


def pneumothorax(view: Frontal, state: FindingState) -> None:
    """A thin bright pleural line away from the chest wall; the space between them is black, without
    vessels."""
    sign = view.sides(state)[0]
    u, v, _ = state.position
    depth = (0.06 + 0.02 * u + 0.36 * state.severity) * np.clip(
        (0.45 + 0.25 * v - view.y) / 0.7, 0.0, 1.0
    )
    gate = ramp(view.across - 0.24, 0.1) * view.half(sign) * ramp(depth - 0.03, 0.03)
    outside = ramp(depth - view.wall, 0.02) * view.thorax * gate
    line = np.clip(1.0 - np.abs(view.wall - depth) / 0.020, 0.0, 1.0) * gate * view.thorax
    view.added += (0.22 + 0.08 * u) * line - 0.17 * outside
    view.claim(
        state.finding, np.maximum(outside, ramp(0.05 - np.abs(view.wall - depth), 0.03) * gate)
    )


def support_devices(view: Frontal, state: FindingState) -> None:
    """Thin bright lines and tubes with a tip, or a pacemaker with its lead."""
    u, v, w = state.position
    sign = view.sides(state)[0]
    cava = -0.05 - 0.04 * w
    box_height = 0.12 * (u - 0.5)
    lines = {
        "picc": [
            curve(
                (sign * 0.93, -0.44 + 0.16 * u),
                (sign * (0.55 + 0.1 * w), -0.74),
                (sign * 0.12, -0.50),
            ),
            curve((sign * 0.12, -0.50), (cava, -0.46), (cava, -0.05 + 0.16 * v)),
        ],
        "central line": [
            curve((sign * (0.16 + 0.1 * u), -1.0), (sign * 0.14, -0.62), (cava, -0.14 + 0.22 * v))
        ],
        "endotracheal tube": [[(0.03 * u, -1.0), (0.01, -0.40 + 0.16 * v)]],
        "nasogastric tube": [
            [(-0.015, -1.0), (0.0, 0.30), (0.06, 0.62)],
            curve((0.06, 0.62), (0.12, 0.86), (0.40, 0.80 + 0.06 * v)),
        ],
        "pacemaker": [
            curve((sign * 0.52, -0.48 + box_height), (sign * 0.22, -0.66), (cava, -0.40)),
            curve((cava, -0.40), (-0.10, 0.25), (0.20 + 0.08 * u, 0.42)),
        ],
        "chest tube": [
            curve(
                (sign * 0.92, 0.20 + 0.24 * v),
                (sign * 0.62, 0.20),
                (sign * (0.38 + 0.1 * w), -0.40 + 0.30 * u),
            )
        ],
    }
    box = [(0.50, -0.50), (0.68, -0.54), (0.71, -0.36), (0.53, -0.32)]
    view.draw_devices(state, lines, [(sign * (x - 0.05 * w), y + box_height) for x, y in box], 0.32)
