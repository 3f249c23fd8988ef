"""The lateral radiograph, with the patient facing left: the anatomy, and each finding on it.

The lungs overlap, so the side of a finding is lost. Pneumothorax and rib fractures are not visible;
effusions behind the diaphragm, disease behind the heart and vertebral fractures are more visible
than on the frontal view.
"""

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

ZONE_HEIGHT = {"upper": -0.36, "mid": -0.02, "lower": 0.28}
#: Height of a vertebra together with the gap below it.
VERTEBRA = 0.19


class Lateral(Canvas):
    """Draws one examination; the attributes are the geometry shared by the findings.

    Attributes:
        wall: distance inward from the chest wall; negative outside.
        thorax: inside of the rib cage, 0 to 1.
        lung: air-filled lung, 0 to 1.
        below: distance below the diaphragm.
    """

    #: Brightness that the air of the lungs takes away.
    air_depth = 0.44

    def __init__(self, study: PhantomStudy, size: int):
        anatomy = study.anatomy
        super().__init__(study, size, anatomy.kyphosis, purpose=11)
        x, y = self.x, self.y
        height = np.where(y > 0.0, anatomy.lung_height + 0.20, anatomy.lung_height)
        width = np.float32(anatomy.lung_width + 0.26)
        # narrow apices: the upper part lies further back
        lean = np.float32(1.5 * anatomy.apex) * np.clip(-y, 0.0, 1.0)
        self.wall = (
            1.0 - np.sqrt(np.square((x - 0.02 - lean) / width) + np.square(y / height))
        ) * width
        self.thorax = ramp(self.wall, 0.04)
        raised = 0.0
        if "atelectasis" in study.findings:
            raised = 0.05 + 0.06 * study.findings["atelectasis"].severity
        dome = (
            anatomy.diaphragm
            - 0.06
            - raised
            + np.float32(anatomy.dome - 0.13) * np.square((x + 0.12) / 0.62)
        )
        self.below = y - dome
        self.lung = self.thorax * ramp(-self.below, 0.04)

    def place(self, state: FindingState) -> tuple[float, float]:
        """Return the position of a lung finding; behind the heart if it is visible only on this
        view."""
        u, v, _ = state.position
        if state.lateral_only:
            return 0.27 + 0.10 * (u - 0.5), 0.24 + 0.16 * (v - 0.5)
        return 0.12 + 0.30 * (u - 0.5), ZONE_HEIGHT[state.zone] + 0.18 * (v - 0.5)

    def body(self) -> Array:
        """Draw everything except the findings and the air of the lungs; return its brightness
        [size, size]."""
        x, y = self.x, self.y
        anatomy = self.anatomy
        bone = np.float32(anatomy.bone)
        trunk = ramp(0.85 + 0.08 * np.float32(anatomy.fat) - np.abs(x), 0.06)
        trunk *= ramp(y + 1.15 - 0.25 * np.abs(x), 0.1)
        density = trunk * np.float32(0.56) + np.float32(0.03)
        density += 0.12 * ramp(self.below, 0.05) * self.thorax
        self._heart()
        widened = self.study.findings.get("enlarged mediastinum")
        if widened is not None:  # it fills the retrosternal space, which otherwise stays clear
            u, v, _ = widened.position
            reach = 0.25 + 0.12 * widened.severity
            mass = np.square((x + 0.30 - 0.06 * u) / reach) + np.square(
                (y + 0.40 - 0.08 * v) / (reach + 0.06)
            )
            mass = ramp(1.0 - mass, 0.25)
            self.fill(0.70 * mass)
            self.claim(widened.finding, mass * self.lung)
        axis = 0.50 + 0.10 * np.square(y)
        column = ramp(0.115 - np.abs(x - axis), 0.03)
        blocks = np.clip(cosine((y - 0.04) * (2 * math.pi / VERTEBRA)) * 1.5 + 0.9, 0.0, 1.0)
        density += column * bone * (0.05 + 0.14 * blocks) * (1.0 - 0.35 * (y + 1.0) / 2.0)
        density -= (
            0.15
            * ramp(0.045 - np.abs(x - 0.10 - 0.12 * (y + 0.6)), 0.02)
            * ramp(-0.28 - y, 0.08)
            * trunk
        )
        breastbone = curve((-0.50, -0.72), (-0.74 + 0.2 * anatomy.apex, -0.20), (-0.66, 0.36), 8)
        density += 0.13 * bone * self.stroke([breastbone], 0.05)
        # raised arms above, breasts in front, and gas under the diaphragm
        arm = np.abs(x - np.float32(0.55 - 2.0 * anatomy.scapula) - 0.5 * (y + 0.9))
        density += (
            np.float32(0.05 + 0.05 * anatomy.fat)
            * ramp(0.14 - arm, 0.06)
            * ramp(-0.58 - y, 0.15)
            * trunk
        )
        if anatomy.breast:
            low = np.square((x + 0.62) / 0.28) + np.square(
                (y - np.float32(anatomy.breast_height)) / 0.34
            )
            density += np.float32(anatomy.breast) * ramp(1.0 - low, 0.3)
        density -= 0.20 * self.gas(x + np.float32(anatomy.gas[0] - 0.32)) * ramp(self.below, 0.05)
        hilum = bump((np.square(x - 0.05) + np.square(y + 0.02)) / 0.035)
        density += (0.10 + 0.4 * anatomy.hilum) * hilum * self.lung
        ribs = np.clip(
            cosine((y - 0.45 * x + 0.3) * (2 * math.pi / anatomy.rib_spacing)) * 1.6 - 0.8, 0.0, 0.8
        )
        density += 0.035 * bone * ribs * self.thorax
        density += 0.02 * smooth_noise(self.size, 22, self.texture, self.window) * self.lung
        return density + 0.015 * smooth_noise(self.size, 5, self.texture, self.window) * trunk

    def _heart(self) -> None:
        """Draw the heart, and the aortic arch, which grows with age."""
        x, y = self.x, self.y
        anatomy = self.anatomy
        size = anatomy.heart
        enlarged = self.study.findings.get("cardiomegaly")
        growth = 1.0 if enlarged is None else 1.18 + 0.58 * enlarged.severity
        length = (anatomy.heart_length + 0.005) * (0.5 + 0.5 * growth)
        across = x + np.float32(0.32 - anatomy.heart_place - 0.14 * (growth - 1.0))
        across = across + np.float32(0.6 * (anatomy.heart_axis - 0.34)) * (y - 0.26)
        radius = np.sqrt(np.square(across / (size * growth)) + np.square((y - 0.26) / length))
        heart = ramp((1.0 - radius) * np.float32(size), 0.04)
        self.fill(0.72 * heart)
        if enlarged is not None:
            self.claim("cardiomegaly", heart)
        arch = np.sqrt(np.square(x - 0.10) + np.square(y + 0.34))
        self.fill(
            np.float32(0.35 * anatomy.knob)
            * ramp(0.05 - np.abs(arch - 0.14), 0.05)
            * ramp(-0.20 - y, 0.1)
        )


def atelectasis(view: Lateral, state: FindingState) -> None:
    u, v, _ = state.position
    a, b, c = further(state, 3)
    base = view.anatomy.diaphragm - 0.26 + 0.05 * u
    step = 0.095 + 0.03 * b
    start = -0.06 + 0.10 * a
    end = 0.40 + 0.10 * c
    lines = []
    for n in range(3 if state.severity > 0.5 else 2):
        slope = (0.16 if n % 2 == 0 else 0.02) * (0.3 + v)
        height = base - step * n
        lines.append([(start + 0.04 * n, height), (end, height + slope)])
    bands = view.stroke(lines, 0.040 + 0.010 * a + 0.012 * state.severity)
    view.fill((0.70 + 0.14 * state.severity) * bands)
    view.added += 0.12 * bands
    lifted = ramp(view.below, 0.03) * ramp(0.13 - view.below, 0.03) * view.thorax
    view.claim(state.finding, np.maximum(view.stroke(lines, 0.10), lifted))


def consolidation(view: Lateral, state: FindingState) -> None:
    """A dense block with straight borders; behind the heart it lies over the lower spine."""
    x, y = view.x, view.y
    centre_x, centre_y = view.place(state)
    half = 0.17 + 0.09 * state.severity
    a, b, c = further(state, 3)
    slanted = y - centre_y - (0.35 + 0.4 * a) * (x - centre_x)
    block = ramp(half - np.abs(slanted), 0.025) * ramp(
        half + 0.10 * b - np.abs(x - centre_x), 0.025
    )
    view.fill((0.74 + 0.12 * c) * block)
    view.added += 0.05 * block * view.lung
    view.claim(state.finding, block * view.lung)


def edema(view: Lateral, state: FindingState) -> None:
    """Haze around the hilum and thick fissures."""
    x, y = view.x, view.y
    u, v, w = state.position
    spread = np.square(x - 0.10 * u) + np.float32(0.55 + 0.3 * v) * np.square(y - 0.08 * w)
    haze = bump(spread / (0.15 + 0.10 * state.severity)) * (0.36 + 0.50 * state.severity)
    view.fill(haze * (1.0 + 0.22 * smooth_noise(view.size, 28, w, (u, v))))
    fissures = [
        [(0.32 + 0.08 * u, -0.50), (-0.24 + 0.08 * v, 0.46)],
        [(0.08, -0.02), (-0.46, 0.02 + 0.08 * w)],
    ]
    view.added += 0.15 * view.stroke(fissures, 0.035) * view.lung
    region = np.maximum(ramp(haze - 0.2, 0.1), view.stroke(fissures, 0.06))
    view.claim(state.finding, region * view.lung)


def fracture(view: Lateral, state: FindingState) -> None:
    """A vertebral body compressed to a dense wedge between widened dark gaps."""
    y = 0.04 + VERTEBRA * (int(4 * state.position[0]) - 2)
    x = 0.50 + 0.10 * y * y
    left = x - 0.16 - 0.02 * state.position[1]
    right = x + 0.13
    around = view.polygon(
        [(left, y - 0.10), (right, y - 0.10), (right, y + 0.10), (left, y + 0.10)]
    )
    wedge = view.polygon(
        [(left, y - 0.012), (right, y - 0.075), (right, y + 0.075), (left, y + 0.03)]
    )
    view.added += (0.42 + 0.12 * state.severity) * wedge - 0.26 * around
    view.claim(state.finding, around)


def lung_lesion(view: Lateral, state: FindingState) -> None:
    centre_x, centre_y = view.place(state)
    a, b, _ = further(state, 3)
    radius = 0.092 + 0.08 * state.severity
    x = view.x - np.float32(centre_x)
    y = view.y - np.float32(centre_y)
    distance = np.sqrt(
        np.square(x) * np.float32(0.85 + 0.35 * a) + np.square(y) * np.float32(0.85 + 0.35 * b)
    )
    spot = ramp(radius - distance, 0.022)
    view.fill((0.82 + 0.12 * state.severity) * spot)
    view.added += (0.10 + 0.06 * b) * spot
    view.claim(state.finding, spot)


def lung_opacity(view: Lateral, state: FindingState) -> None:
    x, y = view.place(state)
    a, _, _ = further(state, 3)
    reach = 0.28 + 0.04 * a + 0.10 * state.severity
    squared = np.square(view.x - np.float32(x))
    squared = squared + np.float32(0.75 + 0.4 * a) * np.square(view.y - np.float32(y))
    haze = bump(squared / np.float32(reach**2))
    view.fill((0.60 + 0.22 * state.severity) * haze)
    view.claim(state.finding, ramp(haze - 0.3, 0.2) * view.lung)


def pneumonia(view: Lateral, state: FindingState) -> None:
    x, y = view.place(state)
    u, v, w = state.position
    reach = 0.31 + 0.05 * w + 0.08 * state.severity
    window = np.sqrt(
        bump((np.square(view.x - np.float32(x)) + np.square(view.y - np.float32(y))) / reach**2)
    )
    clumps = np.clip(smooth_noise(view.size, 17, w, (v, u)) * 1.6 + 0.4, 0.0, 1.0)
    view.fill((0.80 + 0.12 * state.severity) * window * clumps)
    branches = [
        [(x - 0.20, y - 0.02), (x, y), (x + 0.15, y - 0.11)],
        [(x, y), (x + 0.16, y + 0.10)],
    ]
    view.added -= 0.15 * view.stroke(branches, 0.028) * view.lung
    view.claim(state.finding, ramp(window - 0.25, 0.15) * view.lung)


def pleural_effusion(view: Lateral, state: FindingState) -> None:
    """Fluid in the deep posterior angle, with a curved upper border."""
    x, y = view.x, view.y
    height = 0.30 + 0.45 * state.severity
    a, b, _ = further(state, 3)
    level = 0.78 - height * (0.45 + 0.55 * power(np.clip((x + 0.10) / 0.62, 0.0, 1.0), 1.5 + b))
    fluid = ramp(y - level, 0.05) * ramp(x + 0.08, 0.1)
    view.fill((0.85 + 0.10 * a) * fluid)
    view.added += 0.09 * fluid * view.lung
    view.claim(state.finding, fluid * view.lung)


def pleural_abnormality(view: Lateral, state: FindingState) -> None:
    """A wavy rim along the posterior chest wall."""
    u, v, w = state.position
    y = view.y
    thickness = (0.10 + 0.07 * state.severity) * (
        1.0 + 0.28 * sine(y * (2 * math.pi / (0.24 + 0.14 * w)) + 6.0 * v)
    )
    thickness = thickness * np.clip(1.6 - np.abs(y + 0.35 - 0.3 * np.float32(u)) / 0.26, 0.0, 1.0)
    rim = (
        ramp(thickness - view.wall, 0.025)
        * view.thorax
        * ramp(view.x - 0.1, 0.1)
        * (thickness > 0.01)
    )
    view.fill(0.92 * rim)
    is_spot = cosine(y * (2 * math.pi / (0.10 + 0.05 * v)) + 6.0 * w) > 0.55
    view.added += (0.07 + 0.10 * is_spot) * rim
    view.claim(state.finding, rim)


def support_devices(view: Lateral, state: FindingState) -> None:
    u, v, w = state.position
    lines = {
        "picc": [curve((0.04 + 0.12 * w, -0.95), (-0.02, -0.60), (-0.03, -0.08 + 0.20 * v))],
        "central line": [
            curve((-0.16 + 0.08 * w, -1.0), (-0.10, -0.60), (-0.02, -0.12 + 0.20 * v))
        ],
        "endotracheal tube": [[(0.04, -1.0), (0.11, -0.40 + 0.12 * v)]],
        "nasogastric tube": [
            curve((0.14, -1.0), (0.26, -0.20), (0.22, 0.55)),
            curve((0.22, 0.55), (0.16, 0.72), (-0.10, 0.74)),
        ],
        "pacemaker": [
            curve((-0.64, -0.56), (-0.20, -0.80), (-0.05, -0.30)),
            curve((-0.05, -0.30), (-0.02, 0.20), (-0.36, 0.40)),
        ],
        "chest tube": [curve((0.10, 0.42), (0.22, 0.05), (0.16, -0.42 + 0.2 * u))],
    }
    view.draw_devices(
        state, lines, [(-0.74, -0.58), (-0.64, -0.60), (-0.62, -0.40), (-0.72, -0.38)], 0.34
    )
