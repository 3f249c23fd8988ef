"""The frontal radiograph: the anatomy into which the findings are drawn."""

from __future__ import annotations

import math

import numpy as np

from pacer.phantom.canvas import Array, Canvas, Projection, bump, curve, ramp, smooth_noise
from pacer.phantom.world import FindingState, PhantomStudy

_LUNG_CENTRE, _LUNG_MIDDLE = 0.40, 0.05


class Frontal(Projection):
    """Draws one study; the attributes are the geometry shared by the findings.

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
        super().__init__(study, Canvas(size, anatomy, anatomy.scoliosis, anatomy.turned), purpose=10)
        x, y = self.canvas.x, self.canvas.y
        self.across = np.abs(x)
        height = np.where(y > _LUNG_MIDDLE, anatomy.lung_height + 0.13, anatomy.lung_height)
        # narrow apices: the upper lungs lean towards the midline
        lean = np.float32(anatomy.apex) * np.clip(-y, 0.0, 1.0)
        outward = np.square((self.across - _LUNG_CENTRE + lean) / anatomy.lung_width)
        radius = np.sqrt(outward + np.square((y - _LUNG_MIDDLE) / height))
        self.wall = (1.0 - radius) * np.float32(anatomy.lung_width)
        self.thorax = ramp(self.wall, 0.04)
        dome = anatomy.diaphragm + np.where(x < 0, -0.03, 0.03) - self._elevation(x)
        dome = dome + np.float32(anatomy.dome) * np.square((self.across - 0.34) / 0.38)
        self.below = y - dome
        half_width = self._mediastinum(y)
        self.medial = self.across - half_width
        self.lung = self.thorax * ramp(self.medial, 0.04) * ramp(-self.below, 0.04)
        bend = 0.30 * np.square(self.across)
        self.ribs = np.clip(np.cos((y - bend + 0.72) * (2 * math.pi / anatomy.rib_spacing)) * 1.6 - 0.7, 0.0, 0.9)
        self.ribs *= ramp(self.wall + 0.05, 0.04) * ramp(self.across - 0.10, 0.05)

    def sides(self, state: FindingState) -> list[int]:
        """Return the signs of x for the sides of a finding; -1 is the patient's right."""
        return {"right": [-1], "left": [1], "bilateral": [-1, 1], "central": [-1, 1]}[state.side]

    def half(self, sign: int) -> Array:
        """Return the mask, 0 or 1, of one side of the midline."""
        return (self.canvas.x * sign > 0).astype(np.float32)

    def _elevation(self, x: Array) -> Array | float:
        """Return the elevation of each half of the diaphragm by volume loss."""
        state = self.study.findings.get("atelectasis")
        if state is None or state.lateral_only:
            return 0.0
        raised = 0.06 + 0.07 * state.severity
        return sum(np.where(x * sign > 0, raised, 0.0) for sign in self.sides(state))

    def _mediastinum(self, y: Array) -> Array:
        """Return the half width of the mediastinum at each height."""
        width = np.full_like(y, self.study.anatomy.mediastinum)
        state = self.study.findings.get("enlarged mediastinum")
        if state is not None:
            u, v, _ = state.position
            hill = bump(np.square((y + 0.40 - 0.14 * u) / (0.52 + 0.16 * v)))
            widened = (0.085 + 0.11 * state.severity) * hill
            self.canvas.claim(state.finding, (widened > 0.03) * ramp(width + widened - self.across, 0.03))
            width = width + widened
        return width

    def _heart(self) -> Array:
        """Return the heart's shadow, 0 to 1."""
        canvas, anatomy = self.canvas, self.study.anatomy
        size = anatomy.heart
        state = self.study.findings.get("cardiomegaly")
        if state is not None:
            size = size * (1.36 + 0.24 * state.severity)
        growth = size - 0.29
        x, y = canvas.x - np.float32(anatomy.heart_place + 0.25 * growth), canvas.y - np.float32(0.36)
        cos, sin = math.cos(anatomy.heart_axis), math.sin(anatomy.heart_axis)
        tilted_x, tilted_y = cos * x + sin * y, cos * y - sin * x
        radius = np.sqrt(np.square(tilted_x / size) + np.square(tilted_y / (anatomy.heart_length + 0.25 * growth)))
        heart = ramp((1.0 - radius) * np.float32(size), 0.035)
        if state is not None:
            canvas.claim(state.finding, heart)
        return heart

    def body(self) -> Array:
        """Draw everything except the air of the lungs; return its brightness [size, size]."""
        canvas, anatomy = self.canvas, self.study.anatomy
        y = canvas.y
        heart = self._heart()
        canvas.fill(0.86 * heart)
        shoulder = 0.90 - 0.75 * np.square(np.clip((-np.float32(anatomy.shoulder) - y) * 2.2, 0.0, 1.0))
        trunk = ramp(shoulder + 0.07 * np.float32(anatomy.fat) - self.across, 0.05)
        density = trunk * np.float32(0.60) + np.float32(0.03)
        density += (0.10 * ramp(self.below, 0.05)) * self.thorax
        density += 0.10 * heart * ramp(-self.below, 0.05)
        density += 0.07 * np.float32(anatomy.bone) * self.ribs
        self._vessels(density)
        self._great_vessels_and_airway(density, trunk)
        self._skeleton(density, trunk)
        self._soft_tissue(density)
        return density + 0.018 * smooth_noise(canvas.size, 5, self.texture, self.window) * trunk

    def _vessels(self, density: Array) -> None:
        """Draw the hila and the texture of vessels in the lungs."""
        canvas, anatomy = self.canvas, self.study.anatomy
        vessels = smooth_noise(canvas.size, 22, self.texture, self.window)
        hilar = bump(np.square(self.across - 0.24) / 0.10 + np.square(canvas.y - 0.06) / 0.22)
        prominence = np.float32(1.0 + 4.0 * anatomy.hilum)
        density += self.lung * canvas.clear * (0.014 + 0.05 * prominence * hilar) * np.clip(vessels, -1.0, 2.0)
        density += (0.07 + 0.35 * anatomy.hilum) * hilar * self.lung

    def _great_vessels_and_airway(self, density: Array, trunk: Array) -> None:
        """Draw aortic knob, descending aorta, and windpipe."""
        canvas, anatomy = self.canvas, self.study.anatomy
        x, y = canvas.x, canvas.y
        place, width = 0.09 + 0.055 * anatomy.knob, 0.010 + 0.008 * anatomy.knob
        knob = bump((np.square(x - np.float32(place)) + np.square(y + 0.30)) / np.float32(width))
        canvas.fill(0.7 * knob)
        stripe = ramp(0.018 - np.abs(x - np.float32(0.10 + 0.05 * anatomy.knob)), 0.04) * ramp(y + 0.25, 0.1)
        density += np.float32(0.05 * anatomy.age) * stripe
        density -= 0.16 * ramp(0.035 - np.abs(x - 0.01), 0.02) * ramp(-0.22 - y, 0.08) * trunk

    def _skeleton(self, density: Array, trunk: Array) -> None:
        """Draw spine, clavicles and shoulder blades."""
        canvas, anatomy = self.canvas, self.study.anatomy
        y, bone = canvas.y, np.float32(anatomy.bone)
        spine = ramp(0.075 - self.across, 0.03)
        density += spine * bone * (0.08 + 0.02 * np.cos(y * np.float32(2 * math.pi / (0.73 * anatomy.rib_spacing))))
        slope = anatomy.clavicle_slope
        clavicles = [
            curve((s * 0.08, -0.60 + h), (s * 0.35, -0.62 + h - 0.5 * slope), (s * 0.85, -0.78 + h - slope), 8)
            for s, h in zip((-1, 1), anatomy.clavicles, strict=True)
        ]
        density += 0.10 * bone * canvas.stroke(clavicles, 0.055)
        edge = self.across - np.float32(0.78 - anatomy.scapula) - 0.10 * (y + 0.35)
        blade = ramp(edge, 0.03) * ramp(0.05 - y, 0.15) * ramp(y + 0.72, 0.1)
        density += 0.055 * bone * blade * trunk

    def _soft_tissue(self, density: Array) -> None:
        """Draw breasts, and gas in stomach and colon."""
        canvas, anatomy = self.canvas, self.study.anatomy
        y = canvas.y
        if anatomy.breast:
            low = np.square((self.across - 0.50) / 0.30) + np.square((y - np.float32(anatomy.breast_height)) / 0.30)
            shade = ramp(1.0 - low, 0.25) * (0.55 + 0.45 * np.clip((y - anatomy.breast_height + 0.3) / 0.5, 0.0, 1.0))
            density += np.float32(anatomy.breast) * shade
        bubble = self.gas(canvas.x - np.float32(anatomy.gas[0]))
        if anatomy.colon:
            x = canvas.x - np.float32(-0.48 if anatomy.colon > 0.6 else 0.62)
            loop = bump(np.square(x) / 0.016 + np.square(y - 0.86) / 0.006)
            bubble = np.maximum(bubble, np.float32(anatomy.colon) * loop)
        density -= 0.22 * bubble * ramp(self.below, 0.05)
