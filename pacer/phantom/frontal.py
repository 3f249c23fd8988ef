"""The frontal radiograph: the anatomy of a chest seen from the front."""

import numpy as np

from pacer.phantom.canvas import Array, Canvas, bump, curve, ellipse, ramp, stripes
from pacer.phantom.world import FindingState, PhantomStudy


class Frontal(Canvas):
    """Draws one examination from the front.

    Attributes:
        across: distance from the midline.
    """

    column = (0.43, 0.20)
    root = 0.24
    plane = (0, 2)

    def __init__(self, study: PhantomStudy, size: int) -> None:
        anatomy = study.anatomy
        super().__init__(study, size, anatomy.scoliosis, anatomy.turned, purpose=10)
        y = self.y
        self.across = np.abs(self.x)
        shoulder = 0.90 - 3.6 * np.square(np.clip(-0.62 - y, 0.0, 0.45))
        self.trunk = ramp(shoulder + 0.07 * anatomy.fat - self.across, 0.05)
        height = anatomy.lung_height + np.float32(0.13) * (y > 0.05)
        # narrow apices: the upper lungs lean towards the midline
        lean = anatomy.apex * np.clip(-y, 0.0, 1.0)
        wall = ellipse(self.across - 0.40 + lean, y - 0.05, anatomy.lung_width, height)
        dome = anatomy.diaphragm + 0.03 * np.sign(self.x)
        below = y - dome - anatomy.dome * np.square((self.across - 0.34) / 0.38)
        edge = anatomy.mediastinum
        state = study.findings.get("enlarged mediastinum")
        if state is not None:
            u, v, _ = state.position
            hill = bump(np.square((y + 0.40 - 0.14 * u) / (0.52 + 0.16 * v)))
            widened = (0.06 + 0.20 * state.severity) * hill
            edge = edge + widened
            self.claim(state.finding, (widened > 0.03) * ramp(edge - self.across, 0.03))
        self.open_lungs(wall, below, ramp(self.across - edge, 0.04))

    def sides(self, state: FindingState) -> list[int]:
        """Return the signs of x for the sides of a finding; -1 is the patient's right."""
        return {"right": [-1], "left": [1]}.get(state.side, [-1, 1])

    def skeleton(self) -> Array:
        """Draw heart, aortic knob, windpipe and breasts; return the brightness of ribs, spine,
        clavicles and shoulder blades."""
        y = self.y
        across = self.across
        anatomy = self.anatomy
        self.draw_heart(0.0, 0.36, anatomy.heart_axis)
        knob = np.square(self.x - 0.09 - 0.055 * anatomy.knob) + np.square(y + 0.30)
        self.fill(0.7 * bump(knob / (0.010 + 0.008 * anatomy.knob)))
        self.added -= 0.16 * ramp(0.035 - np.abs(self.x - 0.01), 0.02) * ramp(-0.22 - y, 0.08)
        breast = ellipse(across - 0.50, y - 0.42, 0.30, 0.30)
        self.added += max(0.0, anatomy.breast) * ramp(breast, 0.08)
        ribs = stripes(y - 0.30 * np.square(across) + 0.72, anatomy.rib_spacing, -0.4)
        bones = 0.07 * ribs * ramp(self.wall + 0.05, 0.04) * ramp(across - 0.10, 0.05)
        vertebrae = stripes(y, 0.73 * anatomy.rib_spacing, 0.0)
        bones += ramp(0.075 - across, 0.03) * (0.06 + 0.03 * vertebrae)
        height = anatomy.clavicle - 0.60
        slope = anatomy.clavicle_slope + 0.16
        clavicles = [
            curve((s * 0.08, height), (s * 0.35, height - 0.4 * slope), (s * 0.85, height - slope))
            for s in (-1, 1)
        ]
        bones += 0.10 * self.stroke(clavicles, 0.055)
        blade = ramp(across - 0.78 + anatomy.scapula - 0.10 * (y + 0.35), 0.03)
        bones += 0.055 * blade * ramp(0.36 - np.abs(y + 0.34), 0.12) * self.trunk
        return anatomy.bone * bones
