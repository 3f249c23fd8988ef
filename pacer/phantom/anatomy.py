"""Body and exposure of an examination: the variation between radiographs with the same findings.

None of it depends on the findings, so only the drawn findings reveal them. (The exception is
whether an examination is portable, because intubated patients are examined in bed.)
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from pacer.core.io import yaml_beside

#: Of each trait: mean, spread between patients, spread between examinations, shift at the bedside.
_TRAITS: dict[str, list[float]] = yaml_beside(__file__, "anatomy.yaml")

Distractor = Literal["skin fold", "buttons"]
_DISTRACTORS: tuple[Distractor, ...] = ("skin fold", "buttons")
#: Share of radiographs with each of them.
_DISTRACTED = 0.23


@dataclass(frozen=True, slots=True)
class Anatomy:
    """Body and position of one examination; lengths are in half image widths, angles in radians."""

    lung_width: float
    lung_height: float
    heart: float
    heart_length: float
    heart_axis: float  # how far the heart leans towards its apex
    heart_place: float  # offset of the heart's centre to the left
    mediastinum: float
    diaphragm: float
    dome: float
    rib_spacing: float
    bone: float  # brightness of ribs, spine and clavicles, relative
    knob: float  # size of the aortic knob
    fat: float  # soft tissue around the trunk, 0 to 1
    apex: float
    breast: float  # brightness of breast shadows, none unless it is positive
    hilum: float
    scoliosis: float  # sideways swing of the spine and the whole chest
    kyphosis: float  # the same swing on the lateral view
    clavicle: float
    clavicle_slope: float
    scapula: float  # overlap of the shoulder blades with the lungs
    shift_x: float
    shift_y: float
    tilt: float
    scale: float
    # how much wider one half of the chest looks than the other, as in a rotated patient
    turned: float


@dataclass(frozen=True, slots=True)
class Exposure:
    """Acquisition and printing parameters of one radiograph."""

    gain: float  # contrast
    brightness: float  # offset
    gamma: float
    # scale of the quantum noise's standard deviation, relative to the full range of brightness
    noise: float
    # how unevenly the image is exposed, from left to right and from top to bottom
    unevenness: tuple[float, float]
    # width of the black border: left, top, right, bottom
    collimation: tuple[float, ...]
    marker: Literal["L", "R"] | None  # the letter on the side that it names
    marker_place: tuple[float, float]
    distractor: Distractor | None  # object on or around the body that is not a finding
    distractor_place: tuple[float, float, float]


def draw_body(rng: np.random.Generator) -> dict[str, float]:
    """Draw a patient's traits, each in [-1, 1]."""
    return dict(zip(_TRAITS, rng.uniform(-1.0, 1.0, len(_TRAITS)).tolist(), strict=True))


def draw_anatomy(rng: np.random.Generator, body: dict[str, float], portable: bool) -> Anatomy:
    """Draw body and position for one examination; at the bedside (``portable``) the heart looks
    larger and the diaphragm higher."""
    moment = draw_body(rng)
    return Anatomy(
        **{
            name: mean + patient * body[name] + examination * moment[name] + bedside * portable
            for name, (mean, patient, examination, bedside) in _TRAITS.items()
        }
    )


def draw_exposure(rng: np.random.Generator, portable: bool) -> Exposure:
    """Draw the exposure of one radiograph; portable ones have more noise and less contrast."""
    m = rng.uniform(-1.0, 1.0, size=8).tolist()
    u = rng.random(9).tolist()
    return Exposure(
        gain=1.0 + 0.14 * m[0] - 0.06 * portable,
        brightness=0.05 * m[1],
        gamma=math.exp(0.24 * m[2]),
        noise=0.010 + 0.016 * u[4] ** 2 + 0.005 * portable,
        unevenness=(0.12 * m[6], 0.12 * m[7]),
        collimation=tuple(max(0.0, 0.24 * value - 0.15) for value in u[:4]),
        marker=(None, "L", "R")[int(3 * u[5])],
        marker_place=(u[6], u[7]),
        distractor=dict(enumerate(_DISTRACTORS)).get(int(u[8] / _DISTRACTED)),
        distractor_place=(m[3], m[4], m[5]),
    )
