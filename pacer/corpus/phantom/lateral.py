"""The lateral radiograph, the patient facing the image's left: anatomy, and how each finding looks on it.

Both lungs lie over each other, so the side of a finding is lost. Pneumothorax and rib fractures do not show;
effusions behind the diaphragm, disease behind the heart and vertebral fractures show better than on the frontal view.
"""

from __future__ import annotations

import math

import numpy as np

from pacer.corpus.phantom.canvas import PATTERNS, Array, Canvas, bump, curve, ramp, smooth_noise
from pacer.corpus.phantom.world import FindingState, Study

ZONE_HEIGHT = {"upper": -0.36, "mid": -0.02, "lower": 0.28}
_AIR_DEPTH = 0.44
_VERTEBRA = 0.19


class Lateral:
    """Draws one study; the attributes are the geometry that the findings share.

    Attributes:
        wall: distance inward from the chest wall; negative outside.
        thorax: inside of the rib cage, 0 to 1.
        lung: air-filled lung, 0 to 1.
        below: distance below the diaphragm.
    """

    def __init__(self, study: Study, size: int):
        self.study = study
        self.canvas = Canvas(size, study.anatomy)
        self.rng = study.rng(11)
        self.pattern = int(self.rng.integers(PATTERNS))
        anatomy, x, y = study.anatomy, self.canvas.x, self.canvas.y
        height = np.where(y > 0.0, anatomy.lung_height + 0.20, anatomy.lung_height)
        width = np.float32(anatomy.lung_width + 0.26)
        self.wall = (1.0 - np.sqrt(np.square((x - 0.02) / width) + np.square(y / height))) * width
        self.thorax = ramp(self.wall, 0.04)
        raised = 0.0
        if "atelectasis" in study.findings:
            raised = 0.05 + 0.06 * study.findings["atelectasis"].severity
        dome = anatomy.diaphragm - 0.06 - raised + 0.42 * np.square((x + 0.12) / 0.62)
        self.below = y - dome
        self.lung = self.thorax * ramp(-self.below, 0.04)

    def draw(self) -> tuple[Array, dict[str, Array]]:
        """The radiograph uint8 [size, size] and each visible finding's region, float32 [size, size]."""
        density = self._body()
        for state in self.study.findings.values():
            if state.finding in _PAINTERS:
                _PAINTERS[state.finding](self, state)
        return self.canvas.finish(density, self.lung, _AIR_DEPTH, self.rng), self.canvas.regions

    def place(self, state: FindingState) -> tuple[float, float]:
        """Where a finding of the lung lies; behind the heart when it shows on this view alone."""
        u, v, _ = state.position
        if state.lateral_only:
            return 0.27 + 0.06 * (u - 0.5), 0.26 + 0.10 * (v - 0.5)
        return 0.12 + 0.28 * (u - 0.5), ZONE_HEIGHT[state.zone] + 0.14 * (v - 0.5)

    def _body(self) -> Array:
        canvas, anatomy = self.canvas, self.study.anatomy
        x, y = canvas.x, canvas.y
        trunk = ramp(0.86 + 0.05 * np.float32(anatomy.fat) - np.abs(x), 0.06)
        trunk *= ramp(y + 1.15 - 0.25 * np.abs(x), 0.1)
        density = trunk * np.float32(0.56) + np.float32(0.03)
        density += 0.12 * ramp(self.below, 0.05) * self.thorax
        size = anatomy.heart
        enlarged = self.study.findings.get("cardiomegaly")
        growth = 1.0 if enlarged is None else 1.32 + 0.26 * enlarged.severity
        radius = np.sqrt(
            np.square((x + 0.24 - 0.14 * (growth - 1.0)) / (size * growth))
            + np.square((y - 0.26) / (0.24 * (0.5 + 0.5 * growth)))
        )
        heart = ramp((1.0 - radius) * np.float32(size), 0.04)
        canvas.fill(0.72 * heart)
        if enlarged is not None:
            canvas.claim("cardiomegaly", heart)
        self._upper_mediastinum()
        axis = 0.50 + 0.10 * np.square(y)
        self.spine_axis = axis
        column = ramp(0.115 - np.abs(x - axis), 0.03)
        blocks = np.clip(np.cos((y - 0.04) * (2 * math.pi / _VERTEBRA)) * 1.5 + 0.9, 0.0, 1.0)
        density += column * (0.05 + 0.15 * blocks) * (1.0 - 0.35 * (y + 1.0) / 2.0)
        density -= 0.15 * ramp(0.045 - np.abs(x - 0.10 - 0.12 * (y + 0.6)), 0.02) * ramp(-0.28 - y, 0.08) * trunk
        density += 0.14 * canvas.stroke([curve((-0.50, -0.72), (-0.74, -0.20), (-0.66, 0.36))], 0.05)
        hilum = bump((np.square(x - 0.05) + np.square(y + 0.02)) / 0.035)
        density += 0.10 * hilum * self.lung
        ribs = np.clip(np.cos((y - 0.45 * x + 0.3) * (2 * math.pi / anatomy.rib_spacing)) * 1.6 - 0.8, 0.0, 0.8)
        density += 0.035 * ribs * self.thorax
        density += 0.02 * smooth_noise(canvas.size, 22, self.pattern) * self.lung
        return density + 0.012 * smooth_noise(canvas.size, 5, self.pattern) * trunk

    def _upper_mediastinum(self) -> None:
        """The retrosternal space is clear, or filled when the mediastinum is enlarged."""
        state = self.study.findings.get("enlarged mediastinum")
        if state is None:
            return
        x, y = self.canvas.x, self.canvas.y
        reach = 0.26 + 0.12 * state.severity
        mass = ramp(1.0 - (np.square((x + 0.28) / reach) + np.square((y + 0.36) / (reach + 0.06))), 0.25)
        self.canvas.fill(0.72 * mass)
        self.canvas.claim(state.finding, mass * self.lung)


def _atelectasis(view: Lateral, state: FindingState) -> None:
    u, v, _ = state.position
    base = view.study.anatomy.diaphragm - 0.26 + 0.05 * u
    lines = [
        [(-0.02 + 0.04 * n, base - 0.11 * n), (0.46, base - 0.11 * n + (0.16 if n % 2 == 0 else 0.02) * (0.5 + v))]
        for n in range(2 + (state.severity > 0.5))
    ]
    bands = view.canvas.stroke(lines, 0.045 + 0.015 * state.severity)
    view.canvas.fill(0.75 * bands)
    view.canvas.added += 0.12 * bands
    lifted = ramp(view.below, 0.03) * ramp(0.13 - view.below, 0.03) * view.thorax
    view.canvas.claim(state.finding, np.maximum(view.canvas.stroke(lines, 0.10), lifted))


def _consolidation(view: Lateral, state: FindingState) -> None:
    """A dense block with straight borders; behind the heart it lies over the lower spine."""
    x, y = view.canvas.x, view.canvas.y
    centre_x, centre_y = view.place(state)
    half = 0.17 + 0.09 * state.severity
    slanted = y - centre_y - 0.55 * (x - centre_x)
    block = ramp(half - np.abs(slanted), 0.025) * ramp(half + 0.05 - np.abs(x - centre_x), 0.025)
    view.canvas.fill(0.86 * block)
    view.canvas.added += 0.05 * block * view.lung
    view.canvas.claim(state.finding, block * view.lung)


def _edema(view: Lateral, state: FindingState) -> None:
    """Haze around the hilum and thick fissures."""
    x, y = view.canvas.x, view.canvas.y
    haze = bump((np.square(x - 0.05) + 0.7 * np.square(y - 0.02)) / (0.16 + 0.10 * state.severity))
    haze = haze * (0.50 + 0.30 * state.severity)
    view.canvas.fill(haze * (1.0 + 0.22 * smooth_noise(view.canvas.size, 28, view.pattern)))
    fissures = [[(0.36, -0.50), (-0.20, 0.46)], [(0.08, -0.02), (-0.46, 0.06)]]
    view.canvas.added += 0.15 * view.canvas.stroke(fissures, 0.035) * view.lung
    region = np.maximum(ramp(haze - 0.2, 0.1), view.canvas.stroke(fissures, 0.06))
    view.canvas.claim(state.finding, region * view.lung)


def _fracture(view: Lateral, state: FindingState) -> None:
    """A vertebral body pressed to a dense wedge between widened dark gaps; rib fractures do not show."""
    if state.kind != "vertebra":
        return
    canvas = view.canvas
    y = 0.04 + _VERTEBRA * (int(4 * state.position[0]) - 2)
    x = 0.50 + 0.10 * y * y
    left, right = x - 0.17, x + 0.13
    around = canvas.polygon([(left, y - 0.10), (right, y - 0.10), (right, y + 0.10), (left, y + 0.10)])
    wedge = canvas.polygon([(left, y - 0.012), (right, y - 0.075), (right, y + 0.075), (left, y + 0.03)])
    canvas.added += 0.46 * wedge - 0.24 * around
    canvas.claim(state.finding, around)


def _lung_lesion(view: Lateral, state: FindingState) -> None:
    x, y = view.place(state)
    radius = 0.09 + 0.08 * state.severity
    distance = np.sqrt(np.square(view.canvas.x - np.float32(x)) + np.square(view.canvas.y - np.float32(y)))
    spot = ramp(radius - distance, 0.022)
    view.canvas.fill(0.9 * spot)
    view.canvas.added += 0.10 * spot
    view.canvas.claim(state.finding, spot)


def _lung_opacity(view: Lateral, state: FindingState) -> None:
    x, y = view.place(state)
    reach = 0.30 + 0.10 * state.severity
    squared = np.square(view.canvas.x - np.float32(x)) + np.square(view.canvas.y - np.float32(y))
    haze = bump(squared / np.float32(reach**2))
    view.canvas.fill((0.64 + 0.22 * state.severity) * haze)
    view.canvas.claim(state.finding, ramp(haze - 0.3, 0.2) * view.lung)


def _pneumonia(view: Lateral, state: FindingState) -> None:
    canvas = view.canvas
    x, y = view.place(state)
    reach = 0.34 + 0.08 * state.severity
    window = np.sqrt(bump((np.square(canvas.x - np.float32(x)) + np.square(canvas.y - np.float32(y))) / reach**2))
    clumps = np.clip(smooth_noise(canvas.size, 17, int(state.position[2] * PATTERNS)) * 1.6 + 0.4, 0.0, 1.0)
    canvas.fill((0.86 + 0.10 * state.severity) * window * clumps)
    branches = [[(x - 0.20, y - 0.02), (x, y), (x + 0.15, y - 0.11)], [(x, y), (x + 0.16, y + 0.10)]]
    canvas.added -= 0.15 * canvas.stroke(branches, 0.028) * view.lung
    canvas.claim(state.finding, ramp(window - 0.25, 0.15) * view.lung)


def _pleural_effusion(view: Lateral, state: FindingState) -> None:
    """Fluid in the deep angle behind, with a curved upper border."""
    x, y = view.canvas.x, view.canvas.y
    height = 0.30 + 0.45 * state.severity
    level = 0.78 - height * (0.45 + 0.55 * np.square(np.clip((x + 0.10) / 0.62, 0.0, 1.0)))
    fluid = ramp(y - level, 0.05) * ramp(x + 0.08, 0.1)
    view.canvas.fill(0.95 * fluid)
    view.canvas.added += 0.09 * fluid * view.lung
    view.canvas.claim(state.finding, fluid * view.lung)


def _pleural_abnormality(view: Lateral, state: FindingState) -> None:
    """A wavy rim along the chest wall behind."""
    canvas = view.canvas
    y = canvas.y
    thickness = (0.10 + 0.07 * state.severity) * (1.0 + 0.28 * np.sin(y * (2 * math.pi / 0.30)))
    thickness = thickness * np.clip(1.6 - np.abs(y + 0.35 - 0.3 * np.float32(state.position[0])) / 0.26, 0.0, 1.0)
    rim = ramp(thickness - view.wall, 0.025) * view.thorax * ramp(canvas.x - 0.1, 0.1) * (thickness > 0.01)
    canvas.fill(0.92 * rim)
    canvas.added += (0.08 + 0.10 * (np.cos(y * (2 * math.pi / 0.12)) > 0.55)) * rim
    canvas.claim(state.finding, rim)


def _support_devices(view: Lateral, state: FindingState) -> None:
    canvas = view.canvas
    u, v, _ = state.position
    thin, thick = [], []
    for device in state.devices:
        if device == "picc":
            thin.append(curve((0.10, -0.95), (-0.02, -0.60), (-0.03, -0.05 + 0.16 * v)))
        elif device == "central line":
            thin.append(curve((-0.12, -1.0), (-0.10, -0.60), (-0.02, -0.10 + 0.16 * v)))
        elif device == "endotracheal tube":
            thick.append([(0.04, -1.0), (0.11, -0.40 + 0.12 * v)])
        elif device == "nasogastric tube":
            thin.append(curve((0.14, -1.0), (0.26, -0.20), (0.22, 0.55)))
            thin.append(curve((0.22, 0.55), (0.16, 0.72), (-0.10, 0.74)))
        elif device == "pacemaker":
            case = canvas.polygon([(-0.74, -0.58), (-0.64, -0.60), (-0.62, -0.40), (-0.72, -0.38)])
            canvas.added += 0.34 * case
            canvas.claim(state.finding, case)
            thin.append(curve((-0.64, -0.56), (-0.20, -0.80), (-0.05, -0.30)))
            thin.append(curve((-0.05, -0.30), (-0.02, 0.20), (-0.36, 0.40)))
        else:
            thick.append(curve((0.10, 0.42), (0.22, 0.05), (0.16, -0.42 + 0.2 * u)))
    if thin:
        canvas.added += 0.30 * canvas.stroke(thin, 0.030)
    if thick:
        canvas.added += 0.30 * canvas.stroke(thick, 0.050)
    canvas.claim(state.finding, canvas.stroke(thin + thick, 0.08))


_PAINTERS = {
    "atelectasis": _atelectasis,
    "consolidation": _consolidation,
    "edema": _edema,
    "fracture": _fracture,
    "lung lesion": _lung_lesion,
    "lung opacity": _lung_opacity,
    "pleural effusion": _pleural_effusion,
    "pleural abnormality": _pleural_abnormality,
    "pneumonia": _pneumonia,
    "support devices": _support_devices,
}
