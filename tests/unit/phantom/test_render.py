"""Radiographs and reports of a world show and state what its truth has, where it is, and nothing
else."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacer.core.anchor import render_anchor
from pacer.core.contexts import availability
from pacer.core.findings import FINDINGS
from pacer.phantom import language
from pacer.phantom.canvas import Canvas
from pacer.phantom.language import contexts_of, fullest_report_of, report_of, sample_texts
from pacer.phantom.render import (
    VIEWS,
    _boxes,
    render,
    render_with_masks,
    training_images,
    visible_findings,
)
from pacer.phantom.tokenizer import anchor_of, phantom_tokenizer
from pacer.phantom.wording import remarks
from pacer.phantom.world import FINDING_PRIORS, make_world
from pacer.text.cleaning.cleaners import clean_report
from pacer.text.rules import extract_anchor
from tests.support.phantom import example_study

GRID, SIZE = 8, 112
#: Shapes of the anatomy itself, which move their surroundings a little.
GLOBAL = {"cardiomegaly", "enlarged mediastinum", "edema"}


def difference(finding, seed, view, lateral_only=False):
    """Absolute change that the finding makes, per cell [8, 8], and its mask."""
    with_it = example_study(finding, seed, lateral_only=lateral_only)
    change = np.abs(
        render(with_it, SIZE, view)[0].astype(float)
        - render(example_study(None, seed), SIZE, view)[0]
    )
    cells = change.reshape(GRID, SIZE // GRID, GRID, SIZE // GRID).mean(axis=(1, 3))
    mask = render_with_masks(with_it, SIZE, view, GRID)[1][FINDINGS.index(finding)]
    return change, cells, mask


@pytest.mark.parametrize("finding", FINDINGS)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_frontal_change_is_strong_and_lies_in_the_mask(finding, seed):
    change, cells, mask = difference(finding, seed, "frontal")
    assert np.sort(change, axis=None)[-60:].mean() > 20, "too faint to see"
    inside = cells[mask > 0.02].sum() / cells.sum()
    assert inside > (0.8 if finding in GLOBAL else 0.85)


@pytest.mark.parametrize("finding", FINDINGS)
def test_lateral_shows_what_it_claims(finding):
    study = example_study(finding, 4)
    change, cells, mask = difference(finding, 4, "lateral")
    if finding in visible_findings(study, "lateral"):
        assert np.sort(change, axis=None)[-60:].mean() > 20
        assert cells[mask > 0.02].sum() / cells.sum() > 0.75
    else:
        assert finding in ("pneumothorax", "fracture")
        assert change.max() == 0 and mask.max() == 0


@pytest.mark.parametrize("finding", [name for name in FINDINGS if FINDING_PRIORS[name].lateral])
def test_lateral_only_findings_leave_the_frontal_untouched(finding):
    study = example_study(finding, 6, lateral_only=True)
    assert visible_findings(study, "frontal") == frozenset()
    assert visible_findings(study, "lateral") == {finding}
    assert np.array_equal(
        render(study, SIZE, "frontal")[0], render(example_study(None, 6), SIZE, "frontal")[0]
    )
    assert render_with_masks(study, SIZE, "frontal", GRID)[1].max() == 0
    change, cells, mask = difference(finding, 6, "lateral", lateral_only=True)
    assert np.sort(change, axis=None)[-60:].mean() > 20
    assert cells[mask > 0.02].sum() / cells.sum() > 0.8


@pytest.mark.parametrize("finding", [name for name in FINDINGS if FINDING_PRIORS[name].unseen])
def test_what_the_previous_report_alone_tells_shows_nowhere(finding):
    study = example_study(finding, 6)
    hidden = replace(study, findings={finding: replace(study.findings[finding], prior_only=True)})
    for view in VIEWS:
        assert visible_findings(hidden, view) == frozenset()
        assert np.array_equal(
            render(hidden, SIZE, view)[0], render(example_study(None, 6), SIZE, view)[0]
        )
        assert render_with_masks(hidden, SIZE, view, GRID)[1].max() == 0


@pytest.mark.parametrize(
    ("side", "half"), [("right", slice(SIZE // 2)), ("left", slice(SIZE // 2, None))]
)
def test_side_is_visible(side, half):
    seed = next(
        n
        for n in range(20)
        if example_study("pneumothorax", n).findings["pneumothorax"].side == side
    )
    change, _, _ = difference("pneumothorax", seed, "frontal")
    assert change[:, half].sum() > change.sum() / 2


def test_severity_is_visible():
    normal = render(example_study(None, 3), SIZE, "frontal")[0].astype(float)
    studies = [example_study("pleural effusion", 3, severity) for severity in (0.2, 0.5, 0.9)]
    sizes = [np.abs(render(study, SIZE, "frontal")[0] - normal).sum() for study in studies]
    assert sizes[0] < sizes[1] < sizes[2]


@pytest.mark.parametrize("view", ["frontal", "lateral"])
def test_masks_are_shares_and_cover_exactly_the_visible_findings(view):
    for patient in make_world(2, 40):
        for study in patient.studies:
            masks = render_with_masks(study, SIZE, view, GRID)[1]
            assert masks.shape == (13, GRID, GRID) and masks.dtype == np.float32
            assert masks.min() >= 0 and masks.max() <= 1
            for region in render(study, SIZE, view)[1].values():
                assert region.dtype == np.float32 and region.min() >= 0 and region.max() <= 1
            shown = {name for row, name in enumerate(FINDINGS) if masks[row].max() > 0}
            assert shown == visible_findings(study, view)


@pytest.mark.parametrize("view", VIEWS)
def test_lesions_are_as_many_as_reports_say(view):
    study = example_study("lung lesion", 3, severity=0.3)
    state = study.findings["lung lesion"]
    for number, draw in ((1, 0.6), (2, 0.8)):
        shown = replace(state, position=(*state.position[:2], draw), zone="mid")
        regions = render(replace(study, findings={"lung lesion": shown}), SIZE, view)[1]
        assert len(_boxes(regions, view)) == number


def test_strokes_lie_where_the_coordinates_say():
    for seed in range(30):
        study = make_world(seed, 1)[0].studies[0]
        canvas = Canvas(study, SIZE, study.anatomy.scoliosis, study.anatomy.turned, purpose=10)
        for x, y in ((0.4, -0.3), (-0.5, 0.5), (0.1, 0.7)):
            spot = canvas.stroke([[(x - 0.02, y), (x + 0.02, y)]], 0.04)
            assert abs((canvas.x * spot).sum() / spot.sum() - x) < 0.015
            assert abs((canvas.y * spot).sum() / spot.sum() - y) < 0.015


def test_training_images_show_what_their_labels_and_masks_say():
    images, labels, masks = training_images(3, 220, 56, 4)
    assert (
        images.shape == (220, 56, 56)
        and labels.shape == (220, 13)
        and masks.shape == (220, 13, 4, 4)
    )
    assert images.dtype == np.uint8 and labels.dtype == masks.dtype == np.float32
    assert np.array_equal(labels > 0, masks.max(axis=(2, 3)) > 0)
    assert labels.mean(axis=0).min() > 0.1


@pytest.fixture(scope="module")
def cases():
    world = make_world(19, 250, 2.4, 0.6)
    studies = [study for patient in world for study in patient.studies]
    return [
        (study, context, report_of(study, context))
        for study in studies
        for context in contexts_of(study)
    ]


def disagreement(status, study, context, name):
    """Why a status contradicts the truth or the context, or None."""
    state = study.findings.get(name)
    if state is None:
        return None if status in (None, "negative") else "stated but absent"
    if state.left_out:
        return None if status is None else "known, slight and stable, but mentioned"
    if state.lateral_only and not availability(context)[0]:
        return None if status is None else "lateral-only, mentioned without the lateral view"
    if state.prior_only and not availability(context)[1]:
        return None if status is None else "mentioned without the previous report that mentions it"
    expected = "uncertain" if state.certainty == "hedged" else "positive"
    return (
        None
        if status == expected
        else f"{expected} in truth, {status or 'unmentioned'} in the report"
    )


def test_statuses_never_disagree_with_the_truth(cases):
    assert {context for _, context, _ in cases} == {"sn", "sw", "mn", "mw"}
    wrong = Counter(
        disagreement(report.statuses.get(name), study, context, name)
        for study, context, report in cases
        for name in FINDINGS
    )
    assert wrong.keys() == {None} and wrong.total() > 10_000


def test_the_rules_read_what_the_reports_state(cases):
    wrong = total = 0
    for _, _, report in cases:
        assert " ".join(text for text, _ in report.sentences) == report.text
        for text in (report.text, clean_report(report.text)):
            anchor = extract_anchor(text)
            for status in ("positive", "negative", "uncertain"):
                wrong += len(set(report.listed(status)) ^ set(getattr(anchor, status)))
            total += len(FINDINGS)
        for text, stated in report.sentences:
            anchor = extract_anchor(text)
            wrong += len(stated ^ {*anchor.positive, *anchor.uncertain})
    assert wrong == 0 and total > 10_000


def test_sides_and_courses_are_those_of_the_truth(cases):
    others = {
        "new": {"worse", "stable", "improved"},
        "unchanged": {"new", "worse", "improved"},
        "worsened": {"new", "stable", "improved"},
        "decreased": {"new", "stable", "worse"},
    }
    sides = courses = 0
    for study, _, report in cases:
        for text, stated in report.sentences:
            if len(stated) != 1:
                continue
            words = set(re.findall(r"[a-z]+", text.lower()))
            state = study.findings[next(iter(stated))]
            if found := words & {"left", "right", "bilateral"}:
                assert found == {state.side}, text
                sides += 1
            for word in words & set(others):
                assert state.course not in others[word], text
                courses += 1
    assert sides > 1500 and courses > 100


def test_remarks_state_and_deny_nothing(cases):
    for study, _, _ in cases:
        for style in ("terse", "plain", "prose"):
            for text in remarks(study, style):
                assert not any(extract_anchor(text).as_dict().values()), text
                assert "fracture" not in study.findings or "intact" not in text


def test_lungs_with_a_finding_are_not_clear(cases):
    outside = {"cardiomegaly", "enlarged mediastinum", "fracture", "support devices"}
    clear = [
        study
        for study, _, report in cases
        if re.search(r"lungs (are )?clear|clear lungs", report.text, re.I)
    ]
    assert len(clear) > 50 and all(study.findings.keys() <= outside for study in clear)


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


def test_sample_texts_is_deterministic_and_exact_in_number():
    reports = sample_texts(3, 301)
    assert len(reports) == 301 and reports == sample_texts(3, 301)
    assert {report.context for report in reports} == {"sn", "sw", "mn", "mw"}


def test_each_draw_decides_one_thing() -> None:
    """A draw that decides two things ties them: every one is used at one place."""
    source = Path(language.__file__).read_text(encoding="utf-8")
    named = re.findall(r'(?:number|pick|frame)\((?:[^()"]|\([^()]*\))*"([a-z_]+)"', source)
    assert len(named) > 20 and len(named) == len(set(named))


@pytest.fixture(scope="module")
def tokenizer():
    return phantom_tokenizer(900)


def test_layout_is_llamas(tokenizer):
    assert tokenizer.get_vocab_size() == 900
    assert [tokenizer.id_to_token(i) for i in range(3)] == ["<unk>", "<s>", "</s>"]
    assert tokenizer.token_to_id("<0x0A>") == 3 + 0x0A
    assert tokenizer.encode("edema .").ids[0] == 1
    assert tokenizer.encode("edema .").tokens[1] == "▁edema"


def test_whole_trajectories_round_trip(tokenizer):
    for report in sample_texts(77, 300):
        cleaned = clean_report(report.text)
        for text in (
            cleaned,
            report.text,
            f"{render_anchor(anchor_of(report))}\n<REPORT>\n{cleaned}\n</REPORT>",
        ):
            ids = tokenizer.encode(text).ids
            assert tokenizer.decode(ids) == text
            assert 0 not in ids


@given(st.text(max_size=40).filter(lambda text: not text.startswith((" ", "▁"))))
def test_any_text_round_trips(text):
    tokenizer = phantom_tokenizer(900)
    if "▁" in text or any(token in text for token in ("<s>", "</s>", "<unk>")):
        return
    assert tokenizer.decode(tokenizer.encode(text).ids) == text
