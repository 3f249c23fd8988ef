"""What policies that do not look at the image gain from `pacer.reward` (docs/certificate.md).

`make release` writes it (bench/release.py): 300 reports of the phantom, one of each patient.
"""

import random

import numpy as np

import pacer
from pacer.core.findings import FINDINGS
from pacer.phantom.language import contexts_of, report_of
from pacer.phantom.world import make_world

REPORTS = 300


def gains() -> dict[str, float]:
    """Return the mean reward of each policy."""
    references = []
    for patient in make_world(0, REPORTS):
        study = patient.studies[-1]
        context = random.Random(f"0 {study.study_id}").choice(contexts_of(study))
        references.append(report_of(study, context).text)
    affirmed = [anchor.positive for anchor in pacer.label(references)]
    frequent = max(FINDINGS, key=sum(affirmed, ()).count)
    absent = [[name for name in FINDINGS if name not in one] for one in affirmed]
    completions = {
        "the reference": references,
        "the reference twice": [f"{text} {text}" for text in references],
        '"Normal chest radiograph." for everyone': ["Normal chest radiograph."] * REPORTS,
        '"There is no …" of all 13 findings for everyone': [stated(FINDINGS, "no ")] * REPORTS,
        "another patient's reference": references[1:] + references[:1],
        "the most frequent finding for everyone": [f"There is {frequent}."] * REPORTS,
        "all 13 findings for everyone": [stated(FINDINGS)] * REPORTS,
        "the reference, and all other findings": [
            f"{text} {stated(names)}" for text, names in zip(references, absent, strict=True)
        ],
    }
    return {
        name: round(float(np.mean(pacer.reward(texts, references))), 4)
        for name, texts in completions.items()
    }


def stated(names: list[str] | tuple[str, ...], no: str = "") -> str:
    return " ".join(f"There is {no}{name}." for name in names)
