"""The reports: what they say agrees with the truth, context by context."""

import re

import numpy as np
import pytest

from pacer.commitments.rules.extract import extract_anchor
from pacer.data.cleaning import clean_report
from pacer.data.findings import FINDINGS
from pacer.phantom.language import contexts_of, fullest_report_of, report_of, sample_texts, write_report
from pacer.phantom.world import make_world


@pytest.fixture(scope="module")
def cases():
    world = make_world(8, 250)
    studies = [study for patient in world for study in patient.studies]
    return [(study, context, report_of(study, context)) for study in studies for context in contexts_of(study)]


def words(text):
    return set(re.findall(r"[a-z]+", text.lower()))


def test_all_contexts_occur(cases):
    assert {context for _, context, _ in cases} == {"sn", "sw", "mn", "mw"}


def test_course_words_agree_with_the_course(cases):
    allowed = {
        "new": {"worse", "stable", "improved"},
        "unchanged": {"new", "worse", "improved"},
        "worsened": {"new", "stable", "improved"},
        "decreased": {"new", "stable", "worse"},
    }
    checked = 0
    for study, _, report in cases:
        for text, findings in report.sentences:
            for word in words(text) & set(allowed):
                if len(findings) == 1:
                    checked += 1
                    assert study.findings[next(iter(findings))].course not in allowed[word], text
    assert checked > 100


def test_sentences_make_up_the_text(cases):
    for _, _, report in cases:
        assert " ".join(text for text, _ in report.sentences) == report.text
        assert frozenset().union(*(findings for _, findings in report.sentences)) == report.present


def test_reports_are_short_and_some_lack_a_section(cases):
    reports = [report for _, _, report in cases]
    assert 25 < np.mean([len(report.text.split()) for report in reports]) < 45
    assert 0.1 < np.mean([not report.findings for report in reports]) < 0.3
    assert 0.1 < np.mean([not report.impression for report in reports]) < 0.3
    assert all(report.text for report in reports)


def test_the_rules_read_what_the_reports_state(cases):
    wrong = total = 0
    for _, _, report in cases:
        for text in (report.text, clean_report(report.text)):
            anchor = extract_anchor(text)
            for status in ("positive", "negative", "uncertain"):
                wrong += len(set(report.listed(status)) ^ set(getattr(anchor, status)))
            total += len(FINDINGS)
    assert wrong / total < 0.005


def test_contexts_share_the_wording(cases):
    by_key = {(study.study_id, context): report for study, context, report in cases}
    same = [
        by_key[study.study_id, "sn"].text == report.text
        for study, context, report in cases
        if context == "mn" and not study.lateral_only
    ]
    assert all(same) and len(same) > 50


def test_previous_report_uses_all_that_the_previous_study_had(cases):
    study = next(s for s, _, _ in cases if s.prior and s.prior.has_lateral and s.prior.prior)
    assert fullest_report_of(study.prior).context == "mw"
    assert fullest_report_of(study.prior) == report_of(study.prior, "mw")


def test_a_context_without_its_source_is_refused():
    study = make_world(1, 1, 1.0, lateral_fraction=0.0)[0].studies[0]
    with pytest.raises(ValueError, match="no lateral view"):
        write_report(study, "mn", np.random.default_rng(0))
    with pytest.raises(ValueError, match="no previous study"):
        write_report(study, "sw", np.random.default_rng(0))


def test_sample_texts_is_deterministic_and_exact_in_number():
    reports = sample_texts(3, 301)
    assert len(reports) == 301 and reports == sample_texts(3, 301)
    assert {report.context for report in reports} == {"sn", "sw", "mn", "mw"}
    assert len({report.text for report in reports}) > 270
