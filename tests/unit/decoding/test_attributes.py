"""The reading of attributes: maps that are fitted to a known law, and what they state."""

import numpy as np
import pytest
import torch

from pacer.commitments.anchor import Anchor, read_list
from pacer.commitments.description import KINDS, Attributes
from pacer.data.findings import FINDINGS
from pacer.decoding.reader import CLASSES, AttributeReader, cells
from pacer.decoding.regression import FOLDS, attribute_classes, fit_attributes

ROWS, WIDTH, GRID = 900, 6, 4
EFFUSION, EDEMA = FINDINGS.index("pleural effusion"), FINDINGS.index("edema")


def fitted(known: bool, per_patient: int = 1) -> tuple[AttributeReader, dict, torch.Tensor, np.ndarray]:
    """The reading of sides that the summaries tell (or do not), for one finding, and the summaries and sides."""
    draw = torch.Generator().manual_seed(1)
    values = (torch.randn(ROWS // per_patient, WIDTH, generator=draw) * torch.arange(1, WIDTH + 1) + 3).half()
    law = torch.randn(WIDTH, 3, generator=draw) * (2.0 if known else 0.0) / torch.arange(1, WIDTH + 1)[:, None]
    chance = ((values.float() - 3) @ law).softmax(-1)
    side = torch.multinomial(chance, 1, generator=draw)[:, 0].repeat_interleave(per_patient).numpy()
    values, patients = values.repeat_interleave(per_patient, 0), np.arange(ROWS) // per_patient
    lists = [read_list(f"positive: {CLASSES['side'][one]} pleural effusion", KINDS) for one in side]
    rows, prior = np.arange(ROWS), np.zeros(ROWS, bool)
    folds = torch.from_numpy(patients % FOLDS)
    maps, thresholds, about = fit_attributes({"side": values}, lists, rows, prior, patients, folds)
    return AttributeReader(maps, thresholds, GRID), about, values, chance.repeat_interleave(per_patient, 0).numpy()


def test_the_fit_finds_a_known_law() -> None:
    reader, about, values, chance = fitted(known=True)
    weight, bias = reader.maps["pleural effusion", "side"]
    assert np.abs((values.float() @ weight + bias).softmax(-1).numpy() - chance).mean() < 0.04
    known = about["side"]["findings"]["pleural effusion"]
    assert known["stated"] and known["above_majority"] > 2 * known["error"] > 0
    # every report names the side: one that the list omits is guessed, and right in a third
    assert reader.thresholds["side"] == about["side"]["threshold"] == pytest.approx(0.37, abs=0.1)


@pytest.mark.parametrize("per_patient", [1, 6])
def test_a_map_no_better_than_the_majority_states_nothing(per_patient: int) -> None:
    """Also where the records of one patient, which are alike, make it look better than it is."""
    reader, about, *_ = fitted(known=False, per_patient=per_patient)
    assert not reader.maps and not reader.thresholds
    assert about["side"]["findings"]["pleural effusion"]["stated"] is False


def test_the_classes_of_commitments() -> None:
    """Of affirmed and uncertain findings; the course of records with a previous report; no class for two values. A kind
    that less than half of the reports name is not read."""
    anchors = [
        read_list("positive: stable mild left pleural effusion; negative: pneumothorax", KINDS),
        read_list("positive: mild moderate edema; uncertain: new bilateral pleural effusion", KINDS),
        *[read_list("positive: left pleural effusion, edema", KINDS)] * 60,
        *[read_list("positive: mild edema", KINDS)] * 50,
    ]
    prior = np.arange(len(anchors)) == 0
    classes = {kind: attribute_classes(anchors, prior, kind) for kind in KINDS}
    assert classes["side"][0][:3, EFFUSION].tolist() == [0, 2, 0] and (classes["side"][0][:, EDEMA] == -1).all()
    assert classes["severity"][0][:2, [EFFUSION, EDEMA]].tolist() == [[0, -1], [-1, -1]]
    assert classes["course"][0][:2, EFFUSION].tolist() == [2, -1]
    shares = [read for _, read in classes.values()]
    assert shares == [{"pleural effusion": pytest.approx(62 / 62)}, {}, {}]
    assert attribute_classes([Anchor()], prior[:1], "side")[1] == {}


def test_a_record_is_read_by_itself() -> None:
    """Side from the cells of the patches, course from the tokens and only with a previous report; below its threshold
    an attribute is not stated. Its numbers survive a file."""
    draw = torch.Generator().manual_seed(2)
    depths, refined = torch.randn(1, 2, 64, 3, generator=draw), torch.randn(1, 64, 3, generator=draw)
    places, fused = cells(depths, refined, GRID)[0], torch.randn(5, 4, generator=draw)
    maps = {
        ("edema", "course"): (torch.randn(8, 4, generator=draw), torch.zeros(4)),
        ("pleural effusion", "side"): (torch.randn(144, 3, generator=draw), torch.randn(3, generator=draw)),
    }
    reader = AttributeReader(maps, {"side": 0.0, "course": 1.01}, GRID)
    states = torch.cat([depths[0], refined]).view(3, 4, 2, 4, 2, 3).mean((2, 4))
    torch.testing.assert_close(places, states.permute(0, 3, 1, 2).flatten())
    expected = (places @ maps["pleural effusion", "side"][0] + maps["pleural effusion", "side"][1]).softmax(-1)
    chances = reader(depths, refined, fused, prior=True)
    assert [*chances.as_dict()["pleural effusion"].values()] == pytest.approx(expected.tolist(), abs=6e-5)
    assert chances.as_dict()["edema"].keys() == {"new", "worse", "stable", "improved"}
    assert "edema" not in reader(depths, refined, fused, prior=False).chances
    side = [*("left", "right", "bilateral")][int(expected.argmax())]
    both = frozenset({"left", "right"} if side == "bilateral" else {side})
    assert chances.stated() == {"pleural effusion": Attributes(side=both), "edema": Attributes()}
    again = AttributeReader.of_tensors(reader.tensors())
    assert again is not None and again(depths, refined, fused, prior=True) == chances
    assert AttributeReader.of_tensors({"weight": fused}) is None
