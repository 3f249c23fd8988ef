"""The lateral radiograph: the anatomy of a chest seen from the side, with the patient facing left.

The lungs overlap, so the side of a finding is lost.
"""

import numpy as np

from pacer.phantom.canvas import Array, Canvas, curve, ellipse, ramp, stripes
from pacer.phantom.world import FindingState, PhantomStudy

#: Height of a vertebra together with the gap below it.
VERTEBRA = 0.19


class Lateral(Canvas):
    """Draws one examination from the side."""

    column = (0.20, 0.26)
    root = 0.0
    plane = (1, 2)

    def __init__(self, study: PhantomStudy, size: int) -> None:
        anatomy = study.anatomy
        super().__init__(study, size, anatomy.kyphosis, 0.0, purpose=11)
        x, y = self.x, self.y
        self.trunk = ramp(0.85 + 0.08 * anatomy.fat - np.abs(x), 0.06)
        self.trunk *= ramp(y + 1.15 - 0.25 * np.abs(x), 0.1)
        height = anatomy.lung_height + np.float32(0.20) * (y > 0.0)
        # narrow apices: the upper part lies further back
        lean = 1.5 * anatomy.apex * np.clip(-y, 0.0, 1.0)
        wall = ellipse(x - 0.02 - lean, y, anatomy.lung_width + 0.26, height)
        dome = (anatomy.dome - 0.13) * np.square((x + 0.12) / 0.62)
        self.open_lungs(wall, y - anatomy.diaphragm + 0.06 - dome, 1.0)

    def sides(self, state: FindingState) -> list[int]:
        """Return the sign of x of the back, whatever the side of the finding."""
        return [1]

    def skeleton(self) -> Array:
        """Draw heart, mediastinum, aortic arch, windpipe, arms and breasts; return the brightness
        of spine, breastbone and ribs."""
        x, y = self.x, self.y
        anatomy = self.anatomy
        self.draw_heart(-0.32, 0.26, 0.34 - anatomy.heart_axis)
        state = self.study.findings.get("enlarged mediastinum")
        if state is not None:  # it fills the retrosternal space, which otherwise stays clear
            u, v, _ = state.position
            reach = 0.25 + 0.12 * state.severity
            mass = ellipse(x + 0.30 - 0.06 * u, y + 0.40 - 0.08 * v, reach, reach + 0.06)
            mass = ramp(mass, 0.04)
            self.fill(0.70 * mass)
            self.claim(state.finding, mass * self.lung)
        arch = np.abs(np.sqrt(np.square(x - 0.10) + np.square(y + 0.34)) - 0.14)
        self.fill(0.35 * anatomy.knob * ramp(0.05 - arch, 0.05) * ramp(-0.20 - y, 0.1))
        windpipe = np.abs(x - 0.10 - 0.12 * (y + 0.6))
        self.added -= 0.15 * ramp(0.045 - windpipe, 0.02) * ramp(-0.28 - y, 0.08) * self.trunk
        # raised arms
        arm = np.abs(x - 0.35 - 0.5 * (y + 0.9))
        self.added += 0.08 * ramp(0.14 - arm, 0.06) * ramp(-0.58 - y, 0.15) * self.trunk
        breast = ellipse(x + 0.62, y - 0.42, 0.28, 0.34)
        self.added += max(0.0, anatomy.breast) * ramp(breast, 0.08)
        column = ramp(0.115 - np.abs(x - 0.50 - 0.10 * np.square(y)), 0.03)
        bones = column * (0.05 + 0.14 * stripes(y - 0.04, VERTEBRA, 0.5)) * (0.8 - 0.15 * y)
        breastbone = curve((-0.50, -0.72), (-0.74 + 0.2 * anatomy.apex, -0.20), (-0.66, 0.36))
        bones += 0.13 * self.stroke([breastbone], 0.05)
        ribs = stripes(y - 0.45 * x + 0.3, anatomy.rib_spacing, -0.5)
        return anatomy.bone * (bones + 0.035 * ribs * self.thorax)
