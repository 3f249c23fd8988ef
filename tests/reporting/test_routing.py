"""Mean depth weights by finding, against means by hand, and their drawings."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from matplotlib.textpath import TextPath
from PIL import Image

from pacer.core.errors import DataError
from pacer.metrics.chexbert.observations import OBSERVATIONS
from pacer.reporting.images import weight_range
from pacer.reporting.routing import FEWEST, average_routing, depth_names, finding_maps, over_radiograph

EDEMA = OBSERVATIONS.index("Edema")


@pytest.fixture
def routed() -> tuple[dict[str, np.ndarray], pl.DataFrame]:
    """Twelve studies; the first five have edema (one of them uncertain), four have a lateral image."""
    draw, routing, rows = np.random.default_rng(0), {}, []
    for number in range(12):
        labels = [0] * 14
        labels[EDEMA] = (1, 1, 1, 1, 3, 2, 0)[min(number, 6)]
        rows.append({"record_id": f"mw-{number}", "reference_labels": labels})
        for view in ("frontal", "lateral") if number % 3 == 0 else ("frontal",):
            routing[f"mw-{number}/{view}"] = draw.dirichlet(np.ones(3), 16).astype(np.float32)
    return routing, pl.DataFrame(rows)


def test_means_are_those_by_hand(routed):
    routing, cases = routed
    frontal, lateral = average_routing(routing, cases)
    assert (frontal.view, frontal.images, lateral.view, lateral.images) == ("frontal", 12, "lateral", 4)
    every = [routing[f"mw-{number}/frontal"] for number in range(12)]
    assert frontal.mean == pytest.approx(np.mean(every, axis=0))
    [edema] = frontal.findings
    assert (edema.finding, edema.with_it, edema.without) == ("Edema", 5, 7)
    assert edema.difference == pytest.approx(np.mean(every[:5], axis=0) - np.mean(every[5:], axis=0), abs=1e-6)
    assert edema.difference.sum(axis=1) == pytest.approx(np.zeros(16), abs=1e-5)  # weights sum to 1 on either side
    assert lateral.findings == () and lateral.images < FEWEST


def test_images_without_a_scored_record_are_passed_over_and_shapes_must_agree(routed):
    routing, cases = routed
    assert average_routing(routing, cases.head(0)) == []
    with pytest.raises(DataError, match="frontal images have the shapes"):
        average_routing(routing | {"mw-1/frontal": np.ones((4, 3), np.float32) / 3}, cases)


def test_the_drawing_names_every_finding_depth_and_count(routed):
    svg = finding_maps(average_routing(*routed), (4, 8, 12))
    for shown in ("Edema", "block 8", "Frontal", "Lateral", "mean, all images (12)", "Edema (5)", "with minus without"):
        assert shown in svg, shown
    assert svg.count("<image") == 2 + 2  # a picture of all maps of either view, and the bars
    assert svg == finding_maps(average_routing(*routed), (4, 8, 12))


def test_the_longest_name_has_room(routed):
    """Names end at the left edge of their maps, and begin inside the drawing."""
    view = average_routing(*routed)[0]
    view = replace(view, findings=(replace(view.findings[0], finding="Enlarged Cardiomediastinum"),) * 12)
    svg = finding_maps([view, view], (4, 8, 12))
    ends = [float(x) for x in re.findall(r'<text[^>]* x="([\d.]+)"[^>]*>Enlarged', svg)]
    wide = TextPath((0, 0), "Enlarged Cardiomediastinum (5)", size=8).get_extents().width
    assert len(ends) == 24 and min(ends) > wide


def test_without_a_finding_the_means_are_drawn_alone(routed):
    routing, cases = routed
    svg = finding_maps(average_routing(dict(list(routing.items())[:2]), cases), None)
    assert "depth 3" in svg and "with minus without" not in svg


@pytest.mark.slow
def test_a_radiograph_with_its_maps_is_svg_and_png(routed):
    weights = routed[0]["mw-0/frontal"]
    svg, png = over_radiograph(Image.new("L", (90, 60), 128), weights, (4, 8, 12), "frontal")
    assert f"block 12, mean {weights[:, 2].mean():.3f}" in svg and svg.count("<image") >= 4
    image = Image.open(io.BytesIO(png))
    assert image.format == "PNG" and image.width > 3 * image.height
    assert (svg, png) == over_radiograph(Image.new("L", (90, 60), 128), weights, (4, 8, 12), "frontal")


def tiles(grey: Image.Image, weights: np.ndarray) -> list[np.ndarray]:
    """The maps of a drawing, 320 pixels wide and high."""
    png = np.asarray(Image.open(io.BytesIO(over_radiograph(grey, weights, None, "frontal")[1])).convert("RGB"))
    return [png[49:369, left : left + 320].astype(int) for left in (333, 661)]


def test_a_patch_that_prefers_a_depth_is_warm_there_and_cool_elsewhere():
    weights = np.full((4, 2), 0.5, dtype=np.float32)
    weights[0] = (0.9, 0.1)
    first, second = tiles(Image.new("L", (64, 64), 128), weights)
    corner, opposite = (30, 30), (-30, -30)
    assert first[corner][0] > first[corner][2] and second[corner][0] < second[corner][2]
    assert np.ptp(first[opposite]) < 12
    assert weight_range(weights) == pytest.approx(0.4)


def test_maps_cover_the_middle_square():
    wide = Image.new("L", (300, 100), 0)
    wide.paste(255, (100, 0, 200, 100))
    for tile in tiles(wide, np.full((4, 2), 0.5, dtype=np.float32)):
        assert tile[4:-4, 4:-4].min() > 200


def test_patches_must_form_a_square():
    with pytest.raises(DataError, match="5 patches do not form a square"):
        over_radiograph(Image.new("L", (8, 8)), np.full((5, 3), 1 / 3, dtype=np.float32), None, "frontal")


def test_names_of_depths():
    assert depth_names(2, (4, 12)) == ("block 4", "block 12")
    assert depth_names(3, (4, 12)) == ("depth 1", "depth 2", "depth 3")
