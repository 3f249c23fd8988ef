"""The latent world: patients, their examinations over time, and the state of every finding in every
examination.

What a patient *has*, what a view *shows* and what a report *names* are three things. Findings
follow a Markov chain over the examinations of a patient. Traits of the patient and findings already
present shift the odds, so findings co-occur plausibly. A finding may be visible on the lateral view
only, or, if it is chronic, on no view of a later examination. And as radiologists do, reports leave
out a known finding that is slight and stable (:meth:`FindingState.left_out`). Every draw is a
function of (seed, patient, examination); nothing depends on dictionary or hash order.
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

ZONES: tuple[Zone, ...] = ("upper", "mid", "lower")
#: Smallest and largest severity.
_MILDEST, _WORST = 0.15, 1.0


class FindingPrior(NamedTuple):
    """Parameters of a finding; see the comments of ``world.yaml``."""

    prevalence: float
    persistence: float
    quiet: float
    hedging: float
    denied: float
    urgency: int
    given: dict[str, float] | None = None
    central: bool = False
    bilateral: float = 0.0
    lateral: float = 0.0
    unseen: float = 0.0


_WORLD = yaml_beside(__file__, "world.yaml")
#: Priors by finding, in drawing order.
FINDING_PRIORS = {
    finding: FindingPrior(**finding_prior) for finding, finding_prior in _WORLD["findings"].items()
}
#: ``share`` of patients with each trait, and the ``shifts`` of log-odds that it causes.
TRAITS = _WORLD["traits"]
DEVICES: tuple[str, ...] = tuple(_WORLD["devices"])


class Draw(NamedTuple):
    """The random numbers in [0, 1) that decide about a finding in an examination; each decides one
    thing."""

    present: float
    severity: float  # of a new finding; of a continuing one, whether it gets worse or better
    change: float  # by how much
    side: float
    zone: float
    hedged: float
    hedged_anew: float  # whether the certainty of a continuing finding is drawn again
    shown: float  # whether the lateral view alone, or no view, shows it
    device: float
    second_device: float
    both: float
    place: float
    depth: float
    shape: float


@dataclass(frozen=True, slots=True)
class FindingState:
    """One finding in one examination."""

    finding: str  # its name in FINDINGS
    side: Side  # "central" for findings without a side
    zone: Zone  # height in the lung
    severity: float  # 0 (barely present) to 1
    course: Course  # change since the patient's previous examination ("new" in a first examination)
    certainty: Certainty  # whether reports state or hedge it
    stable_for: int  # examinations in a row in which it has not changed
    lateral_only: bool  # visible on the lateral view but not on the frontal one
    prior_only: bool  # visible on no view of this examination; the previous report mentions it
    kind: str  # a subtype ("rib" or "vertebra" for fractures), else ""
    devices: tuple[str, ...]  # for "support devices"
    position: tuple[float, float, float]  # numbers in [0, 1) that determine place and shape

    @property
    def left_out(self) -> bool:
        """Whether reports of this examination leave the finding out, in every context: it is known,
        and the longer it has been stable, the more severe it may be.

        It is left out below severity 1 - (1 - ``quiet``)ⁿ, if it has been stable in n examinations.
        """
        quiet = FINDING_PRIORS[self.finding].quiet
        return self.severity < 1.0 - (1.0 - quiet) ** self.stable_for

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
    study_numbers = iter(rng.choice(9_999_999, size=int(counts.sum()), replace=False).tolist())
    num_val = max(round(val_fraction * patients), int(val_fraction > 0))
    num_test = max(round(test_fraction * patients), int(test_fraction > 0))
    splits: list[Split] = ["train"] * patients
    for rank, index in enumerate(rng.permutation(patients)[: num_test + num_val]):
        splits[index] = "test" if rank < num_test else "val"
    world = []
    for index, (number, count) in enumerate(zip(numbers.tolist(), counts.tolist(), strict=True)):
        subject_id = str(10_000_000 + number)
        ids = [str(50_000_000 + next(study_numbers)) for _ in range(count)]
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
    shifts = dict.fromkeys(FINDINGS, _WORLD["level"])
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
        draws = [Draw(*row) for row in rng.random((len(FINDINGS), len(Draw._fields))).tolist()]
        findings = next_findings(draws, prior, shifts, has_lateral, boost)
        devices = findings["support devices"].devices if "support devices" in findings else ()
        bedside = "intensive care" in traits or "endotracheal tube" in devices
        share_of_portable = 0.2 if has_lateral else 0.75 if bedside else 0.4
        portable = bool(rng.random() < share_of_portable)
        studies.append(
            PhantomStudy(
                study_id=study_id,
                subject_id=subject_id,
                split=split,
                view="AP" if portable else "PA",
                has_lateral=has_lateral,
                findings=findings,
                resolved={
                    name: state
                    for name, state in (prior.findings if prior else {}).items()
                    if name not in findings
                },
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
    name = traits[int(trait * len(traits))] if traits and general >= 0.4 else ""
    texts = _WORLD[kind][name]
    return texts[int(choice * len(texts))]


def next_findings(
    draws: list[Draw],
    prior: PhantomStudy | None,
    shifts: dict[str, float],
    has_lateral: bool,
    boost: float,
) -> dict[str, FindingState]:
    """Return the findings of an examination, in the order of FINDINGS.

    Args:
        draws: the random numbers of each finding, in the order of FINDINGS.
        prior: the previous examination.
        shifts: of the log-odds of each finding in this patient.
        boost: see :func:`make_world`.
    """
    now: dict[str, FindingState] = {}
    for finding, finding_prior in FINDING_PRIORS.items():
        draw = draws[FINDINGS.index(finding)]
        before = prior.findings.get(finding) if prior else None
        if before is not None:
            visible = has_lateral or not before.lateral_only
            if draw.present < finding_prior.persistence and visible:
                now[finding] = continue_finding(before, draw)
            continue
        given = sum(shift for other, shift in (finding_prior.given or {}).items() if other in now)
        share = finding_prior.prevalence + boost * (0.3 - finding_prior.prevalence)
        odds = share / (1.0 - share) * np.exp((shifts[finding] + given) * (1.0 - 0.5 * boost))
        rate = min(odds / (1.0 + odds), 0.9)
        if prior is not None:  # in the long run, as many begin as end
            rate *= (1.0 - finding_prior.persistence) / (1.0 - rate)
        if draw.present < rate:
            now[finding] = begin_finding(finding, draw, has_lateral)
    return {name: now[name] for name in FINDINGS if name in now}


def begin_finding(finding: str, draw: Draw, has_lateral: bool) -> FindingState:
    """Create the state of a new finding."""
    finding_prior = FINDING_PRIORS[finding]
    severity = round(_MILDEST + (_WORST - _MILDEST) * draw.severity, 3)
    lateral_only = has_lateral and draw.shown < finding_prior.lateral
    devices: tuple[str, ...] = ()
    if finding == "support devices":
        first = DEVICES[int(draw.device * len(DEVICES))]
        second = DEVICES[int(draw.second_device * len(DEVICES))]
        chosen = {first, second} if draw.both < _WORLD["two_devices"] else {first}
        devices = tuple(device for device in DEVICES if device in chosen)
    kind = "vertebra" if lateral_only else "rib"
    return FindingState(
        finding=finding,
        side=_side(finding_prior, draw.side),
        zone="lower" if lateral_only else ZONES[int(draw.zone * 3)],
        severity=severity,
        course="new",
        certainty="definite" if lateral_only else _certainty(finding, severity, draw.hedged),
        stable_for=0,
        lateral_only=lateral_only,
        prior_only=False,
        kind=kind if finding == "fracture" else "",
        devices=devices,
        position=(draw.place, draw.depth, draw.shape),
    )


def _side(finding_prior: FindingPrior, draw: float) -> Side:
    if finding_prior.central:
        return "central"
    if draw < finding_prior.bilateral:
        return "bilateral"
    one_sided = (draw - finding_prior.bilateral) / (1.0 - finding_prior.bilateral)
    return "right" if one_sided < _WORLD["right"] else "left"


def _certainty(finding: str, severity: float, draw: float) -> Certainty:
    """Hedge slight findings more often than severe ones."""
    return "hedged" if draw < FINDING_PRIORS[finding].hedging * (1.5 - severity) else "definite"


def continue_finding(before: FindingState, draw: Draw) -> FindingState:
    """Return the state in the next examination: severity changes only if it is visible; place and
    kind stay the same."""
    step = 0.0
    course: Course = "stable"
    unseen = not before.lateral_only and draw.shown < FINDING_PRIORS[before.finding].unseen
    if before.finding != "support devices" and not unseen:
        if draw.severity < _WORLD["worse"] and before.severity < 0.75:
            step = 0.25 + 0.2 * draw.change
            course = "worse"
        elif draw.severity > 1.0 - _WORLD["improved"] and before.severity > 0.4:
            step = -0.25 - 0.2 * draw.change
            course = "improved"
    severity = round(min(max(before.severity + step, _MILDEST), _WORST), 3)
    certainty = before.certainty
    if before.lateral_only or unseen:
        certainty = "definite"
    elif draw.hedged_anew < 0.5:
        certainty = _certainty(before.finding, severity, draw.hedged)
    return replace(
        before,
        severity=severity,
        course=course,
        certainty=certainty,
        stable_for=before.stable_for + 1 if course == "stable" else 0,
        prior_only=unseen,
    )
