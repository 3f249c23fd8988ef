"""The lateral radiograph, with the patient facing left: the anatomy into which the findings are drawn.

The lungs overlap, so the side of a finding is lost. Pneumothorax and rib fractures are not visible; effusions behind
the diaphragm, disease behind the heart and vertebral fractures are more visible than on the frontal view.
"""

from __future__ import annotations

import math

import numpy as np

from pacer.phantom.canvas import Array, Canvas, Projection, bump, curve, ramp, smooth_noise
from pacer.phantom.world import FindingState, PhantomStudy

ZONE_HEIGHT = {"upper": -0.36, "mid": -0.02, "lower": 0.28}
#: Height of a vertebra together with the gap below it.
VERTEBRA = 0.19


class Lateral(Projection):
    """Draws one study; the attributes are the geometry shared by the findings.

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
        super().__init__(study, Canvas(size, anatomy, anatomy.kyphosis), purpose=11)
        x, y = self.canvas.x, self.canvas.y
        height = np.where(y > 0.0, anatomy.lung_height + 0.20, anatomy.lung_height)
        width = np.float32(anatomy.lung_width + 0.26)
        # narrow apices: the upper part lies further back
        lean = np.float32(1.5 * anatomy.apex) * np.clip(-y, 0.0, 1.0)
        self.wall = (1.0 - np.sqrt(np.square((x - 0.02 - lean) / width) + np.square(y / height))) * width
        self.thorax = ramp(self.wall, 0.04)
        raised = 0.0
        if "atelectasis" in study.findings:
            raised = 0.05 + 0.06 * study.findings["atelectasis"].severity
        dome = anatomy.diaphragm - 0.06 - raised + np.float32(anatomy.dome - 0.13) * np.square((x + 0.12) / 0.62)
        self.below = y - dome
        self.lung = self.thorax * ramp(-self.below, 0.04)

    def place(self, state: FindingState) -> tuple[float, float]:
        """Return the position of a lung finding; behind the heart if it is visible only on this view."""
        u, v, _ = state.position
        if state.lateral_only:
            return 0.27 + 0.10 * (u - 0.5), 0.24 + 0.16 * (v - 0.5)
        return 0.12 + 0.30 * (u - 0.5), ZONE_HEIGHT[state.zone] + 0.18 * (v - 0.5)

    def body(self) -> Array:
        """Draw everything except the findings and the air of the lungs; return its brightness [size, size]."""
        canvas, anatomy = self.canvas, self.study.anatomy
        x, y, bone = canvas.x, canvas.y, np.float32(anatomy.bone)
        trunk = ramp(0.85 + 0.08 * np.float32(anatomy.fat) - np.abs(x), 0.06)
        trunk *= ramp(y + 1.15 - 0.25 * np.abs(x), 0.1)
        density = trunk * np.float32(0.56) + np.float32(0.03)
        density += 0.12 * ramp(self.below, 0.05) * self.thorax
        self._heart()
        self._upper_mediastinum()
        axis = 0.50 + 0.10 * np.square(y)
        column = ramp(0.115 - np.abs(x - axis), 0.03)
        blocks = np.clip(np.cos((y - 0.04) * (2 * math.pi / VERTEBRA)) * 1.5 + 0.9, 0.0, 1.0)
        density += column * bone * (0.05 + 0.14 * blocks) * (1.0 - 0.35 * (y + 1.0) / 2.0)
        density -= 0.15 * ramp(0.045 - np.abs(x - 0.10 - 0.12 * (y + 0.6)), 0.02) * ramp(-0.28 - y, 0.08) * trunk
        breastbone = curve((-0.50, -0.72), (-0.74 + 0.2 * anatomy.apex, -0.20), (-0.66, 0.36), 8)
        density += 0.13 * bone * canvas.stroke([breastbone], 0.05)
        self._soft_tissue(density, trunk)
        hilum = bump((np.square(x - 0.05) + np.square(y + 0.02)) / 0.035)
        density += (0.10 + 0.4 * anatomy.hilum) * hilum * self.lung
        ribs = np.clip(np.cos((y - 0.45 * x + 0.3) * (2 * math.pi / anatomy.rib_spacing)) * 1.6 - 0.8, 0.0, 0.8)
        density += 0.035 * bone * ribs * self.thorax
        density += 0.02 * smooth_noise(canvas.size, 22, self.texture, self.window) * self.lung
        return density + 0.015 * smooth_noise(canvas.size, 5, self.texture, self.window) * trunk

    def _heart(self) -> None:
        """Draw the heart, and the aortic arch, which grows with age."""
        canvas, anatomy = self.canvas, self.study.anatomy
        x, y, size = canvas.x, canvas.y, anatomy.heart
        enlarged = self.study.findings.get("cardiomegaly")
        growth = 1.0 if enlarged is None else 1.32 + 0.26 * enlarged.severity
        length = (anatomy.heart_length + 0.005) * (0.5 + 0.5 * growth)
        across = x + np.float32(0.32 - anatomy.heart_place - 0.14 * (growth - 1.0))
        across = across + np.float32(0.6 * (anatomy.heart_axis - 0.34)) * (y - 0.26)
        radius = np.sqrt(np.square(across / (size * growth)) + np.square((y - 0.26) / length))
        heart = ramp((1.0 - radius) * np.float32(size), 0.04)
        canvas.fill(0.72 * heart)
        if enlarged is not None:
            canvas.claim("cardiomegaly", heart)
        arch = np.sqrt(np.square(x - 0.10) + np.square(y + 0.34))
        canvas.fill(np.float32(0.35 * anatomy.knob) * ramp(0.05 - np.abs(arch - 0.14), 0.05) * ramp(-0.20 - y, 0.1))

    def _soft_tissue(self, density: Array, trunk: Array) -> None:
        """Draw raised arms above, breasts in front, and gas under the diaphragm."""
        canvas, anatomy = self.canvas, self.study.anatomy
        x, y = canvas.x, canvas.y
        arm = np.abs(x - np.float32(0.55 - 2.0 * anatomy.scapula) - 0.5 * (y + 0.9))
        density += np.float32(0.05 + 0.05 * anatomy.fat) * ramp(0.14 - arm, 0.06) * ramp(-0.58 - y, 0.15) * trunk
        if anatomy.breast:
            low = np.square((x + 0.62) / 0.28) + np.square((y - np.float32(anatomy.breast_height)) / 0.34)
            density += np.float32(anatomy.breast) * ramp(1.0 - low, 0.3)
        density -= 0.20 * self.gas(x + np.float32(anatomy.gas[0] - 0.32)) * ramp(self.below, 0.05)

    def _upper_mediastinum(self) -> None:
        """Fill the retrosternal space if the mediastinum is enlarged; otherwise it stays clear."""
        state = self.study.findings.get("enlarged mediastinum")
        if state is None:
            return
        u, v, _ = state.position
        x, y = self.canvas.x, self.canvas.y
        reach = 0.25 + 0.12 * state.severity
        mass = np.square((x + 0.30 - 0.06 * u) / reach) + np.square((y + 0.40 - 0.08 * v) / (reach + 0.06))
        mass = ramp(1.0 - mass, 0.25)
        self.canvas.fill(0.70 * mass)
        self.canvas.claim(state.finding, mass * self.lung)
