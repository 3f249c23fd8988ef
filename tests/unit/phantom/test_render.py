"""The radiographs: every finding shows, where its mask says, and nowhere else."""

from dataclasses import replace

import numpy as np
import pytest

from pacer.data.findings import FINDINGS
from pacer.phantom.canvas import Canvas
from pacer.phantom.render import VIEWS, render, render_with_masks, training_images, visible_findings
from pacer.phantom.world import FINDING_PRIORS, make_world
from tests.support.phantom import example_study

GRID, SIZE = 8, 112
#: Shapes of the anatomy itself, which move their surroundings a little.
GLOBAL = {"cardiomegaly", "enlarged mediastinum", "edema"}


def difference(finding, seed, view, lateral_only=False):
    """Absolute change that the finding makes, per cell [8, 8], and its mask."""
    with_it = example_study(finding, seed, lateral_only=lateral_only)
    change = np.abs(render(with_it, SIZE, view)[0].astype(float) - render(example_study(None, seed), SIZE, view)[0])
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
    assert np.array_equal(render(study, SIZE, "frontal")[0], render(example_study(None, 6), SIZE, "frontal")[0])
    assert render_with_masks(study, SIZE, "frontal", GRID)[1].max() == 0
    change, cells, mask = difference(finding, 6, "lateral", lateral_only=True)
    assert np.sort(change, axis=None)[-60:].mean() > 20
    assert cells[mask > 0.02].sum() / cells.sum() > 0.8


@pytest.mark.parametrize("finding", [name for name in FINDINGS if FINDING_PRIORS[name].chronic])
def test_what_the_previous_report_alone_tells_shows_nowhere(finding):
    study = example_study(finding, 6)
    hidden = replace(study, findings={finding: replace(study.findings[finding], prior_only=True)})
    for view in VIEWS:
        assert visible_findings(hidden, view) == frozenset()
        assert np.array_equal(render(hidden, SIZE, view)[0], render(example_study(None, 6), SIZE, view)[0])
        assert render_with_masks(hidden, SIZE, view, GRID)[1].max() == 0


@pytest.mark.parametrize(("side", "half"), [("right", slice(SIZE // 2)), ("left", slice(SIZE // 2, None))])
def test_side_is_visible(side, half):
    seed = next(n for n in range(20) if example_study("pneumothorax", n).findings["pneumothorax"].side == side)
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
            shown = {name for row, name in enumerate(FINDINGS) if masks[row].max() > 0}
            assert shown == visible_findings(study, view)


def test_strokes_lie_where_the_coordinates_say():
    for seed in range(30):
        study = make_world(seed, 1)[0].studies[0]
        canvas = Canvas(study, SIZE, study.anatomy.scoliosis, purpose=10, turned=study.anatomy.turned)
        for x, y in ((0.4, -0.3), (-0.5, 0.5), (0.1, 0.7)):
            spot = canvas.stroke([[(x - 0.02, y), (x + 0.02, y)]], 0.04)
            assert abs((canvas.x * spot).sum() / spot.sum() - x) < 0.015
            assert abs((canvas.y * spot).sum() / spot.sum() - y) < 0.015


def test_training_images_show_what_their_labels_and_masks_say():
    images, labels, masks = training_images(3, 220, 56, 4)
    assert images.shape == (220, 56, 56) and labels.shape == (220, 13) and masks.shape == (220, 13, 4, 4)
    assert images.dtype == np.uint8 and labels.dtype == masks.dtype == np.float32
    assert np.array_equal(labels > 0, masks.max(axis=(2, 3)) > 0)
    assert labels.mean(axis=0).min() > 0.1
