"""A picture of every finding, alone in an otherwise normal chest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from PIL import Image, ImageDraw

from pacer.data.findings import FINDINGS
from pacer.phantom.render import render_frontal, render_lateral
from pacer.phantom.world import LATERAL_CAPABLE, PhantomStudy, begin_finding, make_world

_LATERAL_EXAMPLES = ("pleural effusion", "fracture")
_COLUMNS = 4
_TITLE_HEIGHT = 16


def example_study(finding: str | None, seed: int, severity: float = 0.6, lateral_only: bool = False) -> PhantomStudy:
    """A study with both views that shows one finding, or none.

    Args:
        finding: a name of FINDINGS; None for a normal chest.
        seed: decides the body and where the finding is.
        severity: 0 to 1.
        lateral_only: the finding shows on the lateral view alone.

    Raises:
        ValueError: the finding is unknown, or never shows on the lateral view alone.
    """
    if finding is not None and finding not in FINDINGS:
        raise ValueError(f"{finding!r} is not one of the {len(FINDINGS)} findings")
    if lateral_only and finding not in LATERAL_CAPABLE:
        raise ValueError(f"{finding!r} never shows on the lateral view alone")
    study = make_world(seed, 1, 1.0, lateral_fraction=1.0)[0].studies[0]
    findings = {}
    rng = np.random.default_rng([seed, 50])
    while finding is not None and not findings:
        state = begin_finding(finding, rng.random(10), has_lateral=True)
        if state.lateral_only == lateral_only:
            findings[finding] = replace(state, severity=severity, certainty="definite")
    return replace(study, findings=findings, resolved={})


def draw_gallery(seed: int, size: int = 112, zoom: float = 1.4) -> Image.Image:
    """A grid of labelled pairs, frontal and lateral: a normal chest, every finding, two lateral-only findings.

    Args:
        seed: decides bodies and places.
        size: pixels at which the radiographs are rendered.
        zoom: enlargement in the picture.
    """
    cases = [("normal", example_study(None, seed))]
    cases += [(name, example_study(name, seed + number)) for number, name in enumerate(FINDINGS)]
    cases += [(f"{name}, lateral only", example_study(name, seed, lateral_only=True)) for name in _LATERAL_EXAMPLES]
    side = round(size * zoom)
    rows = -(-len(cases) // _COLUMNS)
    width, height = 2 * side + 6, side + _TITLE_HEIGHT
    picture = Image.new("L", (_COLUMNS * width, rows * height), 255)
    draw = ImageDraw.Draw(picture)
    for number, (title, study) in enumerate(cases):
        left, top = (number % _COLUMNS) * width, (number // _COLUMNS) * height
        draw.text((left + 2, top + 2), title, fill=0)
        for column, pixels in enumerate((render_frontal(study, size), render_lateral(study, size))):
            view = Image.fromarray(pixels).resize((side, side), Image.Resampling.BICUBIC)
            picture.paste(view, (left + column * (side + 1), top + _TITLE_HEIGHT))
    return picture
