"""The latent world: determinism, plausible numbers, and the rules that the other parts rely on."""

from itertools import combinations, pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from pacer.data.findings import FINDINGS
from pacer.phantom.world import FINDING_PRIORS, _next_state, begin_finding, make_world

LATERAL_CAPABLE = {name for name in FINDINGS if FINDING_PRIORS[name].lateral}
CHRONIC = {name for name in FINDINGS if FINDING_PRIORS[name].chronic}


@pytest.fixture(scope="module")
def world():
    return make_world(5, 700, 2.4, 0.6, val_fraction=0.1, test_fraction=0.2)


@pytest.fixture(scope="module")
def studies(world):
    return [study for patient in world for study in patient.studies]


def test_same_seed_gives_the_same_world():
    assert make_world(9, 30) == make_world(9, 30)
    assert make_world(9, 30) != make_world(10, 30)
    first, other = ([patient.subject_id for patient in make_world(seed, 30)] for seed in (9, 10))
    assert len({*first, *other}) == 60


def test_splits_are_by_patient_and_of_the_asked_size(world):
    splits = [patient.split for patient in world]
    assert splits.count("val") == 70 and splits.count("test") == 140
    assert all(study.split == patient.split for patient in world for study in patient.studies)


def test_studies_of_a_patient_are_chained_in_time(world):
    for patient in world:
        assert patient.studies[0].prior is None
        for before, after in pairwise(patient.studies):
            assert after.prior is before


def test_numbers_of_findings_are_plausible(studies):
    per_study = np.mean([len(study.findings) for study in studies])
    assert 2.3 < per_study < 2.9
    for name in FINDINGS:
        assert 0.07 < np.mean([name in study.findings for study in studies]) < 0.5
    assert 0.05 < np.mean([not study.findings for study in studies]) < 0.25


def chance(name, now, before):
    """Probability of a finding in a patient without traits: log-odds of its prevalence, shifted by those drawn before;
    and of one that was there to stay. In the long run as many begin as end."""
    prior = FINDING_PRIORS[name]
    shift = sum(value for other, value in (prior.given or {}).items() if other in now)
    rate = 1 / (1 + (1 / prior.prevalence - 1) * np.exp(-shift))
    if before is None:
        return rate
    return prior.persistence + 0.08 * np.tanh(shift) if name in before else rate * (1 - prior.persistence) / (1 - rate)


def test_prevalence_persistence_and_co_occurrence_are_those_of_the_table():
    rng, level = np.random.default_rng(3), dict.fromkeys(FINDINGS, 0.0)
    drawn = []
    for _ in range(2500):
        first, _ = _next_state(rng, None, level, True, 0.0)
        second, ended = _next_state(rng, SimpleNamespace(findings=first), level, True, 0.0)
        assert first.keys() - second.keys() == ended.keys()
        drawn += [(None, first), (first, second)]
    for name, prior in FINDING_PRIORS.items():
        groups = {"first": [], "stays": [], "begins": []}
        for before, now in drawn:
            one = now, name in now, chance(name, now, before)
            groups["first" if before is None else "stays" if name in before else "begins"].append(one)
        for kind, group in groups.items():
            for other in ("", *(prior.given or {})):
                known = [(found, expected) for now, found, expected in group if not other or other in now]
                found, expected = np.mean(known, axis=0)
                assert abs(found - expected) < 4 * np.sqrt(expected * (1 - expected) / len(known)), (name, kind, other)


@pytest.mark.parametrize("finding", [name for name in FINDINGS if name != "support devices"])
def test_what_a_finding_looks_like_is_drawn_apart(finding):
    """But for a hedge, which severity decides too."""
    rng = np.random.default_rng(4)
    states = [begin_finding(finding, rng.random(10), has_lateral=False) for _ in range(3000)]
    drawn = {name: [getattr(state, name) for state in states] for name in ("severity", "side", "zone", "certainty")}
    values = [
        np.unique(values, return_inverse=True)[1] for values in (*drawn.values(), *zip(*(s.position for s in states)))
    ]
    pairs = [pair for pair in combinations(range(len(values)), 2) if pair != (0, 3)]
    tied = [
        pair
        for pair in pairs
        if np.ptp(values[pair[0]])
        and np.ptp(values[pair[1]])
        and abs(np.corrcoef(values[pair[0]], values[pair[1]])[0, 1]) > 4.5 / np.sqrt(len(states))
    ]
    assert tied == [] and len(pairs) == 20


def test_copying_the_previous_study_is_good_but_not_unbeatable(studies):
    followed = [study for study in studies if study.prior]
    agreed = sum(len(study.findings.keys() & study.prior.findings.keys()) for study in followed)
    total = sum(len(study.findings) + len(study.prior.findings) for study in followed)
    assert 0.5 < 2 * agreed / total < 0.68


def test_findings_are_correlated(studies):
    def share(name, given):
        return np.mean([name in s.findings for s in studies if given in s.findings])

    assert share("edema", "cardiomegaly") > 1.5 * np.mean(["edema" in s.findings for s in studies])
    assert share("pneumonia", "consolidation") > 1.5 * np.mean(["pneumonia" in s.findings for s in studies])


def test_lateral_only_findings(studies):
    states = [(study, state) for study in studies for state in study.findings.values()]
    assert all(study.has_lateral and state.finding in LATERAL_CAPABLE for study, state in states if state.lateral_only)
    for name in LATERAL_CAPABLE:
        share = np.mean([state.lateral_only for _, state in states if state.finding == name])
        assert 0.1 < share < 0.33, name
    fractures = [state for _, state in states if state.finding == "fracture"]
    assert all((state.kind == "vertebra") == state.lateral_only for state in fractures)


def test_what_the_previous_report_alone_tells(studies):
    continued = [(study, state) for study in studies for state in study.findings.values() if study.prior]
    for study, state in continued:
        if state.prior_only:
            before = study.prior.findings[state.finding]
            assert state.finding in CHRONIC and not state.lateral_only
            assert (state.course, state.severity) == ("stable", before.severity)
    assert not any(study.prior_only for study in studies if study.prior is None)
    for name in CHRONIC:
        states = [s for study, s in continued if s.finding == name and s.course != "new" and not s.lateral_only]
        assert 0.5 < np.mean([state.prior_only for state in states]) < 0.7, name
    # so what the previous report says of them nearly always holds
    before = [
        (name, study)
        for study in studies
        if study.prior
        for name in study.prior.findings.keys() & CHRONIC - study.prior.lateral_only
    ]
    assert np.mean([name in study.findings for name, study in before]) > 0.88


def test_courses_follow_the_previous_study(studies):
    for study in studies:
        for name, state in study.findings.items():
            before = study.prior.findings.get(name) if study.prior else None
            assert (state.course == "new") == (before is None)
            if before:
                assert (state.side, state.zone, state.kind) == (before.side, before.zone, before.kind)
                change = state.severity - before.severity
                assert {"worse": change > 0.15, "improved": change < -0.15, "stable": change == 0}[state.course]
        ended = study.prior.findings.keys() - study.findings.keys() if study.prior else set()
        assert study.resolved.keys() == ended
