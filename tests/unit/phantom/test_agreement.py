"""Reports and truth agree over a whole world: what is stated, hedged and denied, in every context."""

import re
from collections import Counter

import pytest

from pacer.commitments.rules.extract import extract_anchor
from pacer.core.contexts import availability
from pacer.data.findings import FINDINGS
from pacer.phantom.language import contexts_of, report_of
from pacer.phantom.wording import remarks
from pacer.phantom.world import make_world


@pytest.fixture(scope="module")
def cases():
    world = make_world(19, 250, 2.4, 0.6)
    studies = [study for patient in world for study in patient.studies]
    return [(study, context, report_of(study, context)) for study in studies for context in contexts_of(study)]


def disagreement(status, study, context, name):
    """Why a status contradicts the truth or the context, or None."""
    state = study.findings.get(name)
    if state is None:
        return None if status in (None, "negative") else "stated but absent"
    if state.lateral_only and not availability(context)[0]:
        return None if status is None else "lateral-only, mentioned without the lateral view"
    if state.prior_only and not availability(context)[1]:
        return None if status is None else "mentioned without the previous report that mentions it"
    expected = "uncertain" if state.certainty == "hedged" else "positive"
    return None if status == expected else f"{expected} in truth, {status or 'unmentioned'} in the report"


def test_statuses_never_disagree_with_the_truth(cases):
    wrong = Counter(
        disagreement(report.statuses.get(name), study, context, name)
        for study, context, report in cases
        for name in FINDINGS
    )
    assert wrong.keys() == {None} and wrong.total() > 10_000


def read_by_rules(text):
    anchor = extract_anchor(text)
    return {name: status for status in ("positive", "negative", "uncertain") for name in getattr(anchor, status)}


def test_rules_read_each_sentence_as_it_was_meant(cases):
    wrong = total = 0
    for _, _, report in cases:
        for text, stated in report.sentences:
            anchor = extract_anchor(text)
            wrong += len(stated ^ {*anchor.positive, *anchor.uncertain})
            total += len(FINDINGS)
    assert wrong / total < 0.005


def test_sides_and_places_are_those_of_the_truth(cases):
    checked = 0
    for study, _, report in cases:
        for text, stated in report.sentences:
            found = set(re.findall(r"\b(?:left|right|bilateral)\b", text.lower()))
            if len(stated) == 1 and found:
                state = study.findings[next(iter(stated))]
                assert found == {state.side}, text
                checked += 1
    assert checked > 1500


def test_remarks_state_and_deny_nothing(cases):
    for study, _, _ in cases:
        for style in ("terse", "plain", "prose", "numbered"):
            for text in remarks(study, style):
                assert not read_by_rules(text), text
                assert "fracture" not in study.findings or "intact" not in text
