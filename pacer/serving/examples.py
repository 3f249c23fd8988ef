"""Example cases for the page: examinations from a separate phantom world, drawn on request."""

from __future__ import annotations

from collections.abc import Callable

from PIL import Image

from pacer.phantom.language import fullest_report_of
from pacer.phantom.render import render
from pacer.phantom.world import PhantomStudy, make_world
from pacer.serving.case import Case

#: Seed of a world that no corpus or stand-in uses, and its number of patients: enough for one case of each kind.
_SEED, _PATIENTS = 2_024, 60
#: Height and width in pixels.
SIZE = 448

#: Title of each kind of example, and which examinations belong to it.
_KINDS: dict[str, Callable[[PhantomStudy], bool]] = {
    "Several findings": lambda study: len(study.findings) >= 4 and not study.lateral_only and not study.prior_only,
    "Findings on the lateral view only": lambda study: bool(study.lateral_only) and not study.prior_only,
    "Findings in the previous report only": lambda study: bool(study.prior_only) and not study.lateral_only,
    "A normal chest": lambda study: not study.findings and bool(study.resolved),
}


def example_cases() -> list[Case]:
    """Return one case of each kind, always the same, each with a lateral view and a previous report."""
    world = make_world(_SEED, _PATIENTS, 2.5, lateral_fraction=0.8)
    studies = [study for patient in world for study in patient.studies if study.has_lateral and study.prior is not None]
    return [_example(title, next(filter(fits, studies))) for title, fits in _KINDS.items()]


def _example(title: str, study: PhantomStudy) -> Case:
    assert study.prior is not None
    return Case(
        Image.fromarray(render(study, SIZE, "frontal")),
        Image.fromarray(render(study, SIZE, "lateral")),
        fullest_report_of(study.prior).text,
        study.indication or "",
        study.history or "",
        study.view,
        name=title,
    )
