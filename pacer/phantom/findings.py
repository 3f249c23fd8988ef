"""The findings on both views: each function is named after the finding that it draws.

Cardiomegaly and an enlarged mediastinum change the anatomy itself, which the views draw.
"""

import numpy as np

from pacer.phantom.canvas import (
    Canvas,
    Point,
    bump,
    constants,
    curve,
    ramp,
    smooth_noise,
    stripes,
    wave,
)
from pacer.phantom.lateral import VERTEBRA
from pacer.phantom.world import FindingState


def atelectasis(view: Canvas, state: FindingState) -> None:
    """Thick oblique bands above a raised diaphragm."""
    u, v, w = state.position
    a, b, c = constants(state).random(3).tolist()
    lines = []
    for sign in view.sides(state):
        for step in range(3 if state.severity > 0.5 else 2):
            y = view.anatomy.diaphragm - 0.22 + 0.06 * u - (0.095 + 0.03 * b) * step
            near = view.column[0] - 0.20 + 0.08 * a + 0.04 * step
            far = view.column[0] + 0.18 + 0.10 * c
            slope = 0.16 * v - 0.03 + 0.04 * step * (w - 0.3)
            lines.append([(sign * near, y), (sign * far, y + slope)])
        lifted = ramp(0.07 - np.abs(view.below - 0.07), 0.03) * view.thorax
        view.claim(state.finding, lifted * view.on_side(sign))
    bands = view.stroke(lines, 0.044 + 0.012 * state.severity) * ramp(view.wall, 0.03)
    view.fill((0.70 + 0.14 * state.severity) * bands)
    view.added += 0.13 * bands
    view.claim(state.finding, view.stroke(lines, 0.10))


def consolidation(view: Canvas, state: FindingState) -> None:
    """A dense, uniform block of lung with straight, sharp borders like those of a lobe."""
    a, b, c = constants(state).random(3).tolist()
    x, y = view.around(state)
    half = 0.14 + 0.11 * state.severity
    slanted = np.abs(y - view.sides(state)[0] * (0.6 * a - 0.3) * x)
    block = ramp(half - slanted, 0.025) * ramp(half + 0.08 * b - np.abs(x), 0.025)
    view.fill((0.70 + 0.10 * c + 0.08 * state.severity) * block)
    view.claim(state.finding, block * view.lung)


def edema(view: Canvas, state: FindingState) -> None:
    """Haze around the hila, and short lines at the bases next to the chest wall."""
    u, v, w = state.position
    wings = np.square(np.abs(view.x) - view.root - 0.05 * u)
    wings = wings / (0.055 + 0.02 * v + 0.08 * state.severity)
    haze = bump(wings + np.square(view.y - 0.12 * w) / (0.34 + 0.10 * u))
    haze *= 0.32 + 0.54 * state.severity
    view.fill(haze * (1.0 + 0.22 * smooth_noise(constants(state), view.size, 28)))
    lines = stripes(view.y - 0.1 * np.abs(view.x), 0.075 + 0.02 * w, -0.4)
    edge = ramp(0.11 + 0.04 * v - view.wall, 0.03) * ramp(view.y - 0.06 - 0.12 * u, 0.06)
    edge *= ramp(np.abs(view.x) - 0.40, 0.05)
    view.added += (0.08 + 0.14 * state.severity) * lines * edge * view.lung
    view.claim(state.finding, np.maximum(ramp(haze - 0.18, 0.1), 0.8 * edge) * view.lung)


def fracture(view: Canvas, state: FindingState) -> None:
    """Displaced bright ends of neighbouring ribs around a dark gap, or a vertebra that is
    compressed to a dense wedge between widened dark gaps."""
    u, v, _ = state.position
    if state.kind == "vertebra":
        y = view.y - 0.04 - VERTEBRA * (int(4 * u) - 2)
        x = view.x - 0.48 - 0.10 * np.square(view.y)
        around = ramp(0.15 - np.abs(x), 0.01) * ramp(0.10 - np.abs(y), 0.01)
        wedge = ramp(0.05 + 0.2 * x - np.abs(y), 0.01) * around
        view.added += (0.42 + 0.12 * state.severity) * wedge - 0.26 * around
        view.claim(state.finding, around)
        return
    sign = view.sides(state)[0]
    x = 0.46 + 0.16 * u
    ends = []
    gaps = []
    for rib in range(1 + (state.severity > 0.4) + (state.severity > 0.8)):
        y = -0.72 + (2 + int(3 * v) + rib) * view.anatomy.rib_spacing + 0.30 * x * x
        ends.append([(sign * (x - 0.15), y - 0.085), (sign * (x - 0.02), y - 0.04)])
        ends.append([(sign * (x + 0.02), y + 0.055), (sign * (x + 0.14), y + 0.12)])
        gaps.append([(sign * (x + 0.012), y - 0.085), (sign * (x - 0.012), y + 0.085)])
    bone = view.stroke(ends, 0.070)
    view.added += 0.40 * bone - 0.28 * view.stroke(gaps, 0.034) * (1.0 - bone)
    view.claim(state.finding, view.stroke(ends + gaps, 0.14))


def lung_lesion(view: Canvas, state: FindingState) -> None:
    """One or two round to oval spots with sharp borders."""
    a, b = constants(state).random(2).tolist()
    x, y = view.centre(state)
    centres = [(x, y)]
    if state.position[2] > 0.7 and not state.lateral_only:  # reports tell of several
        middle = view.sides(state)[0] * view.column[0]
        centres.append((2 * middle - x, y + (-0.30 if state.zone == "lower" else 0.30)))
    for x, y in centres:
        squared = (0.85 + 0.35 * a) * np.square(view.x - x)
        squared += (0.85 + 0.35 * b) * np.square(view.y - y)
        spot = ramp(0.088 + 0.075 * state.severity - np.sqrt(squared), 0.022)
        view.fill((0.80 + 0.14 * state.severity) * spot)
        view.added += 0.12 * spot
        view.claim(state.finding, spot)


def lung_opacity(view: Canvas, state: FindingState) -> None:
    """A hazy patch that fades out on all sides."""
    a, b = constants(state).random(2).tolist()
    x, y = view.around(state)
    squared = np.square(x + 0.5 * (b - 0.5) * y) + (0.65 + 0.4 * a) * np.square(y)
    haze = bump(squared / (0.27 + 0.06 * a + 0.10 * state.severity) ** 2)
    view.fill((0.58 + 0.22 * state.severity) * haze)
    view.claim(state.finding, ramp(haze - 0.3, 0.2) * view.lung)


def pneumonia(view: Canvas, state: FindingState) -> None:
    """Mottled, cotton-wool clumps with dark air bronchograms between them."""
    rng = constants(state)
    a, b = rng.random(2).tolist()
    x, y = view.around(state)
    reach = 0.34 + 0.08 * state.severity
    window = np.sqrt(bump((np.square(x) + np.square(y)) / reach**2))
    clumps = np.clip(smooth_noise(rng, view.size, 17) * 1.6 + 0.4, 0.0, 1.0)
    view.fill((0.84 + 0.12 * state.severity) * window * clumps)
    across, height = view.centre(state)
    branches = [
        [(across - 0.20, height - 0.06 * a), (across, height), (across + 0.15, height - 0.10)],
        [(across, height), (across + 0.16, height + 0.04 + 0.12 * b)],
    ]
    view.added -= 0.17 * view.stroke(branches, 0.030) * view.lung
    view.claim(state.finding, ramp(window - 0.25, 0.15) * view.lung)


def pleural_effusion(view: Canvas, state: FindingState) -> None:
    """Fluid that blunts the costophrenic angle and climbs along the chest wall."""
    a, b = constants(state).random(2).tolist()
    height = 0.25 + 0.55 * state.severity
    for sign in view.sides(state):
        outward = np.clip((sign * view.x - 0.14 - 0.08 * a) / 0.48, 0.0, 1.0)
        level = 0.80 - height * (0.5 + 0.5 * outward * np.sqrt(outward))
        fluid = ramp(view.y - level, 0.05) * ramp(sign * view.x, 0.1)
        view.fill((0.84 + 0.10 * a) * fluid)
        view.added += 0.08 * fluid * view.lung
        view.claim(state.finding, fluid * view.lung)
        height *= 0.55 + 0.4 * b  # the second side has less


def pleural_abnormality(view: Canvas, state: FindingState) -> None:
    """A thick, wavy bright rim along the upper chest wall, with calcified spots."""
    u, v, w = state.position
    y = view.y
    extent = np.clip(1.6 - np.abs(y + 0.40 - 0.32 * u) / 0.26, 0.0, 1.0)
    waves = 1.0 + 0.28 * wave(y - v, 0.24 + 0.14 * w)
    thickness = (0.09 + 0.075 * state.severity) * waves * extent
    rim = ramp(thickness - view.wall, 0.025) * view.thorax * (extent > 0.0)
    spots = stripes(y, 0.10 + 0.05 * v, -0.4)
    for sign in view.sides(state):
        sided = rim * ramp(sign * view.x - 0.28, 0.08)
        view.fill(0.92 * sided)
        view.added += (0.07 + 0.10 * spots) * sided
        view.claim(state.finding, sided)


def pneumothorax(view: Canvas, state: FindingState) -> None:
    """A thin bright pleural line away from the chest wall; the space between them is black."""
    u, v, _ = state.position
    depth = 0.06 + 0.02 * u + 0.36 * state.severity
    depth = depth * np.clip((0.45 + 0.25 * v - view.y) / 0.7, 0.0, 1.0)
    gate = ramp(view.sides(state)[0] * view.x - 0.24, 0.1) * ramp(depth - 0.03, 0.03)
    outside = ramp(depth - view.wall, 0.02) * view.thorax * gate
    distance = np.abs(view.wall - depth)
    line = np.clip(1.0 - distance / 0.020, 0.0, 1.0) * gate * view.thorax
    view.added += (0.22 + 0.08 * u) * line - 0.17 * outside
    view.claim(state.finding, np.maximum(outside, ramp(0.05 - distance, 0.03) * gate))


def support_devices(view: Canvas, state: FindingState) -> None:
    """Thin bright lines, thick tubes, or a pacemaker with its lead.

    A device is a curve in space, whose points run to the patient's left, to the back, and
    downwards.
    """
    u, v, w = state.position
    s = view.sides(state)[0]
    cava = (-0.05 - 0.04 * w, -0.03)
    box = -0.50 + 0.12 * u
    controls: dict[str, list[Point]] = {
        "picc": [
            (0.93 * s, 0.12, -0.44 + 0.16 * u),
            (0.35 * s, 0.06, -0.98),
            (*cava, -0.60),
            (*cava, -0.05 + 0.16 * v),
        ],
        "central line": [
            ((0.16 + 0.1 * u) * s, -0.14, -1.0),
            (0.14 * s, -0.10, -0.62),
            (*cava, -0.14 + 0.22 * v),
        ],
        "endotracheal tube": [(0.03 * u, 0.04, -1.0), (0.01, 0.11, -0.40 + 0.16 * v)],
        "nasogastric tube": [
            (-0.01, 0.14, -1.0),
            (0.02, 0.28, 0.1),
            (0.0, 0.24, 1.15),
            (0.40, -0.10, 0.78 + 0.06 * v),
        ],
        "pacemaker": [
            (0.60 * s, -0.66, box),
            (0.10 * s, -0.10, box - 0.45),
            (-0.25, 0.10, -0.30),
            (-0.15, 0.10, 0.50),
            (0.20 + 0.08 * u, -0.36, 0.42),
        ],
        "chest tube": [
            (0.92 * s, 0.10, 0.20 + 0.24 * v),
            (0.62 * s, 0.22, 0.20),
            ((0.38 + 0.1 * w) * s, 0.16, -0.40 + 0.30 * u),
        ],
    }
    lines = {name: curve(*controls[name])[:, view.plane] for name in state.devices}
    for name, line in lines.items():
        width = 0.050 if name in ("endotracheal tube", "chest tube") else 0.034
        view.added += (0.31 + 0.09 * u) * view.stroke([line], width)
    view.claim(state.finding, view.stroke(list(lines.values()), 0.08))
    if "pacemaker" in state.devices:
        ends = np.array([(0.53 * s, -0.72, box), (0.70 * s, -0.62, box)])
        case = view.stroke([ends[:, view.plane]], 0.17)
        view.added += 0.32 * case
        view.claim(state.finding, case)
