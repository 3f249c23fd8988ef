"""The latent world: patients, their examinations over time, and the state of every finding in every
examination.

Findings follow a Markov chain over the examinations of a patient. Patient traits (heart failure,
infection, intensive care, trauma, tumour, asbestos) and findings already present shift the odds, so
findings co-occur plausibly. Every draw is a function of (seed, patient, examination); nothing
depends on dictionary or hash order.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np

from pacer.core.findings import FINDINGS
from pacer.core.io import yaml_beside
from pacer.phantom.anatomy import Anatomy, Exposure, draw_anatomy, draw_body, draw_exposure

Side = Literal["left", "right", "bilateral", "central"]
Zone = Literal["upper", "mid", "lower"]
Course = Literal["new", "worse", "stable", "improved", "resolved"]
Certainty = Literal["definite", "hedged"]
Split = Literal["train", "val", "test"]

#: Probability that a new lateral-capable finding is visible only on the lateral view, if the
#: examination has that view.
LATERAL_ONLY = 0.42
#: Probability that no view of a later examination shows a chronic finding, so that only the
#: previous report mentions it.
PRIOR_ONLY = 0.6

DEVICES = (
    "picc",
    "central line",
    "endotracheal tube",
    "nasogastric tube",
    "pacemaker",
    "chest tube",
)


class FindingPrior(NamedTuple):
    """Parameters of a finding; see the comments of ``world.yaml``."""

    prevalence: float
    persistence: float
    hedging: float
    denied: float
    urgency: int
    given: dict[str, float] | None = None
    central: bool = False
    bilateral: float = 0.0
    lateral: bool = False
    chronic: bool = False


_WORLD = yaml_beside(__file__, "world.yaml")
#: Priors by finding, in drawing order.
FINDING_PRIORS = {
    finding: FindingPrior(**finding_prior) for finding, finding_prior in _WORLD["findings"].items()
}
#: ``share`` of patients with each trait, and the ``shifts`` of log-odds that it causes.
TRAITS = _WORLD["traits"]
#: Shift of all log-odds that compensates for traits and couplings, so that an examination has about
#: 2.6 findings.
_LEVEL = -0.30


@dataclass(frozen=True, slots=True)
class FindingState:
    """One finding in one examination."""

    finding: str  # its name in FINDINGS
    side: Side  # "central" for findings without a side
    zone: Zone  # height in the lung
    severity: float  # 0 (barely present) to 1
    course: Course  # change since the patient's previous examination ("new" in a first examination)
    certainty: Certainty  # whether reports state or hedge it
    lateral_only: bool  # visible on the lateral view but not on the frontal one
    prior_only: bool  # visible on no view of this examination; the previous report mentions it
    kind: str  # a subtype ("rib" or "vertebra" for fractures), else ""
    devices: tuple[str, ...]  # for "support devices"
    position: tuple[float, float, float]  # numbers in [0, 1) that determine place and shape

    def known_from(self, lateral: bool, prior: bool) -> bool:
        """Whether the frontal view together with these sources shows the finding."""
        return (lateral or not self.lateral_only) and (prior or not self.prior_only)


@dataclass(frozen=True, slots=True)
class PhantomStudy:
    """One examination."""

    study_id: str
    subject_id: str
    split: Split
    view: Literal["AP", "PA"]
    has_lateral: bool
    findings: dict[str, FindingState]  # the present findings
    resolved: dict[str, FindingState]  # the findings that ended since the previous examination
    indication: str | None
    history: str | None
    anatomy: Anatomy
    exposure: Exposure
    lateral_exposure: Exposure
    prior: PhantomStudy | None = field(repr=False, compare=False)  # the previous examination
    key: tuple[int, ...]  # seeds of all random numbers of this examination

    @property
    def lateral_only(self) -> frozenset[str]:
        """Present findings that the frontal view does not show."""
        return frozenset(name for name, state in self.findings.items() if state.lateral_only)

    @property
    def prior_only(self) -> frozenset[str]:
        """Present findings that no view shows."""
        return frozenset(name for name, state in self.findings.items() if state.prior_only)

    def rng(self, purpose: int) -> np.random.Generator:
        """Return a random generator specific to this examination and ``purpose``."""
        return np.random.default_rng([*self.key, purpose])


@dataclass(frozen=True, slots=True)
class Patient:
    """A patient with examinations in chronological order, all in one split."""

    subject_id: str
    split: Split
    studies: tuple[PhantomStudy, ...]


def make_world(
    seed: int,
    patients: int,
    studies_per_patient: float = 2.4,
    lateral_fraction: float = 0.6,
    val_fraction: float = 0.0,
    test_fraction: float = 0.0,
    rarity_boost: float = 0.0,
) -> list[Patient]:
    """Generate the world of ``seed``, with random subject ids.

    Args:
        studies_per_patient: mean number of examinations; each patient has at least one.
        lateral_fraction: share of examinations with a lateral view.
        val_fraction: share of patients; above zero, it yields at least one patient.
        test_fraction: likewise.
        rarity_boost: 0 is the natural mix; 1 moves every finding towards the same, higher
            prevalence (for training stand-in encoders).
    """
    rng = np.random.default_rng([seed, 0])
    numbers = rng.choice(9_999_999, size=patients, replace=False)
    counts = 1 + np.minimum(rng.poisson(max(studies_per_patient - 1.0, 0.0), size=patients), 7)
    study_numbers = rng.choice(9_999_999, size=int(counts.sum()), replace=False)
    num_val = max(round(val_fraction * patients), int(val_fraction > 0))
    num_test = max(round(test_fraction * patients), int(test_fraction > 0))
    splits: list[Split] = ["train"] * patients
    for rank, index in enumerate(rng.permutation(patients)[: num_test + num_val]):
        splits[index] = "test" if rank < num_test else "val"
    world = []
    first = 0
    for index in range(patients):
        subject_id = str(10_000_000 + int(numbers[index]))
        ids = [str(50_000_000 + int(n)) for n in study_numbers[first : first + counts[index]]]
        first += int(counts[index])
        studies = _make_studies(
            (seed, index), subject_id, splits[index], ids, lateral_fraction, rarity_boost
        )
        world.append(Patient(subject_id, splits[index], studies))
    return world


def _make_studies(
    key: tuple[int, int],
    subject_id: str,
    split: Split,
    ids: list[str],
    lateral_fraction: float,
    boost: float,
) -> tuple[PhantomStudy, ...]:
    rng = np.random.default_rng([*key, 1])
    traits = [name for name, trait in TRAITS.items() if rng.random() < trait["share"]]
    shifts = {name: _LEVEL for name in FINDINGS}
    for trait in traits:
        for finding, shift in TRAITS[trait]["shifts"].items():
            shifts[finding] += shift
    body = draw_body(np.random.default_rng([*key, 3]))
    studies: list[PhantomStudy] = []
    for number, study_id in enumerate(ids):
        rng = np.random.default_rng([*key, 2, number])
        has_lateral = bool(rng.random() < lateral_fraction)
        moment = np.random.default_rng([*key, 4, number])
        prior = studies[-1] if studies else None
        further = np.random.default_rng([*key, 5, number])
        draws = np.hstack([rng.random((len(FINDINGS), 10)), further.random((len(FINDINGS), 2))])
        findings, resolved = _next_state(draws, prior, shifts, has_lateral, boost)
        devices = findings["support devices"].devices if "support devices" in findings else ()
        bedside = "intensive care" in traits or "endotracheal tube" in devices
        share_of_portable = 0.75 if bedside else 0.4
        if has_lateral:
            share_of_portable = 0.2
        portable = bool(rng.random() < share_of_portable)
        studies.append(
            PhantomStudy(
                study_id=study_id,
                subject_id=subject_id,
                split=split,
                view="AP" if portable else "PA",
                has_lateral=has_lateral,
                findings=findings,
                resolved=resolved,
                indication=_clinical_text(rng, traits, "indications", 0.75),
                history=_clinical_text(rng, traits, "histories", 0.5),
                anatomy=draw_anatomy(moment, body, portable),
                exposure=draw_exposure(moment, portable),
                lateral_exposure=draw_exposure(moment, False),
                prior=prior,
                key=(*key, number),
            )
        )
    return tuple(studies)


def _clinical_text(
    rng: np.random.Generator,
    traits: list[str],
    kind: Literal["indications", "histories"],
    share: float,
) -> str | None:
    """Draw a text that fits a trait of the patient, with probability ``share``."""
    known, general, trait, choice = rng.random(4)
    if known > share:
        return None
    name = ""
    if traits and general >= 0.4:
        name = traits[int(trait * len(traits))]
    texts = _WORLD[kind][name]
    return texts[int(choice * len(texts))]


def _next_state(
    draws: np.ndarray,
    prior: PhantomStudy | None,
    shifts: dict[str, float],
    has_lateral: bool,
    boost: float,
) -> tuple[dict[str, FindingState], dict[str, FindingState]]:
    """Return the findings present now and those that ended, given the previous examination and
    twelve random numbers in [0, 1) of each finding [13, 12]."""
    now: dict[str, FindingState] = {}
    resolved: dict[str, FindingState] = {}
    for finding, finding_prior in FINDING_PRIORS.items():
        draw = draws[FINDINGS.index(finding)]
        shift = shifts[finding] + sum(
            value for other, value in (finding_prior.given or {}).items() if other in now
        )
        share = finding_prior.prevalence + boost * (0.3 - finding_prior.prevalence)
        odds = share / (1.0 - share) * np.exp(shift * (1.0 - 0.5 * boost))
        rate = min(odds / (1.0 + odds), 0.9)
        before = prior.findings.get(finding) if prior else None
        if before is not None:
            stays = finding_prior.persistence + 0.08 * np.tanh(shift)
            if draw[0] < stays and (has_lateral or not before.lateral_only):
                now[finding] = _continue(before, draw)
            else:
                resolved[finding] = before
            continue
        if prior is not None:
            rate *= (1.0 - finding_prior.persistence) / (1.0 - rate)
        if draw[0] < rate:
            now[finding] = begin_finding(finding, draw, has_lateral)
    ordered = {name: now[name] for name in FINDINGS if name in now}
    return ordered, {name: resolved[name] for name in FINDINGS if name in resolved}


def _certainty(finding: str, severity: float, draw: float) -> Certainty:
    return "hedged" if draw < FINDING_PRIORS[finding].hedging * (1.5 - severity) else "definite"


def begin_finding(finding: str, draw: np.ndarray, has_lateral: bool) -> FindingState:
    """Create the state of a new finding from twelve random numbers in [0, 1)."""
    severity = round(float(0.15 + 0.85 * draw[1]), 3)
    lateral_only = bool(FINDING_PRIORS[finding].lateral and has_lateral and draw[2] < LATERAL_ONLY)
    zones: tuple[Zone, ...] = ("upper", "mid", "lower")
    devices = ()
    if finding == "support devices":
        first = DEVICES[int(draw[6] * len(DEVICES))]
        second = DEVICES[int(draw[10] * len(DEVICES))]
        both = draw[11] < 0.35 and first != second
        devices = tuple(d for d in DEVICES if d in (first, second)) if both else (first,)
    fracture = "vertebra" if lateral_only else "rib"
    return FindingState(
        finding=finding,
        side=_side(finding, float(draw[3])),
        zone="lower" if lateral_only else zones[int(draw[4] * 3)],
        severity=severity,
        course="new",
        certainty="definite" if lateral_only else _certainty(finding, severity, float(draw[5])),
        lateral_only=lateral_only,
        prior_only=False,
        kind=fracture if finding == "fracture" else "",
        devices=devices,
        position=(float(draw[7]), float(draw[8]), float(draw[9])),
    )


def _side(finding: str, draw: float) -> Side:
    if FINDING_PRIORS[finding].central:
        return "central"
    bilateral = FINDING_PRIORS[finding].bilateral
    if draw < bilateral:
        return "bilateral"
    return "right" if draw < bilateral + (1.0 - bilateral) * 0.53 else "left"


def _continue(before: FindingState, draw: np.ndarray) -> FindingState:
    """Return the state in the next examination: severity changes only if it is visible; place and
    kind stay the same."""
    step = 0.0
    course: Course = "stable"
    chronic = FINDING_PRIORS[before.finding].chronic
    prior_only = chronic and not before.lateral_only and bool(draw[6] < PRIOR_ONLY)
    if before.finding != "support devices" and not prior_only:
        if draw[1] < 0.25 and before.severity < 0.75:
            step = 0.25 + 0.2 * float(draw[2])
            course = "worse"
        elif draw[1] > 0.72 and before.severity > 0.4:
            step = -(0.25 + 0.2 * float(draw[2]))
            course = "improved"
    severity = round(min(max(before.severity + step, 0.15), 1.0), 3)
    certainty = (
        before.certainty if draw[4] < 0.5 else _certainty(before.finding, severity, float(draw[5]))
    )
    return replace(
        before,
        severity=severity,
        course=course,
        certainty="definite" if before.lateral_only or prior_only else certainty,
        prior_only=prior_only,
    )
