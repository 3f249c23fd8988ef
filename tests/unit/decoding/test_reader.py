"""The reading of findings: a map that is fitted to a known law, and the commitments that probabilities make."""

from pathlib import Path

import pytest
import torch

from pacer.core.errors import CheckpointError
from pacer.data.findings import FINDINGS
from pacer.decoding import fit_reader, regression
from pacer.decoding.candidates import within
from pacer.decoding.fit_reader import PENALTIES
from pacer.decoding.reader import FindingsReader, Probabilities, read_reader
from pacer.decoding.regression import FOLDS
from tests.support.cases import listed_cases
from tests.support.sentences import anchor_of


@pytest.mark.parametrize(("given", "threshold", "expected"), listed_cases(__file__, "commitments"))
def test_commitment(given: dict[str, dict[str, float]], threshold: float, expected: str) -> None:
    chances = ([given.get(state, {}).get(one, 0.0) for one in FINDINGS] for state in Probabilities._fields)
    assert Probabilities(*chances).commitment(threshold) == anchor_of(expected)


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
        monkeypatch.setattr(regression, "_CHUNK", chunk)
        weight, bias, _ = fit_reader.fit_maps(values, targets, folds)
        maps.append((values.float() @ weight + bias).sigmoid())
    assert (maps[1] - chance).abs().mean() < 0.02
    torch.testing.assert_close(maps[0], maps[1], atol=1e-3, rtol=0)


def test_with_fewer_records_than_numbers_the_maps_are_the_same(monkeypatch) -> None:
    draw = torch.Generator().manual_seed(4)
    values = (torch.randn(60, 90, generator=draw) * 5 + 3).half()
    targets, folds = (values.float() @ torch.randn(90, 39, generator=draw) > 0).float(), torch.arange(60) % FOLDS
    logits = []
    for chunk in (40, 60):  # in one chunk the fit is in the records' coordinates
        monkeypatch.setattr(regression, "_CHUNK", chunk)
        weight, bias, _ = fit_reader.fit_maps(values, targets, folds)
        logits.append(values.float() @ weight + bias)
    torch.testing.assert_close(*logits, atol=5e-3, rtol=0)
    assert logits[0].std() > 0.1


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


@pytest.mark.parametrize(("report", "commitment", "remaining"), listed_cases(__file__, "sentences"))
def test_sentences_against_the_list_are_left_out(report: str, commitment: str, remaining: str) -> None:
    assert within(report, anchor_of(commitment)) == remaining
