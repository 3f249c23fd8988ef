"""Attribution against what is known: a linear model, the completeness of the scores, and a sum along the line."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from pacer.backbones.chexbert import CheXbert
from pacer.backbones.observations import NEGATIVE, POSITIVE, UNCERTAIN
from pacer.emphasis.attribution import Attribution, Attributor, sentence_scores

REPORTS = [
    "the heart is normal . small left effusion .",
    "no pneumothorax .",
    "possible edema . lungs are clear . no effusion .",
    "right edema . the heart is normal . possible right pneumothorax . small effusion .",
]


@pytest.fixture
def labeller(chexbert_directory: Callable[..., Path]) -> CheXbert:
    """The labeller with random weights."""
    return CheXbert(chexbert_directory())


class Linear(nn.Module):
    """A BERT whose state is the sum of its word embeddings."""

    def __init__(self, embedding: nn.Embedding):
        super().__init__()
        self.embedding = embedding

    def get_input_embeddings(self) -> nn.Embedding:
        return self.embedding

    def forward(self, attention_mask, input_ids=None, inputs_embeds=None):
        embedded = self.embedding(input_ids) if inputs_embeds is None else inputs_embeds
        return SimpleNamespace(last_hidden_state=(embedded * attention_mask[..., None]).sum(1, keepdim=True))


def observed(labeller: CheXbert, reports: list[str]) -> list[tuple[int, int, int]]:
    """Report, observation and class of all that is positive or uncertain, "No Finding" left out."""
    labels = labeller(reports)[:, :13]
    return [
        (row, column, int(labels[row, column]))
        for row, column in ((labels == POSITIVE) | (labels == UNCERTAIN)).nonzero().tolist()
    ]


@pytest.mark.parametrize(("steps", "batch"), [(1, 1), (3, 7), (20, 64)])
def test_pieces_of_a_linear_model_have_their_own_weights(labeller: CheXbert, steps: int, batch: int) -> None:
    embedding = labeller.network.bert.get_input_embeddings()
    labeller.network.bert = Linear(embedding)
    found = Attributor(labeller, steps, batch)(REPORTS)
    expected = observed(labeller, REPORTS)
    assert len(expected) > len(REPORTS) and sum(len(read.scores) for read in found) == len(expected)
    rows = [(report, scores) for report, read in enumerate(found) for scores in read.scores]
    for (report, scores), (row, observation, label) in zip(rows, expected, strict=True):
        assert report == row
        ids = torch.tensor(labeller.tokenizer(REPORTS[row], add_special_tokens=False)["input_ids"])
        moved = embedding(ids) - embedding(torch.tensor(labeller.tokenizer.mask_token_id))
        weight = labeller.network.linear_heads[observation].weight[label]
        np.testing.assert_allclose(scores, (moved @ weight).detach().numpy(), rtol=1e-4, atol=1e-5)


def test_scores_add_up_to_what_the_text_changes(labeller: CheXbert) -> None:
    network, reports = labeller.network, REPORTS[:2]
    rows = [scores for read in Attributor(labeller, 64, 64)(reports) for scores in read.scores]
    for scores, (row, observation, label) in zip(rows, observed(labeller, reports), strict=True):
        ids = torch.tensor(labeller.tokenizer([reports[row]])["input_ids"])
        blank = torch.full_like(ids, labeller.tokenizer.mask_token_id)
        blank[:, [0, -1]] = ids[:, [0, -1]]
        with torch.no_grad():
            states = network.bert(input_ids=torch.cat([blank, ids])).last_hidden_state[:, 0]
            start, end = network.linear_heads[observation](states)[:, label].tolist()
        assert scores.sum() == pytest.approx(end - start, rel=1e-3, abs=1e-3)


def test_pieces_are_places_in_the_text_and_what_is_not_read_has_none(labeller: CheXbert) -> None:
    report = "small   left effusion ."
    assert Attributor(labeller, 1, 8)([report])[0].piece_ends == [5, 12, 21, 23]
    long = "small effusion . " * 200
    read = Attributor(labeller, 1, 8)([long.strip()])[0]
    assert len(read.piece_ends) == 510 and read.scores.shape[1] == 510


def test_nothing_positive_or_uncertain_has_no_scores(labeller: CheXbert) -> None:
    for head in labeller.network.linear_heads:
        nn.init.zeros_(head.weight)
        nn.init.zeros_(head.bias)
        head.bias.data[1 if head.out_features == 2 else NEGATIVE] = 1.0  # "No Finding" is positive: it does not count
    read = Attributor(labeller, 2, 8)(REPORTS)
    assert [found.scores.shape for found in read] == [(0, len(found.piece_ends)) for found in read]
    assert sentence_scores(REPORTS[0], read[0], 1.0) == [0.0, 0.0]


def test_sentence_scores_by_hand() -> None:
    report = "a b . c ."  # pieces end at 1, 3, 5, 7, 9
    scores = np.array([[0.0, 2.0, 1.0, -4.0, 0.5], [-1.0, -2.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 3.0, 1.0]])
    read = Attribution([1, 3, 5, 7, 9], scores)
    assert sentence_scores(report, Attribution(read.piece_ends, scores[:1]), 0.0) == [1.0, 0.25]
    assert sentence_scores(report, Attribution(read.piece_ends, scores[1:2]), 0.0) == [0.0, 0.0]
    assert sentence_scores(report, read, 0.0) == [1.0, 1.0]
    assert sentence_scores(f"{report} not read .", read, 0.0) == [1.0, 1.0, 0.0]


def test_smoothing_is_a_gaussian_within_the_report() -> None:
    """Pieces beyond either end are those within, mirrored."""
    report, ends = " ".join(["a ."] * 21), [4 * n + 1 for n in range(21)]
    bell = sentence_scores(report, Attribution(ends, np.eye(21)[[10]]), 1.5)
    np.testing.assert_allclose(bell, np.exp(-0.5 * ((np.arange(21) - 10) / 1.5) ** 2), atol=1e-3)
    edge = sentence_scores(report, Attribution(ends, np.eye(21)[[0]]), 1.5)
    np.testing.assert_allclose(edge[1], (bell[11] + bell[12]) / (bell[10] + bell[11]), rtol=1e-3)
    assert sentence_scores(report, Attribution(ends, np.full((1, 21), 0.3)), 1.5) == pytest.approx([1.0] * 21)
