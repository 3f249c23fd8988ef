"""Body and exposure of an examination: the variation between radiographs with the same findings.

None of it depends on the findings, so only the drawn findings reveal them. (The exception is
whether an examination is portable, because intubated patients are examined in bed.)
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from pacer.core.io import yaml_beside

#: Body traits; :func:`draw_body` draws one number for each. See the comments of the file.
_TRAITS: dict[str, list[float] | None] = yaml_beside(__file__, "anatomy.yaml")

Distractor = Literal["skin fold", "buttons", "underwire", "folded sleeve"]


@dataclass(frozen=True, slots=True)
class Anatomy:
    """Body and position of one examination; lengths are in half image widths, angles in radians."""

    # of the patient
    lung_width: float
    lung_height: float
    heart: float
    heart_length: float
    mediastinum: float
    rib_spacing: float
    fat: float  # soft tissue around the trunk, 0 to 1
    age: float
    bone: float  # brightness of ribs, spine and clavicles, relative; it falls with age
    heart_axis: float  # tilt of the heart's axis
    heart_place: float  # offset of the heart's centre to the left
    scoliosis: float  # sideways swing of the spine and the whole chest
    bend_phase: float
    kyphosis: float  # the same swing on the lateral view
    knob: float  # size of the aortic knob, which grows with age
    shoulder: float
    apex: float
    breast: float  # brightness of breast shadows, 0 for none
    breast_height: float
    hilum: float
    dome: float
    clavicle_slope: float
    aspect: float
    # of the examination
    shift: tuple[float, float]
    tilt: float
    scale: float
    # how much wider one half of the chest looks than the other, as in a rotated patient
    turned: float
    diaphragm: float
    clavicles: tuple[float, float]  # heights of the two clavicles, at negative and at positive x
    scapula: float  # overlap of the shoulder blades with the lungs
    gas: tuple[float, float, float]  # place and size of the stomach's gas bubble
    colon: float  # gas under the diaphragm, 0 for none


@dataclass(frozen=True, slots=True)
class Exposure:
    """Acquisition and printing parameters of one radiograph."""

    gain: float  # contrast
    brightness: float  # offset
    gamma: float
    # scale of the quantum noise's standard deviation, relative to the full range of brightness
    noise: float
    blur: float  # share of each pixel that spreads to its neighbours
    vignette: float  # darkening of the corners
    centre: tuple[float, float]  # brightest point
    # width of the black border: left, top, right, bottom
    collimation: tuple[float, float, float, float]
    grid: float  # amplitude of the lines of a misplaced grid, 0 for none
    grid_period: float  # pixels from line to line
    marker: str  # the side marker's letter, '' for none
    marker_place: tuple[float, float]
    label: int  # kind of a burnt-in box in a corner, 0 for none
    label_corner: int
    distractor: Distractor | None  # object on or around the body that is not a finding
    distractor_place: tuple[float, float, float]


def draw_body(rng: np.random.Generator) -> dict[str, float]:
    """Draw a patient's traits, each in [-1, 1]."""
    return dict(zip(_TRAITS, rng.uniform(-1.0, 1.0, size=len(_TRAITS)).tolist(), strict=True))


def draw_anatomy(rng: np.random.Generator, body: dict[str, float], portable: bool) -> Anatomy:
    """Draw body and position for one examination; at the bedside (``portable``) the heart looks
    larger, the diaphragm higher, and the patient less upright."""
    m = rng.uniform(-1.0, 1.0, size=16).tolist()
    age = 0.5 + 0.5 * body["age"]
    wild = 1.6 if portable else 1.0
    scaled = {name: scale[0] + scale[1] * body[name] for name, scale in _TRAITS.items() if scale}
    return Anatomy(
        **scaled,
        heart=(0.285 + 0.030 * body["heart"]) * (1.07 if portable else 1.0),
        mediastinum=0.115 + 0.018 * body["mediastinum"] + (0.008 if portable else 0.0),
        age=age,
        bone=1.30 - 0.65 * age,
        scoliosis=0.055 * body["scoliosis"] ** 3,
        knob=0.4 + 0.5 * age + 0.3 * body["knob"],
        breast=max(0.0, 0.14 * body["breast"]),
        shift=(0.045 * m[0], 0.035 * m[1]),
        tilt=0.05 * m[2] * wild,
        scale=1.0 + 0.04 * m[3],
        turned=0.06 * m[4] ** 3 * wild,
        diaphragm=0.50 + 0.05 * body["diaphragm"] + 0.035 * m[5] - (0.04 if portable else 0.0),
        clavicles=(0.05 * body["clavicle"] + 0.03 * m[6], 0.05 * body["clavicle"] + 0.03 * m[7]),
        scapula=0.10 + 0.10 * m[8] + (0.06 if portable else 0.0),
        gas=(0.42 + 0.08 * m[9], 0.80 + 0.04 * m[10], 0.5 + 0.5 * m[11]),
        colon=max(0.0, m[12]),
    )


def draw_exposure(rng: np.random.Generator, portable: bool) -> Exposure:
    """Draw the exposure of one radiograph; portable ones have more noise, less contrast and more
    often grid lines."""
    m = rng.uniform(-1.0, 1.0, size=8).tolist()
    u = rng.random(16).tolist()
    left, top, right, bottom = [max(0.0, 0.24 * value - 0.15) for value in u[0:4]]
    marker = "R"
    if u[10] < 0.30:
        marker = ""
    elif u[10] < 0.72:
        marker = "L"
    label = 2
    if u[13] < 0.72:
        label = 0
    elif u[13] < 0.86:
        label = 1
    share_with_grid = 0.16 if portable else 0.04
    return Exposure(
        gain=(1.0 + 0.14 * m[0]) * (0.94 if portable else 1.0),
        brightness=0.05 * m[1],
        gamma=float(np.exp(0.24 * m[2])),
        noise=0.010 + 0.016 * u[4] ** 2 + (0.005 if portable else 0.0),
        blur=0.16 * u[5],
        vignette=0.16 * u[6],
        centre=(0.3 * m[3], 0.3 * m[4]),
        collimation=(left, top, right, bottom),
        grid=0.008 + 0.010 * u[7] if u[8] < share_with_grid else 0.0,
        grid_period=2.6 + 3.0 * u[9],
        marker=marker,
        marker_place=(u[11], u[12]),
        label=label,
        label_corner=int(4 * u[14]),
        distractor=get_args(Distractor)[int(4 * u[15] / 0.46)] if u[15] < 0.46 else None,
        distractor_place=(m[5], m[6], m[7]),
    )
