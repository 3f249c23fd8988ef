"""The frontal radiograph: anatomy, and how each finding looks on it."""

from __future__ import annotations

import math

import numpy as np

from pacer.corpus.phantom.canvas import PATTERNS, Array, Canvas, bump, curve, ramp, smooth_noise
from pacer.corpus.phantom.world import FindingState, Study

#: Height of the middle of each lung zone.
ZONE_HEIGHT = {"upper": -0.36, "mid": 0.02, "lower": 0.36}
_LUNG_CENTRE, _LUNG_MIDDLE = 0.40, 0.05
_AIR_DEPTH = 0.46


class Frontal:
    """Draws one study; the attributes are the geometry that the findings share.

    Attributes:
        across: distance from the midline.
        wall: distance inward from the chest wall; negative outside.
        thorax: inside of the rib cage above and below the diaphragm, 0 to 1.
        lung: air-filled lung, 0 to 1.
        ribs: rib pattern, 0 to 1.
    """

    def __init__(self, study: Study, size: int):
        self.study = study
        self.canvas = Canvas(size, study.anatomy)
        self.rng = study.rng(10)
        self.pattern = int(self.rng.integers(PATTERNS))
        canvas, anatomy = self.canvas, study.anatomy
        x, y = canvas.x, canvas.y
        self.across = np.abs(x)
        height = np.where(y > _LUNG_MIDDLE, anatomy.lung_height + 0.13, anatomy.lung_height)
        outward = np.square((self.across - _LUNG_CENTRE) / anatomy.lung_width)
        radius = np.sqrt(outward + np.square((y - _LUNG_MIDDLE) / height))
        self.wall = (1.0 - radius) * np.float32(anatomy.lung_width)
        self.thorax = ramp(self.wall, 0.04)
        dome = anatomy.diaphragm + np.where(x < 0, -0.03, 0.03) - self._elevation(x)
        dome = dome + 0.55 * np.square((self.across - 0.34) / 0.38)
        self.below = y - dome
        half_width = self._mediastinum(y)
        self.medial = self.across - half_width
        self.lung = self.thorax * ramp(self.medial, 0.04) * ramp(-self.below, 0.04)
        bend = 0.30 * np.square(self.across)
        self.ribs = np.clip(np.cos((y - bend + 0.72) * (2 * math.pi / anatomy.rib_spacing)) * 1.6 - 0.7, 0.0, 0.9)
        self.ribs *= ramp(self.wall + 0.05, 0.04) * ramp(self.across - 0.10, 0.05)

    def draw(self) -> tuple[Array, dict[str, Array]]:
        """The radiograph uint8 [size, size] and each visible finding's region, float32 [size, size]."""
        for state in self.study.findings.values():
            if not state.lateral_only:
                _PAINTERS[state.finding](self, state)
        density = self._body()
        image = self.canvas.finish(density, self.lung, _AIR_DEPTH, self.rng)
        return image, self.canvas.regions

    def sides(self, state: FindingState) -> list[int]:
        """Signs of x of the sides: -1 is the patient's right."""
        return {"right": [-1], "left": [1], "bilateral": [-1, 1], "central": [-1, 1]}[state.side]

    def half(self, sign: int) -> Array:
        """The half of the image on one side of the midline, 0 or 1."""
        return (self.canvas.x * sign > 0).astype(np.float32)

    def _elevation(self, x: Array) -> Array | float:
        """How much volume loss raises each half of the diaphragm."""
        state = self.study.findings.get("atelectasis")
        if state is None or state.lateral_only:
            return 0.0
        raised = 0.07 + 0.07 * state.severity
        return sum(np.where(x * sign > 0, raised, 0.0) for sign in self.sides(state))

    def _mediastinum(self, y: Array) -> Array:
        """Half width of the mediastinum at each height."""
        width = np.full_like(y, self.study.anatomy.mediastinum)
        state = self.study.findings.get("enlarged mediastinum")
        if state is not None:
            widened = (0.11 + 0.11 * state.severity) * bump(np.square((y + 0.34) / 0.62))
            self.canvas.claim(state.finding, (widened > 0.03) * ramp(width + widened - self.across, 0.03))
            width = width + widened
        return width

    def _heart(self) -> Array:
        """The heart's shadow, 0 to 1."""
        canvas, size = self.canvas, self.study.anatomy.heart
        state = self.study.findings.get("cardiomegaly")
        if state is not None:
            size = size * (1.38 + 0.24 * state.severity)
        x, y = canvas.x - np.float32(0.09 + 0.25 * (size - 0.29)), canvas.y - np.float32(0.36)
        tilted_x, tilted_y = 0.94 * x + 0.34 * y, 0.94 * y - 0.34 * x
        radius = np.sqrt(np.square(tilted_x / size) + np.square(tilted_y / (0.235 + 0.25 * (size - 0.29))))
        heart = ramp((1.0 - radius) * np.float32(size), 0.035)
        if state is not None:
            canvas.claim(state.finding, heart)
        return heart

    def _body(self) -> Array:
        """Everything but the air of the lungs, brightness [size, size]."""
        canvas, anatomy = self.canvas, self.study.anatomy
        x, y = canvas.x, canvas.y
        heart = self._heart()
        canvas.fill(0.86 * heart)
        shoulder = 0.90 - 0.75 * np.square(np.clip((-0.62 - y) * 2.2, 0.0, 1.0))
        trunk = ramp(shoulder + 0.05 * np.float32(anatomy.fat) - self.across, 0.05)
        density = trunk * np.float32(0.60) + np.float32(0.03)
        density += (0.10 * ramp(self.below, 0.05)) * self.thorax
        density += 0.10 * heart * ramp(-self.below, 0.05)
        spine = ramp(0.075 - self.across, 0.03)
        density += spine * (0.08 + 0.02 * np.cos(y * (2 * math.pi / 0.15)))
        knob = bump((np.square(x - 0.14) + np.square(y + 0.30)) / 0.016)
        canvas.fill(0.7 * knob)
        density += 0.075 * self.ribs
        density -= 0.16 * ramp(0.035 - np.abs(x - 0.01), 0.02) * ramp(-0.22 - y, 0.08) * trunk
        bubble = bump(np.square(x - 0.42) / 0.02 + np.square(y - 0.78) / 0.006)
        density -= 0.22 * bubble * ramp(self.below, 0.05)
        clavicles = [curve((s * 0.08, -0.60), (s * 0.35, -0.62), (s * 0.85, -0.78)) for s in (-1, 1)]
        density += 0.10 * canvas.stroke(clavicles, 0.055)
        vessels = smooth_noise(canvas.size, 22, self.pattern)
        hilar = bump(np.square(self.across - 0.24) / 0.10 + np.square(y - 0.06) / 0.22)
        density += self.lung * canvas.clear * (0.012 + 0.05 * hilar) * np.clip(vessels, -1.0, 2.0)
        density += 0.07 * hilar * self.lung
        return density + 0.015 * smooth_noise(canvas.size, 5, self.pattern) * trunk


def _drawn_with_anatomy(view: Frontal, state: FindingState) -> None:
    """Cardiomegaly and mediastinal widening change the anatomy itself."""


def _atelectasis(view: Frontal, state: FindingState) -> None:
    """Thick oblique bands above a raised diaphragm."""
    u, v, w = state.position
    canvas = view.canvas
    lines = []
    for sign in view.sides(state):
        base = view.study.anatomy.diaphragm - 0.20 + 0.06 * u
        for step in range(2 + (state.severity > 0.5)):
            y = base - 0.115 * step
            slope = 0.06 + 0.10 * v + 0.03 * step * w
            lines.append([(sign * (0.26 + 0.04 * step), y), (sign * (0.66 - 0.05 * step), y + slope)])
    bands = canvas.stroke(lines, 0.045 + 0.015 * state.severity) * ramp(view.wall, 0.03)
    canvas.fill(0.75 * bands)
    canvas.added += 0.13 * bands
    lifted = ramp(view.below, 0.03) * ramp(0.16 - view.below, 0.03) * view.thorax
    for sign in view.sides(state):
        canvas.claim(state.finding, lifted * view.half(sign) * ramp(view.medial, 0.04))
    canvas.claim(state.finding, canvas.stroke(lines, 0.10))


def _consolidation(view: Frontal, state: FindingState) -> None:
    """A dense, even block of lung with straight, sharp borders, as a lobe has."""
    u, v, _ = state.position
    canvas, sign = view.canvas, view.sides(state)[0]
    y, across = canvas.y, view.across
    depth = 0.28 + 0.24 * state.severity
    fissure = ZONE_HEIGHT[state.zone]
    if state.zone == "upper":
        lower = fissure + 0.20 + 0.06 * u + 0.12 * (across - 0.4)
        block = ramp(lower - y, 0.025) * ramp(y - lower + depth, 0.06)
    elif state.zone == "lower":
        upper = fissure - 0.16 + 0.08 * u - 0.18 * (across - 0.4)
        block = ramp(y - upper, 0.025) * ramp(upper + depth - y, 0.06)
    else:
        opening = 0.06 + (0.28 + 0.22 * state.severity) * (across - 0.12)
        block = ramp(opening - np.abs(y - fissure - 0.06 * (u - 0.5)), 0.025)
    inner = 0.14 + 0.06 * v
    block = block * ramp(across - inner, 0.025) * ramp(inner + 0.36 + 0.2 * state.severity - across, 0.03)
    block *= view.half(sign) * view.thorax
    canvas.fill(0.86 * block)
    canvas.claim(state.finding, block * view.lung)


def _edema(view: Frontal, state: FindingState) -> None:
    """Haze around both hila like a butterfly, coarse vessels, and short lines at the lateral bases."""
    canvas = view.canvas
    across, y = view.across, canvas.y
    wings = np.square(across - 0.28) / (0.075 + 0.05 * state.severity) + np.square(y - 0.06) / 0.40
    haze = bump(wings) * (0.42 + 0.33 * state.severity)
    canvas.fill(haze * (1.0 + 0.22 * smooth_noise(canvas.size, 28, view.pattern)))
    lines = np.clip(np.cos(y * (2 * math.pi / 0.085)) * 2.0 - 0.8, 0.0, 1.0)
    edge = ramp(0.13 - view.wall, 0.03) * ramp(y - 0.12, 0.06) * ramp(across - 0.40, 0.05)
    canvas.added += (0.13 + 0.06 * state.severity) * lines * edge * view.lung
    canvas.claim(state.finding, np.maximum(ramp(haze - 0.18, 0.1), 0.8 * edge) * view.lung)


def _fracture(view: Frontal, state: FindingState) -> None:
    """Neighbouring ribs broken through: displaced bright ends around a dark gap."""
    u, v, _ = state.position
    canvas, sign = view.canvas, view.sides(state)[0]
    spacing = view.study.anatomy.rib_spacing
    middle = 0.50 + 0.10 * u
    first = 2 + int(3 * v)
    bright, gaps, around = [], [], []
    for rib in range(first, first + 1 + (state.severity > 0.4) + (state.severity > 0.8)):
        y = -0.72 + rib * spacing + 0.30 * middle**2
        near, far = y - 0.040, y + 0.055
        bright.append([(sign * (middle - 0.15), y - 0.085), (sign * (middle - 0.02), near)])
        bright.append([(sign * (middle + 0.02), far), (sign * (middle + 0.14), far + 0.065)])
        gaps.append([(sign * (middle + 0.012), y - 0.085), (sign * (middle - 0.012), y + 0.085)])
        around.append([(sign * (middle - 0.14), y - 0.05), (sign * (middle + 0.14), y + 0.06)])
    bone = canvas.stroke(bright, 0.070)
    canvas.added += 0.34 * bone - 0.26 * canvas.stroke(gaps, 0.034) * (1.0 - bone)
    canvas.claim(state.finding, canvas.stroke(around, 0.18))


def _lung_lesion(view: Frontal, state: FindingState) -> None:
    """One or two round, sharply bordered spots."""
    u, v, w = state.position
    canvas, sign = view.canvas, view.sides(state)[0]
    radius = 0.085 + 0.075 * state.severity
    centres = [(0.33 + 0.22 * u, ZONE_HEIGHT[state.zone] + 0.16 * (v - 0.5))]
    if w > 0.7:
        centres.append((0.58 - 0.26 * u, centres[0][1] + (0.30 if state.zone != "lower" else -0.30)))
    for across, y in centres:
        distance = np.sqrt(np.square(canvas.x - np.float32(sign * across)) + np.square(canvas.y - np.float32(y)))
        spot = ramp(radius - distance, 0.022)
        canvas.fill(0.9 * spot)
        canvas.added += 0.10 * spot
        canvas.claim(state.finding, spot)


def _lung_opacity(view: Frontal, state: FindingState) -> None:
    """A hazy patch that fades out on all sides."""
    u, v, _ = state.position
    canvas, sign = view.canvas, view.sides(state)[0]
    across, y = 0.43 + 0.10 * (u - 0.5), ZONE_HEIGHT[state.zone] + 0.14 * (v - 0.5)
    reach = 0.30 + 0.10 * state.severity
    squared = np.square(canvas.x - np.float32(sign * across)) + 0.8 * np.square(canvas.y - np.float32(y))
    haze = bump(squared / np.float32(reach**2)) * view.half(sign)
    canvas.fill((0.62 + 0.22 * state.severity) * haze)
    canvas.claim(state.finding, ramp(haze - 0.3, 0.2) * view.lung)


def _pneumonia(view: Frontal, state: FindingState) -> None:
    """Mottled, cotton-wool clumps with dark air bronchograms between them."""
    u, v, w = state.position
    canvas, sign = view.canvas, view.sides(state)[0]
    across, y = 0.43 + 0.08 * (u - 0.5), ZONE_HEIGHT[state.zone] + 0.14 * (v - 0.5)
    reach = 0.34 + 0.08 * state.severity
    squared = np.square(canvas.x - np.float32(sign * across)) + np.square(canvas.y - np.float32(y))
    window = np.sqrt(bump(squared / np.float32(reach**2))) * view.half(sign)
    clumps = np.clip(smooth_noise(canvas.size, 17, int(w * PATTERNS)) * 1.6 + 0.4, 0.0, 1.0)
    canvas.fill((0.86 + 0.10 * state.severity) * window * clumps)
    branches = [
        [(sign * (across - 0.20), y - 0.02), (sign * across, y), (sign * (across + 0.15), y - 0.11)],
        [(sign * across, y), (sign * (across + 0.16), y + 0.10)],
    ]
    canvas.added -= 0.15 * canvas.stroke(branches, 0.028) * view.lung
    canvas.claim(state.finding, ramp(window - 0.25, 0.15) * view.lung)


def _pleural_effusion(view: Frontal, state: FindingState) -> None:
    """Fluid that blunts the costophrenic angle and climbs along the chest wall."""
    u = state.position[0]
    canvas = view.canvas
    outward = np.square(np.clip((view.across - 0.18) / 0.48, 0.0, 1.0))
    for number, sign in enumerate(view.sides(state)):
        height = 0.25 + 0.55 * state.severity * (1.0 if number == 0 else 0.55 + 0.4 * u)
        level = 0.80 - height * (0.50 + 0.50 * outward)
        fluid = ramp(canvas.y - level, 0.05) * view.half(sign)
        canvas.fill(0.95 * fluid)
        canvas.added += 0.08 * fluid * view.lung
        canvas.claim(state.finding, fluid * view.lung)


def _pleural_abnormality(view: Frontal, state: FindingState) -> None:
    """A thick, wavy bright rim along the upper chest wall, with calcified spots."""
    u, v, _ = state.position
    canvas = view.canvas
    y = canvas.y
    middle = -0.42 + 0.34 * u
    thickness = 0.085 + 0.075 * state.severity
    thickness = thickness * (1.0 + 0.28 * np.sin(y * (2 * math.pi / 0.30) + 6.0 * v))
    thickness = thickness * np.clip(1.6 - np.abs(y - middle) / 0.26, 0.0, 1.0)
    rim = ramp(thickness - view.wall, 0.025) * view.thorax * ramp(view.across - 0.30, 0.08) * (thickness > 0.01)
    for sign in view.sides(state):
        sided = rim * view.half(sign)
        canvas.fill(0.92 * sided)
        canvas.added += (0.08 + 0.10 * (np.cos(y * (2 * math.pi / 0.12)) > 0.55)) * sided
        canvas.claim(state.finding, sided)


def _pneumothorax(view: Frontal, state: FindingState) -> None:
    """A thin bright pleural line away from the chest wall; outside it black, without vessels."""
    canvas, sign = view.canvas, view.sides(state)[0]
    depth = (0.11 + 0.13 * state.severity) * np.clip((0.55 - canvas.y) / 0.7, 0.0, 1.0)
    gate = ramp(view.across - 0.24, 0.1) * view.half(sign) * ramp(depth - 0.03, 0.03)
    outside = ramp(depth - view.wall, 0.02) * view.thorax * gate
    line = np.clip(1.0 - np.abs(view.wall - depth) / 0.020, 0.0, 1.0) * gate * view.thorax
    canvas.added += 0.30 * line - 0.15 * outside
    canvas.claim(state.finding, np.maximum(outside, ramp(0.05 - np.abs(view.wall - depth), 0.03) * gate))


def _support_devices(view: Frontal, state: FindingState) -> None:
    """Thin bright lines and tubes with a tip, or a pacemaker with its lead."""
    u, v, _ = state.position
    canvas, sign = view.canvas, view.sides(state)[0]
    cava = -0.07
    thin, thick = [], []
    for device in state.devices:
        if device == "picc":
            tip = -0.05 + 0.16 * v
            thin.append(curve((sign * 0.93, -0.38), (sign * 0.60, -0.72), (sign * 0.12, -0.50)))
            thin.append(curve((sign * 0.12, -0.50), (cava, -0.46), (cava, tip)))
        elif device == "central line":
            thin.append(curve((sign * 0.20, -1.0), (sign * 0.14, -0.62), (cava, -0.10 + 0.16 * v)))
        elif device == "endotracheal tube":
            thick.append([(0.015, -1.0), (0.01, -0.38 + 0.12 * v)])
        elif device == "nasogastric tube":
            thin.append([(-0.015, -1.0), (0.0, 0.30), (0.06, 0.62)])
            thin.append(curve((0.06, 0.62), (0.12, 0.86), (0.40, 0.80 + 0.06 * v)))
        elif device == "pacemaker":
            box = [(0.50, -0.50), (0.68, -0.54), (0.71, -0.36), (0.53, -0.32)]
            case = canvas.polygon([(sign * x, y) for x, y in box])
            canvas.added += 0.32 * case
            canvas.claim(state.finding, case)
            thin.append(curve((sign * 0.52, -0.48), (sign * 0.22, -0.66), (cava, -0.40)))
            thin.append(curve((cava, -0.40), (-0.10, 0.25), (0.20 + 0.08 * u, 0.42)))
        else:
            thick.append(curve((sign * 0.92, 0.30 + 0.14 * v), (sign * 0.62, 0.20), (sign * 0.44, -0.36 + 0.20 * u)))
    canvas.added += 0.30 * canvas.stroke(thin, 0.030) if thin else 0.0
    canvas.added += 0.30 * canvas.stroke(thick, 0.050) if thick else 0.0
    canvas.claim(state.finding, canvas.stroke(thin + thick, 0.08))


_PAINTERS = {
    "atelectasis": _atelectasis,
    "cardiomegaly": _drawn_with_anatomy,
    "consolidation": _consolidation,
    "edema": _edema,
    "enlarged mediastinum": _drawn_with_anatomy,
    "fracture": _fracture,
    "lung lesion": _lung_lesion,
    "lung opacity": _lung_opacity,
    "pleural effusion": _pleural_effusion,
    "pleural abnormality": _pleural_abnormality,
    "pneumonia": _pneumonia,
    "pneumothorax": _pneumothorax,
    "support devices": _support_devices,
}
