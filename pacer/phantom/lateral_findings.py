"""Drawing of each finding on the lateral radiograph."""

from __future__ import annotations

import math

import numpy as np

from pacer.phantom.canvas import bump, curve, ramp, smooth_noise
from pacer.phantom.frontal_findings import draw_case, draw_lines, further
from pacer.phantom.lateral import VERTEBRA, Lateral
from pacer.phantom.world import FindingState


def atelectasis(view: Lateral, state: FindingState) -> None:
    u, v, _ = state.position
    a, b, c = further(state, 3)
    base, step = view.study.anatomy.diaphragm - 0.26 + 0.05 * u, 0.095 + 0.03 * b
    start, end = -0.06 + 0.10 * a, 0.40 + 0.10 * c
    lines = [
        [(start + 0.04 * n, base - step * n), (end, base - step * n + (0.16 if n % 2 == 0 else 0.02) * (0.3 + v))]
        for n in range(2 + (state.severity > 0.5))
    ]
    bands = view.canvas.stroke(lines, 0.040 + 0.010 * a + 0.012 * state.severity)
    view.canvas.fill((0.70 + 0.14 * state.severity) * bands)
    view.canvas.added += 0.12 * bands
    lifted = ramp(view.below, 0.03) * ramp(0.13 - view.below, 0.03) * view.thorax
    view.canvas.claim(state.finding, np.maximum(view.canvas.stroke(lines, 0.10), lifted))


def consolidation(view: Lateral, state: FindingState) -> None:
    """A dense block with straight borders; behind the heart it lies over the lower spine."""
    x, y = view.canvas.x, view.canvas.y
    centre_x, centre_y = view.place(state)
    half = 0.17 + 0.09 * state.severity
    a, b, c = further(state, 3)
    slanted = y - centre_y - (0.35 + 0.4 * a) * (x - centre_x)
    block = ramp(half - np.abs(slanted), 0.025) * ramp(half + 0.10 * b - np.abs(x - centre_x), 0.025)
    view.canvas.fill((0.74 + 0.12 * c) * block)
    view.canvas.added += 0.05 * block * view.lung
    view.canvas.claim(state.finding, block * view.lung)


def edema(view: Lateral, state: FindingState) -> None:
    """Haze around the hilum and thick fissures."""
    x, y = view.canvas.x, view.canvas.y
    u, v, w = state.position
    spread = np.square(x - 0.10 * u) + np.float32(0.55 + 0.3 * v) * np.square(y - 0.08 * w)
    haze = bump(spread / (0.15 + 0.10 * state.severity)) * (0.46 + 0.30 * state.severity)
    view.canvas.fill(haze * (1.0 + 0.22 * smooth_noise(view.canvas.size, 28, w, (u, v))))
    fissures = [[(0.32 + 0.08 * u, -0.50), (-0.24 + 0.08 * v, 0.46)], [(0.08, -0.02), (-0.46, 0.02 + 0.08 * w)]]
    view.canvas.added += 0.15 * view.canvas.stroke(fissures, 0.035) * view.lung
    region = np.maximum(ramp(haze - 0.2, 0.1), view.canvas.stroke(fissures, 0.06))
    view.canvas.claim(state.finding, region * view.lung)


def fracture(view: Lateral, state: FindingState) -> None:
    """A vertebral body compressed to a dense wedge between widened dark gaps."""
    canvas = view.canvas
    y = 0.04 + VERTEBRA * (int(4 * state.position[0]) - 2)
    x = 0.50 + 0.10 * y * y
    left, right = x - 0.16 - 0.02 * state.position[1], x + 0.13
    around = canvas.polygon([(left, y - 0.10), (right, y - 0.10), (right, y + 0.10), (left, y + 0.10)])
    wedge = canvas.polygon([(left, y - 0.012), (right, y - 0.075), (right, y + 0.075), (left, y + 0.03)])
    canvas.added += (0.42 + 0.12 * state.severity) * wedge - 0.26 * around
    canvas.claim(state.finding, around)


def lung_lesion(view: Lateral, state: FindingState) -> None:
    x, y = view.place(state)
    a, b, _ = further(state, 3)
    radius = 0.092 + 0.08 * state.severity
    x, y = view.canvas.x - np.float32(x), view.canvas.y - np.float32(y)
    distance = np.sqrt(np.square(x) * np.float32(0.85 + 0.35 * a) + np.square(y) * np.float32(0.85 + 0.35 * b))
    spot = ramp(radius - distance, 0.022)
    view.canvas.fill((0.82 + 0.12 * state.severity) * spot)
    view.canvas.added += (0.10 + 0.06 * b) * spot
    view.canvas.claim(state.finding, spot)


def lung_opacity(view: Lateral, state: FindingState) -> None:
    x, y = view.place(state)
    a, _, _ = further(state, 3)
    reach = 0.28 + 0.04 * a + 0.10 * state.severity
    squared = np.square(view.canvas.x - np.float32(x))
    squared = squared + np.float32(0.75 + 0.4 * a) * np.square(view.canvas.y - np.float32(y))
    haze = bump(squared / np.float32(reach**2))
    view.canvas.fill((0.60 + 0.22 * state.severity) * haze)
    view.canvas.claim(state.finding, ramp(haze - 0.3, 0.2) * view.lung)


def pneumonia(view: Lateral, state: FindingState) -> None:
    canvas = view.canvas
    x, y = view.place(state)
    u, v, w = state.position
    reach = 0.31 + 0.05 * w + 0.08 * state.severity
    window = np.sqrt(bump((np.square(canvas.x - np.float32(x)) + np.square(canvas.y - np.float32(y))) / reach**2))
    clumps = np.clip(smooth_noise(canvas.size, 17, w, (v, u)) * 1.6 + 0.4, 0.0, 1.0)
    canvas.fill((0.80 + 0.12 * state.severity) * window * clumps)
    branches = [[(x - 0.20, y - 0.02), (x, y), (x + 0.15, y - 0.11)], [(x, y), (x + 0.16, y + 0.10)]]
    canvas.added -= 0.15 * canvas.stroke(branches, 0.028) * view.lung
    canvas.claim(state.finding, ramp(window - 0.25, 0.15) * view.lung)


def pleural_effusion(view: Lateral, state: FindingState) -> None:
    """Fluid in the deep posterior angle, with a curved upper border."""
    x, y = view.canvas.x, view.canvas.y
    height = 0.30 + 0.45 * state.severity
    a, b, _ = further(state, 3)
    level = 0.78 - height * (0.45 + 0.55 * np.clip((x + 0.10) / 0.62, 0.0, 1.0) ** np.float32(1.5 + b))
    fluid = ramp(y - level, 0.05) * ramp(x + 0.08, 0.1)
    view.canvas.fill((0.85 + 0.10 * a) * fluid)
    view.canvas.added += 0.09 * fluid * view.lung
    view.canvas.claim(state.finding, fluid * view.lung)


def pleural_abnormality(view: Lateral, state: FindingState) -> None:
    """A wavy rim along the posterior chest wall."""
    canvas = view.canvas
    u, v, w = state.position
    y = canvas.y
    thickness = (0.10 + 0.07 * state.severity) * (1.0 + 0.28 * np.sin(y * (2 * math.pi / (0.24 + 0.14 * w)) + 6.0 * v))
    thickness = thickness * np.clip(1.6 - np.abs(y + 0.35 - 0.3 * np.float32(u)) / 0.26, 0.0, 1.0)
    rim = ramp(thickness - view.wall, 0.025) * view.thorax * ramp(canvas.x - 0.1, 0.1) * (thickness > 0.01)
    canvas.fill(0.92 * rim)
    canvas.added += (0.07 + 0.10 * (np.cos(y * (2 * math.pi / (0.10 + 0.05 * v)) + 6.0 * w) > 0.55)) * rim
    canvas.claim(state.finding, rim)


def support_devices(view: Lateral, state: FindingState) -> None:
    canvas = view.canvas
    u, v, w = state.position
    thin, thick = [], []
    for device in state.devices:
        if device == "picc":
            thin.append(curve((0.04 + 0.12 * w, -0.95), (-0.02, -0.60), (-0.03, -0.08 + 0.20 * v)))
        elif device == "central line":
            thin.append(curve((-0.16 + 0.08 * w, -1.0), (-0.10, -0.60), (-0.02, -0.12 + 0.20 * v)))
        elif device == "endotracheal tube":
            thick.append([(0.04, -1.0), (0.11, -0.40 + 0.12 * v)])
        elif device == "nasogastric tube":
            thin.append(curve((0.14, -1.0), (0.26, -0.20), (0.22, 0.55)))
            thin.append(curve((0.22, 0.55), (0.16, 0.72), (-0.10, 0.74)))
        elif device == "pacemaker":
            draw_case(canvas, [(-0.74, -0.58), (-0.64, -0.60), (-0.62, -0.40), (-0.72, -0.38)], 0.34)
            thin.append(curve((-0.64, -0.56), (-0.20, -0.80), (-0.05, -0.30)))
            thin.append(curve((-0.05, -0.30), (-0.02, 0.20), (-0.36, 0.40)))
        else:
            thick.append(curve((0.10, 0.42), (0.22, 0.05), (0.16, -0.42 + 0.2 * u)))
    draw_lines(canvas, thin, thick, 0.31 + 0.09 * u)
