"""How much each sentence of a report contributes to what CheXbert finds in it, by Integrated Gradients.

Sundararajan, Taly and Yan 2017: the gradient of an output along the straight line from a baseline to the input,
averaged, times their difference. The scores of all pieces add up to the difference of the outputs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from captum.attr import IntegratedGradients
from scipy.ndimage import gaussian_filter1d
from torch import Tensor

from pacer.data.emphasis import sentence_ends
from pacer.metrics.chexbert.labeller import CheXbert
from pacer.metrics.chexbert.observations import OBSERVATIONS, POSITIVE, UNCERTAIN

#: Goes up when the scores of a text change: those that were kept under another number are not used.
VERSION = 1
#: Pieces of a text that ``batch_size`` counts on; of longer ones a pass takes fewer, for memory grows with its pieces.
_PIECES = 64
#: Observations that count; "No Finding" is none.
_COUNTED = OBSERVATIONS.index("No Finding")


class Read(NamedTuple):
    """A report as CheXbert reads it, at most 510 pieces: where each ends in the text, and their scores [observations,
    pieces] for each observation that is positive or uncertain."""

    piece_ends: list[int]
    scores: np.ndarray


class Attributor:
    """Attributes CheXbert's positive and uncertain observations to the pieces of reports.

    Args:
        steps: points of the line from the baseline.
        batch_size: texts of one pass, fewer where they are longer than 64 pieces.
    """

    def __init__(self, labeller: CheXbert, steps: int, batch_size: int):
        self.labeller, self.steps, self.batch_size = labeller, steps, batch_size
        self.network = labeller.network.requires_grad_(False)
        self.embedding = self.network.bert.get_input_embeddings()
        self.method = IntegratedGradients(self.chosen)

    def chosen(self, embedded: Tensor, mask: Tensor, observation: Tensor, label: Tensor) -> Tensor:
        """What is attributed: the score [n] of class ``label`` [n] of ``observation`` [n], before the softmax.

        Args:
            embedded: word embeddings [n, pieces, width]. mask: [n, pieces].
        """
        states = self.network.bert(inputs_embeds=embedded, attention_mask=mask).last_hidden_state
        heads = torch.stack(self.network.scores(states)[:_COUNTED], dim=1)
        return heads[torch.arange(len(embedded), device=embedded.device), observation, label]

    def __call__(self, reports: Sequence[str]) -> list[Read]:
        """Read and attribute cleaned reports, in the order given."""
        tokenizer, device = self.labeller.tokenizer, self.labeller.device
        pieces = tokenizer(
            list(reports), truncation=True, max_length=self.labeller.max_pieces, padding=True, return_tensors="pt"
        )
        tokens, mask = pieces["input_ids"].to(device), pieces["attention_mask"].to(device)
        with torch.no_grad():
            labels = self.network.classes(tokens, mask)[:, :_COUNTED]
        rows, observations = ((labels == POSITIVE) | (labels == UNCERTAIN)).nonzero(as_tuple=True)
        scores = self._scores(tokens, mask, rows, observations, labels[rows, observations])
        read = []
        for number, encoding in enumerate(pieces.encodings):
            text = slice(1, int(mask[number].sum()) - 1)
            attributions = scores[(rows == number).numpy(force=True), text]
            read.append(Read([end for _, end in encoding.offsets[text]], attributions))
        return read

    def _scores(self, tokens: Tensor, mask: Tensor, rows: Tensor, observations: Tensor, labels: Tensor) -> np.ndarray:
        """Scores [rows, pieces] of ``tokens[rows]``; in the baseline every piece of the text is ``[MASK]``."""
        text = mask.bool() & (mask.cumsum(dim=1) < mask.sum(dim=1, keepdim=True))
        text[:, 0] = False
        blank = torch.tensor(self.labeller.tokenizer.mask_token_id, device=tokens.device)
        scores = [np.zeros((0, tokens.shape[1]), dtype=np.float32)]
        size = max(1, min(self.batch_size, self.batch_size * _PIECES // tokens.shape[1]))
        for first in range(0, len(rows), size):
            part = slice(first, first + size)
            ids = tokens[rows[part]]
            attributed = self.method.attribute(
                self.embedding(ids).requires_grad_(),
                baselines=self.embedding(torch.where(text[rows[part]], blank, ids)),
                additional_forward_args=(mask[rows[part]], observations[part], labels[part]),
                n_steps=self.steps,
                internal_batch_size=size,
            )
            scores.append(attributed.detach().sum(dim=-1).numpy(force=True))
        return np.concatenate(scores)


def sentence_scores(report: str, read: Read, smoothing: float) -> list[float]:
    """The largest score of each sentence over all observations, 0 where there is none.

    Args:
        read: the report's own. smoothing: standard deviation of the Gaussian along the report, in pieces; 0: none.

    Scores of an observation are smoothed, then divided by their largest, so that a threshold means the same for a long
    report as for a short one: the sentence that says most of an observation has 1.
    """
    ends = sentence_ends(report)
    sentences = [min(bisect_left(ends, end), len(ends) - 1) for end in read.piece_ends]
    best = np.zeros(len(ends))
    for scores in read.scores.astype(np.float64):
        smooth = gaussian_filter1d(scores, smoothing) if smoothing else scores
        if smooth.max(initial=0.0) > 0:
            np.maximum.at(best, sentences, smooth / smooth.max())
    return best.tolist()
