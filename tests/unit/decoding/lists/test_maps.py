"""The list predictor: maps that are fitted to a known law, and what they state."""

from pathlib import Path

import numpy as np
import pytest
import torch

from pacer.core.anchor import SIDES, Anchor, read_list
from pacer.core.attributes import Attributes
from pacer.core.errors import CheckpointError
from pacer.core.findings import FINDINGS
from pacer.decoding.agreement import drop_uncommitted_sentences
from pacer.decoding.lists import fit, regression
from pacer.decoding.lists.fit import PENALTIES
from pacer.decoding.lists.maps import (
    CLASSES,
    ListPredictor,
    Probabilities,
    SidePredictor,
    cells,
    read_predictor,
)
from pacer.decoding.lists.regression import FOLDS, fit_sides, side_classes
from tests.support.cases import listed_cases
from tests.support.sentences import anchor_of


@pytest.mark.parametrize(("given", "threshold", "expected"), listed_cases(__file__, "commitments"))
def test_commitment(given: dict[str, dict[str, float]], threshold: float, expected: str) -> None:
    chances = (
        [given.get(state, {}).get(one, 0.0) for one in FINDINGS] for state in Probabilities._fields
    )
    assert Probabilities(*chances).commitment(threshold) == anchor_of(expected)


def test_the_fit_finds_a_known_law(monkeypatch) -> None:
    """Summaries with other means and scales, and states with logistic laws: the map's probabilities
    are the law's, in one chunk and in several."""
    draw = torch.Generator().manual_seed(1)
    rows, width = 4000, 8
    values = (torch.randn(rows, width, generator=draw) * torch.arange(1, width + 1) + 3).half()
    law = torch.randn(width, 39, generator=draw) / torch.arange(1, width + 1)[:, None]
    chance = ((values.float() - 3) @ law - 0.5).sigmoid()
    targets, folds = torch.bernoulli(chance, generator=draw), torch.arange(rows) % FOLDS
    maps = []
    for chunk in (1500, rows):
        monkeypatch.setattr(regression, "_CHUNK", chunk)
        weight, bias, _ = fit.fit_maps(values, targets, folds)
        maps.append((values.float() @ weight + bias).sigmoid())
    assert (maps[1] - chance).abs().mean() < 0.02
    torch.testing.assert_close(maps[0], maps[1], atol=1e-3, rtol=0)


def test_with_fewer_records_than_numbers_the_maps_are_the_same(monkeypatch) -> None:
    draw = torch.Generator().manual_seed(4)
    values = (torch.randn(60, 90, generator=draw) * 5 + 3).half()
    targets, folds = (
        (values.float() @ torch.randn(90, 39, generator=draw) > 0).float(),
        torch.arange(60) % FOLDS,
    )
    logits = []
    for chunk in (40, 60):  # in one chunk the fit is in the records' coordinates
        monkeypatch.setattr(regression, "_CHUNK", chunk)
        weight, bias, _ = fit.fit_maps(values, targets, folds)
        logits.append(values.float() @ weight + bias)
    torch.testing.assert_close(*logits, atol=5e-3, rtol=0)
    assert logits[0].std() > 0.1


def test_penalty_and_calibration_are_of_held_out_patients() -> None:
    """Targets that only a patient's own records tell: a map that saw them is sure of them, one that
    did not knows nothing, so the strongest penalty wins and the probabilities are the
    prevalence."""
    draw = torch.Generator().manual_seed(3)
    patients, width = 90, 60
    values = torch.randn(patients, width, generator=draw).repeat_interleave(4, 0).half()
    targets = torch.bernoulli(torch.full((patients, 39), 0.3), generator=draw).repeat_interleave(
        4, 0
    )
    weight, bias, states = fit.fit_maps(
        values, targets, torch.arange(patients).repeat_interleave(4) % FOLDS
    )
    assert {state["penalty"] for state in states.values()} == {max(PENALTIES)}
    chance = (values.float() @ weight + bias).sigmoid()
    assert (chance - 0.3).abs().mean() < 0.1


def test_a_record_is_read_by_itself() -> None:
    """Mean and maximum of fused tokens in any type give the probabilities of the map, four
    decimals, by state."""
    draw = torch.Generator().manual_seed(2)
    fused = torch.randn(4, 6, generator=draw)
    predictor = ListPredictor(torch.randn(12, 39, generator=draw), torch.randn(39, generator=draw))
    pooled = torch.cat([fused.sum(0) / 4, fused.max(0).values])
    expected = (pooled @ predictor.weight + predictor.bias).sigmoid().view(3, 13)
    torch.testing.assert_close(torch.tensor(predictor(fused)), expected, atol=6e-5, rtol=0)
    assert all(round(chance, 4) == chance for state in predictor(fused) for chance in state)


def test_a_missing_reading_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no reader\.safetensors; run `dvc repro lists`"):
        read_predictor(tmp_path, tmp_path)


@pytest.mark.parametrize(("report", "commitment", "remaining"), listed_cases(__file__, "sentences"))
def test_sentences_against_the_list_are_left_out(
    report: str, commitment: str, remaining: str
) -> None:
    assert drop_uncommitted_sentences(report, anchor_of(commitment)) == remaining


ROWS, WIDTH, GRID = 900, 6, 4
EFFUSION, EDEMA = FINDINGS.index("pleural effusion"), FINDINGS.index("edema")


def fitted(
    known: bool, per_patient: int = 1
) -> tuple[dict, float | None, dict, torch.Tensor, np.ndarray]:
    """The maps and the threshold for sides that the summaries tell (or do not), for one finding,
    what is known of them, and the summaries and the chances of the sides."""
    draw = torch.Generator().manual_seed(1)
    values = (
        torch.randn(ROWS // per_patient, WIDTH, generator=draw) * torch.arange(1, WIDTH + 1) + 3
    ).half()
    law = (
        torch.randn(WIDTH, 3, generator=draw)
        * (2.0 if known else 0.0)
        / torch.arange(1, WIDTH + 1)[:, None]
    )
    chance = ((values.float() - 3) @ law).softmax(-1)
    side = torch.multinomial(chance, 1, generator=draw)[:, 0].repeat_interleave(per_patient).numpy()
    values, patients = values.repeat_interleave(per_patient, 0), np.arange(ROWS) // per_patient
    lists = [read_list(f"positive: {CLASSES[one]} pleural effusion", sides=True) for one in side]
    folds = torch.from_numpy(patients % FOLDS)
    result = fit_sides(values, lists, np.arange(ROWS), patients, folds)
    return (*result, values, chance.repeat_interleave(per_patient, 0).numpy())


def test_the_fit_of_sides_finds_a_known_law() -> None:
    maps, threshold, about, values, chance = fitted(known=True)
    weight, bias = maps["pleural effusion"]
    assert np.abs((values.float() @ weight + bias).softmax(-1).numpy() - chance).mean() < 0.04
    known = about["findings"]["pleural effusion"]
    assert known["stated"] and known["above_majority"] > 2 * known["error"] > 0
    # every report names the side: one that the list omits is guessed, and right in a third
    assert threshold == about["threshold"] == pytest.approx(0.37, abs=0.1)


@pytest.mark.parametrize("per_patient", [1, 6])
def test_a_map_no_better_than_the_majority_states_nothing(per_patient: int) -> None:
    """Also where the records of one patient, which are alike, make it look better than it is."""
    maps, threshold, about, *_ = fitted(known=False, per_patient=per_patient)
    assert not maps and threshold is None
    assert about["findings"]["pleural effusion"]["stated"] is False


def test_the_classes_of_commitments() -> None:
    """Of affirmed and uncertain findings. A side that less than half of the reports name is not
    predicted, nor is one that few name."""
    anchors = [
        read_list(text, sides=True)
        for text in (
            "positive: left pleural effusion; negative: pneumothorax",
            "positive: edema; uncertain: bilateral pleural effusion",
            "positive: pleural effusion, right pneumonia",
            *["positive: left pleural effusion, edema"] * 60,
            *["positive: right edema"] * 50,
        )
    ]
    classes, shares = side_classes(anchors)
    assert classes[:4, EFFUSION].tolist() == [0, 2, -1, 0]
    assert classes[[1, 3, -1], EDEMA].tolist() == [-1, -1, 1]
    assert (classes[:, FINDINGS.index("pneumothorax")] == -1).all()
    assert shares == {"pleural effusion": pytest.approx(62 / 63)}
    assert side_classes([Anchor()])[1] == {}


def test_sides_of_a_record_are_predicted_by_itself() -> None:
    """From the cells of the patches; below the threshold a side is not stated. The numbers survive
    a file."""
    draw = torch.Generator().manual_seed(2)
    depths, refined = (
        torch.randn(1, 2, 64, 3, generator=draw),
        torch.randn(1, 64, 3, generator=draw),
    )
    places = cells(depths, refined, GRID)[0]
    states = torch.cat([depths[0], refined]).view(3, 4, 2, 4, 2, 3).mean((2, 4))
    torch.testing.assert_close(places, states.permute(0, 3, 1, 2).flatten())
    weight, bias = torch.randn(144, 3, generator=draw), torch.randn(3, generator=draw)
    maps = {"pleural effusion": (weight, bias), "edema": (weight * 0, torch.zeros(3))}
    predictor = SidePredictor(maps, 0.35, GRID)
    chances = (places @ weight + bias).softmax(-1)
    assert chances.max() > 0.35  # all three of edema are 1/3
    side = SIDES[("left", "right", "bilateral")[int(chances.argmax())]]
    assert predictor(depths, refined) == {"pleural effusion": Attributes(side=side)}
    again = SidePredictor.of_tensors(predictor.tensors())
    assert again is not None and again(depths, refined) == predictor(depths, refined)
    assert again.maps.keys() == maps.keys() and again.threshold == 0.35
    assert SidePredictor.of_tensors({"weight": weight}) is None
