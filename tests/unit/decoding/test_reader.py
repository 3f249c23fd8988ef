"""The reading of findings: a map that is fitted to a known law, and the commitments that probabilities make."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from pacer.commitments.anchor import Anchor
from pacer.core.errors import CheckpointError
from pacer.data.findings import FINDINGS
from pacer.decoding import fit_reader
from pacer.decoding.extract import within
from pacer.decoding.fit_reader import FOLDS, PENALTIES
from pacer.decoding.reader import FindingsReader, Probabilities, read_reader

NONE = [0.0] * 13


def chances(**named: float) -> list[float]:
    return [named.get(finding.replace(" ", "_"), 0.0) for finding in FINDINGS]


COMMITMENTS = [  # present, absent, uncertain, threshold, commitment
    (chances(edema=0.45), NONE, NONE, 0.45, Anchor(("edema",))),
    (chances(edema=0.4499), NONE, NONE, 0.45, Anchor()),
    (chances(edema=0.5), chances(edema=0.9), NONE, 0.45, Anchor(("edema",))),
    (chances(edema=0.1), chances(edema=0.5, pneumonia=0.49), NONE, 0.45, Anchor((), ("edema",))),
    (NONE, chances(edema=0.5), chances(edema=0.6, fracture=0.5), 0.45, Anchor((), (), ("edema", "fracture"))),
    (NONE, chances(edema=0.6), chances(edema=0.6), 0.45, Anchor((), ("edema",))),
    # nine findings: the least probable is left out
    (
        [0.9, 0.9, 0.9, 0.8, 0.9, 0.9, 0.9, 0.9, 0.9, *[0.1] * 4],
        NONE,
        NONE,
        0.5,
        Anchor((*FINDINGS[:3], *FINDINGS[4:9])),
    ),
]


@pytest.mark.parametrize(("present", "absent", "uncertain", "threshold", "expected"), COMMITMENTS)
def test_commitment(present, absent, uncertain, threshold: float, expected: Anchor) -> None:
    assert Probabilities(present, absent, uncertain).commitment(threshold) == expected


def test_the_fit_finds_a_known_law(monkeypatch) -> None:
    """Summaries with other means and scales, and states with logistic laws: the map's probabilities are the law's, in
    one chunk and in several."""
    draw = torch.Generator().manual_seed(1)
    rows, width = 4000, 8
    values = (torch.randn(rows, width, generator=draw) * torch.arange(1, width + 1) + 3).half()
    law = torch.randn(width, 39, generator=draw) / torch.arange(1, width + 1)[:, None]
    chance = ((values.float() - 3) @ law - 0.5).sigmoid()
    targets, folds = torch.bernoulli(chance, generator=draw), torch.arange(rows) % FOLDS
    maps = []
    for chunk in (1500, rows):
        monkeypatch.setattr(fit_reader, "_CHUNK", chunk)
        weight, bias, _ = fit_reader.fit_maps(values, targets, folds)
        maps.append((values.float() @ weight + bias).sigmoid())
    assert (maps[1] - chance).abs().mean() < 0.02
    torch.testing.assert_close(maps[0], maps[1], atol=1e-3, rtol=0)


def test_penalty_and_calibration_are_of_held_out_patients() -> None:
    """Targets that only a patient's own records tell: a map that saw them is sure of them, one that did not knows
    nothing, so the strongest penalty wins and the probabilities are the prevalence."""
    draw = torch.Generator().manual_seed(3)
    patients, width = 90, 60
    values = torch.randn(patients, width, generator=draw).repeat_interleave(4, 0).half()
    targets = torch.bernoulli(torch.full((patients, 39), 0.3), generator=draw).repeat_interleave(4, 0)
    weight, bias, states = fit_reader.fit_maps(values, targets, torch.arange(patients).repeat_interleave(4) % FOLDS)
    assert {state["penalty"] for state in states.values()} == {max(PENALTIES)}
    chance = (values.float() @ weight + bias).sigmoid()
    assert (chance - 0.3).abs().mean() < 0.1


def test_a_record_is_read_by_itself() -> None:
    """Mean and maximum of fused tokens in any type give the probabilities of the map, four decimals, by state."""
    draw = torch.Generator().manual_seed(2)
    fused = torch.randn(4, 6, generator=draw)
    reader = FindingsReader(torch.randn(12, 39, generator=draw), torch.randn(39, generator=draw))
    pooled = torch.cat([fused.sum(0) / 4, fused.max(0).values])
    expected = (pooled @ reader.weight + reader.bias).sigmoid().view(3, 13)
    torch.testing.assert_close(torch.tensor(reader(fused)), expected, atol=6e-5, rtol=0)
    assert all(round(chance, 4) == chance for state in reader(fused) for chance in state)


def test_a_missing_reading_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no reader\.safetensors; run `dvc repro findings`"):
        read_reader(tmp_path, tmp_path)


SENTENCES = [  # report, commitment, what is left
    ("there is edema . no pneumothorax .", Anchor(("edema",)), "there is edema . no pneumothorax ."),
    ("there is edema . no pneumothorax .", Anchor(("pneumonia",)), "no pneumothorax ."),
    ("there is edema . there is edema and pneumonia .", Anchor(("edema",)), "there is edema ."),
    ("possible edema . the heart is normal", Anchor((), (), ("edema",)), "possible edema . the heart is normal"),
    ("there is edema .", Anchor(), ""),
]


@pytest.mark.parametrize(("report", "anchor", "left"), SENTENCES)
def test_sentences_that_affirm_more_than_the_list_are_left_out(report: str, anchor: Anchor, left: str) -> None:
    assert within(report, anchor) == left
