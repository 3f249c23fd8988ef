"""The latent world: determinism, plausible numbers, and the rules that the other parts rely on."""

from itertools import pairwise

import numpy as np
import pytest

from pacer.data.findings import FINDINGS
from pacer.phantom.world import FINDING_PRIORS, make_world

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
