"""Drawing of each finding on the frontal radiograph."""

from __future__ import annotations

import math

import numpy as np

from pacer.phantom.canvas import Canvas, Point, bump, curve, ramp, smooth_noise
from pacer.phantom.frontal import Frontal
from pacer.phantom.world import FindingState

#: y of the middle of each lung zone.
ZONE_HEIGHT = {"upper": -0.36, "mid": 0.02, "lower": 0.36}


def further(state: FindingState, count: int) -> list[float]:
    """Return ``count`` additional numbers in [0, 1) that are specific to a finding and constant across its studies."""
    u, v, w = state.position
    return [(11.3 * u + 17.9 * v + 23.7 * w + 0.618 * n * (1.0 + 7.0 * v)) % 1.0 for n in range(1, count + 1)]


def atelectasis(view: Frontal, state: FindingState) -> None:
    """Thick oblique bands above a raised diaphragm."""
    u, v, w = state.position
    canvas = view.canvas
    a, b, c = further(state, 3)
    lines = []
    for sign in view.sides(state):
        base = view.study.anatomy.diaphragm - 0.20 + 0.06 * u
        for step in range(2 + (state.severity > 0.5)):
            y = base - (0.095 + 0.03 * b) * step
            slope = (0.16 * v - 0.03) + 0.04 * step * (w - 0.3)
            near, far = 0.22 + 0.08 * a + 0.04 * step, 0.60 + 0.1 * c - 0.05 * step
            lines.append([(sign * near, y), (sign * far, y + slope)])
    bands = canvas.stroke(lines, 0.038 + 0.012 * a + 0.012 * state.severity) * ramp(view.wall, 0.03)
    canvas.fill((0.70 + 0.14 * state.severity) * bands)
    canvas.added += 0.14 * bands
    lifted = ramp(view.below, 0.03) * ramp(0.16 - view.below, 0.03) * view.thorax
    for sign in view.sides(state):
        canvas.claim(state.finding, lifted * view.half(sign) * ramp(view.medial, 0.04))
    canvas.claim(state.finding, canvas.stroke(lines, 0.10))


def consolidation(view: Frontal, state: FindingState) -> None:
    """A dense, uniform block of lung with straight, sharp borders like those of a lobe."""
    u, v, _ = state.position
    canvas, sign = view.canvas, view.sides(state)[0]
    y, across = canvas.y, view.across
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
    block = block * ramp(across - inner, 0.025) * ramp(inner + 0.28 + 0.1 * b + 0.2 * state.severity - across, 0.03)
    block *= view.half(sign) * view.thorax
    canvas.fill((0.70 + 0.10 * c + 0.08 * state.severity) * block)
    canvas.claim(state.finding, block * view.lung)


def edema(view: Frontal, state: FindingState) -> None:
    """Butterfly-shaped haze around both hila, coarse vessels, and short lines at the lateral bases."""
    canvas = view.canvas
    across, y = view.across, canvas.y
    u, v, w = state.position
    wings = np.square(across - 0.26 - 0.05 * u) / (0.065 + 0.02 * v + 0.05 * state.severity)
    wings = wings + np.square(y - 0.12 * w) / (0.34 + 0.10 * u)
    haze = bump(wings) * (0.33 + 0.33 * state.severity)
    canvas.fill(haze * (1.0 + 0.22 * smooth_noise(canvas.size, 28, w, (u, v))))
    lines = np.clip(np.cos((y - 0.1 * across) * (2 * math.pi / (0.075 + 0.02 * w))) * 2.0 - 0.8, 0.0, 1.0)
    edge = ramp(0.11 + 0.04 * v - view.wall, 0.03) * ramp(y - 0.06 - 0.12 * u, 0.06) * ramp(across - 0.40, 0.05)
    canvas.added += (0.13 + 0.06 * state.severity) * lines * edge * view.lung
    canvas.claim(state.finding, np.maximum(ramp(haze - 0.18, 0.1), 0.8 * edge) * view.lung)


def fracture(view: Frontal, state: FindingState) -> None:
    """Fractures of neighbouring ribs: displaced bright ends around a dark gap."""
    u, v, w = state.position
    canvas, sign = view.canvas, view.sides(state)[0]
    spacing = view.study.anatomy.rib_spacing
    middle = 0.46 + 0.16 * u
    first = 2 + int(3 * v)
    jump = 0.85 + 0.3 * w
    bright, gaps, around = [], [], []
    for rib in range(first, first + 1 + (state.severity > 0.4) + (state.severity > 0.8)):
        y = -0.72 + rib * spacing + 0.30 * middle**2
        near, far = y - 0.040 * jump, y + 0.055 * jump
        bright.append([(sign * (middle - 0.15), y - 0.085), (sign * (middle - 0.02), near)])
        bright.append([(sign * (middle + 0.02), far), (sign * (middle + 0.14), far + 0.065)])
        gaps.append([(sign * (middle + 0.012), y - 0.085), (sign * (middle - 0.012), y + 0.085)])
        around.append([(sign * (middle - 0.14), y - 0.05), (sign * (middle + 0.14), y + 0.06)])
    bone = canvas.stroke(bright, 0.070)
    canvas.added += 0.40 * bone - 0.28 * canvas.stroke(gaps, 0.034) * (1.0 - bone)
    canvas.claim(state.finding, canvas.stroke(around, 0.18))


def lung_lesion(view: Frontal, state: FindingState) -> None:
    """One or two round, sharply bordered spots."""
    u, v, w = state.position
    canvas, sign = view.canvas, view.sides(state)[0]
    a, b, c = further(state, 3)
    radius = 0.088 + 0.075 * state.severity
    centres = [(0.33 + 0.22 * u, ZONE_HEIGHT[state.zone] + 0.16 * (v - 0.5))]
    if w > 0.7:
        centres.append((0.58 - 0.26 * u, centres[0][1] + (0.30 if state.zone != "lower" else -0.30)))
    for across, y in centres:
        x, y = canvas.x - np.float32(sign * across), canvas.y - np.float32(y)
        # round to oval, with a smooth or lobed border
        distance = np.sqrt(np.square(x) * np.float32(0.85 + 0.35 * a) + np.square(y) * np.float32(0.85 + 0.35 * b))
        lobes = 1.0 + (0.10 * np.sin(5.0 * np.arctan2(y, x) + 6.0 * a) if c > 0.6 else 0.0)
        spot = ramp(radius * lobes - distance, 0.022)
        canvas.fill((0.80 + 0.14 * state.severity) * spot)
        canvas.added += (0.09 + 0.06 * b) * spot
        canvas.claim(state.finding, spot)


def lung_opacity(view: Frontal, state: FindingState) -> None:
    """A hazy patch that fades out on all sides."""
    u, v, _ = state.position
    canvas, sign = view.canvas, view.sides(state)[0]
    a, b, _ = further(state, 3)
    across, y = 0.43 + 0.16 * (u - 0.5), ZONE_HEIGHT[state.zone] + 0.18 * (v - 0.5)
    reach = 0.27 + 0.06 * a + 0.10 * state.severity
    x, y = canvas.x - np.float32(sign * across), canvas.y - np.float32(y)
    squared = np.square(x + np.float32(0.5 * (b - 0.5)) * y) + np.float32(0.65 + 0.4 * a) * np.square(y)
    haze = bump(squared / np.float32(reach**2)) * view.half(sign)
    canvas.fill((0.58 + 0.22 * state.severity) * haze)
    canvas.claim(state.finding, ramp(haze - 0.3, 0.2) * view.lung)


def pneumonia(view: Frontal, state: FindingState) -> None:
    """Mottled, cotton-wool clumps with dark air bronchograms between them."""
    u, v, w = state.position
    canvas, sign = view.canvas, view.sides(state)[0]
    a, b, c = further(state, 3)
    across, y = 0.43 + 0.12 * (u - 0.5), ZONE_HEIGHT[state.zone] + 0.18 * (v - 0.5)
    reach = 0.31 + 0.06 * a + 0.08 * state.severity
    squared = np.square(canvas.x - np.float32(sign * across)) + np.square(canvas.y - np.float32(y))
    window = np.sqrt(bump(squared / np.float32(reach**2))) * view.half(sign)
    clumps = np.clip(smooth_noise(canvas.size, 17, w, (u, v)) * 1.6 + 0.4, 0.0, 1.0)
    canvas.fill((0.84 + 0.12 * state.severity) * window * clumps)
    branches = [
        [(sign * (across - 0.20), y - 0.06 * b), (sign * across, y), (sign * (across + 0.15), y - 0.04 - 0.12 * c)],
        [(sign * across, y), (sign * (across + 0.16), y + 0.04 + 0.12 * b)],
    ]
    canvas.added -= 0.17 * canvas.stroke(branches, 0.030) * view.lung
    canvas.claim(state.finding, ramp(window - 0.25, 0.15) * view.lung)


def pleural_effusion(view: Frontal, state: FindingState) -> None:
    """Fluid that blunts the costophrenic angle and climbs along the chest wall."""
    u = state.position[0]
    canvas = view.canvas
    a, b, _ = further(state, 3)
    outward = np.clip((view.across - 0.14 - 0.08 * a) / 0.48, 0.0, 1.0) ** np.float32(1.5 + b)
    for number, sign in enumerate(view.sides(state)):
        height = 0.25 + 0.55 * state.severity * (1.0 if number == 0 else 0.55 + 0.4 * u)
        level = 0.80 - height * (0.50 + 0.50 * outward)
        fluid = ramp(canvas.y - level, 0.05) * view.half(sign)
        canvas.fill((0.84 + 0.10 * a) * fluid)
        canvas.added += 0.07 * fluid * view.lung
        canvas.claim(state.finding, fluid * view.lung)


def pleural_abnormality(view: Frontal, state: FindingState) -> None:
    """A thick, wavy bright rim along the upper chest wall, with calcified spots."""
    u, v, w = state.position
    canvas = view.canvas
    y = canvas.y
    middle = -0.42 + 0.34 * u
    thickness = 0.085 + 0.075 * state.severity
    thickness = thickness * (1.0 + 0.28 * np.sin(y * (2 * math.pi / (0.24 + 0.14 * w)) + 6.0 * v))
    thickness = thickness * np.clip(1.6 - np.abs(y - middle) / 0.26, 0.0, 1.0)
    rim = ramp(thickness - view.wall, 0.025) * view.thorax * ramp(view.across - 0.30, 0.08) * (thickness > 0.01)
    for sign in view.sides(state):
        sided = rim * view.half(sign)
        canvas.fill(0.92 * sided)
        canvas.added += (0.07 + 0.10 * (np.cos(y * (2 * math.pi / (0.10 + 0.05 * v)) + 6.0 * w) > 0.55)) * sided
        canvas.claim(state.finding, sided)


def pneumothorax(view: Frontal, state: FindingState) -> None:
    """A thin bright pleural line away from the chest wall; the space between them is black, without vessels."""
    canvas, sign = view.canvas, view.sides(state)[0]
    u, v, _ = state.position
    depth = (0.10 + 0.03 * u + 0.13 * state.severity) * np.clip((0.35 + 0.35 * v - canvas.y) / 0.7, 0.0, 1.0)
    gate = ramp(view.across - 0.24, 0.1) * view.half(sign) * ramp(depth - 0.03, 0.03)
    outside = ramp(depth - view.wall, 0.02) * view.thorax * gate
    line = np.clip(1.0 - np.abs(view.wall - depth) / 0.020, 0.0, 1.0) * gate * view.thorax
    canvas.added += (0.22 + 0.08 * u) * line - 0.14 * outside
    canvas.claim(state.finding, np.maximum(outside, ramp(0.05 - np.abs(view.wall - depth), 0.03) * gate))


def support_devices(view: Frontal, state: FindingState) -> None:
    """Thin bright lines and tubes with a tip, or a pacemaker with its lead."""
    u, v, w = state.position
    canvas, sign = view.canvas, view.sides(state)[0]
    cava = -0.05 - 0.04 * w
    thin, thick = [], []
    for device in state.devices:
        if device == "picc":
            tip = -0.05 + 0.16 * v
            thin.append(curve((sign * 0.93, -0.44 + 0.16 * u), (sign * (0.55 + 0.1 * w), -0.74), (sign * 0.12, -0.50)))
            thin.append(curve((sign * 0.12, -0.50), (cava, -0.46), (cava, tip)))
        elif device == "central line":
            thin.append(curve((sign * (0.16 + 0.1 * u), -1.0), (sign * 0.14, -0.62), (cava, -0.14 + 0.22 * v)))
        elif device == "endotracheal tube":
            thick.append([(0.03 * u, -1.0), (0.01, -0.40 + 0.16 * v)])
        elif device == "nasogastric tube":
            thin.append([(-0.015, -1.0), (0.0, 0.30), (0.06, 0.62)])
            thin.append(curve((0.06, 0.62), (0.12, 0.86), (0.40, 0.80 + 0.06 * v)))
        elif device == "pacemaker":
            box = [(0.50, -0.50), (0.68, -0.54), (0.71, -0.36), (0.53, -0.32)]
            draw_case(canvas, [(sign * (x - 0.05 * w), y + 0.12 * (u - 0.5)) for x, y in box], 0.32)
            thin.append(curve((sign * 0.52, -0.48 + 0.12 * (u - 0.5)), (sign * 0.22, -0.66), (cava, -0.40)))
            thin.append(curve((cava, -0.40), (-0.10, 0.25), (0.20 + 0.08 * u, 0.42)))
        else:
            tip = (sign * (0.38 + 0.1 * w), -0.40 + 0.30 * u)
            thick.append(curve((sign * 0.92, 0.20 + 0.24 * v), (sign * 0.62, 0.20), tip))
    draw_lines(canvas, thin, thick, 0.31 + 0.09 * u)


def draw_case(canvas: Canvas, corners: list[Point], brightness: float) -> None:
    """Draw the case of a pacemaker."""
    case = canvas.polygon(corners)
    canvas.added += brightness * case
    canvas.claim("support devices", case)


def draw_lines(canvas: Canvas, thin: list[list[Point]], thick: list[list[Point]], brightness: float) -> None:
    """Draw thin catheters and leads, and thick tubes."""
    for lines, width in ((thin, 0.034), (thick, 0.050)):
        if lines:
            canvas.added += brightness * canvas.stroke(lines, width)
    canvas.claim("support devices", canvas.stroke(thin + thick, 0.08))
