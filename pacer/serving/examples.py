"""Example cases for the page: examinations of a phantom world of their own, drawn when they are asked for."""

from __future__ import annotations

from collections.abc import Callable

from PIL import Image

from pacer.phantom.language import fullest_report_of
from pacer.phantom.render import render_frontal, render_lateral
from pacer.phantom.world import PhantomStudy, make_world
from pacer.serving.case import Case

#: Seed of a world that no corpus and no stand-in was made from, and its patients: enough for one case of each kind.
_SEED, _PATIENTS = 2_024, 60
#: Pixels of a side.
SIZE = 448

#: What a case is good for, and which examinations are.
_KINDS: dict[str, Callable[[PhantomStudy], bool]] = {
    "Several findings": lambda study: len(study.findings) >= 4 and not study.lateral_only and not study.prior_only,
    "Findings on the lateral view only": lambda study: bool(study.lateral_only) and not study.prior_only,
    "Findings in the previous report only": lambda study: bool(study.prior_only) and not study.lateral_only,
    "A normal chest": lambda study: not study.findings and bool(study.resolved),
}


def example_cases() -> list[Case]:
    """One case of each kind, all with a lateral view and a previous report; always the same."""
    world = make_world(_SEED, _PATIENTS, 2.5, lateral_fraction=0.8)
    studies = [study for patient in world for study in patient.studies if study.has_lateral and study.prior is not None]
    return [_example(title, next(filter(fits, studies))) for title, fits in _KINDS.items()]


def _example(title: str, study: PhantomStudy) -> Case:
    assert study.prior is not None
    previous = fullest_report_of(study.prior)
    return Case(
        Image.fromarray(render_frontal(study, SIZE)),
        Image.fromarray(render_lateral(study, SIZE)),
        " ".join(section for section in (previous.findings, previous.impression) if section),
        study.indication or "",
        study.history or "",
        study.view,
        name=title,
    )
