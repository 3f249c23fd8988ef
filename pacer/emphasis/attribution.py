"""The contribution of each sentence of a report to CheXbert's observations, by Integrated
Gradients.

Sundararajan, Taly and Yan 2017: average the gradient of an output along the straight line from a
baseline to the input, and multiply it by their difference. The scores of all pieces add up to the
difference of the outputs.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from captum.attr import IntegratedGradients
from scipy.ndimage import gaussian_filter1d
from torch import Tensor

from pacer.backbones.chexbert import CheXbert
from pacer.backbones.observations import OBSERVATIONS, POSITIVE, UNCERTAIN
from pacer.text.cleaning.cleaners import sentence_ends

#: Increased whenever the scores of a text change; scores cached under another number are not used.
VERSION = 1
#: Pieces per text that ``batch_size`` assumes; a pass takes fewer longer texts, because memory
#: grows with the pieces.
_PIECES = 64
#: Number of observations that count: all before "No Finding".
_COUNTED = OBSERVATIONS.index("No Finding")

#: Steps of Integrated Gradients, and standard deviation in pieces of the Gaussian along a report.
#: Of those tried, these agree best with known marks (docs/readings.md, Computed marks).
STEPS, SMOOTHING = 20, 1.0


class Attribution(NamedTuple):
    """A report as CheXbert reads it, in at most 510 pieces."""

    #: The end of each piece in the text.
    piece_ends: list[int]
    #: [observations, pieces], for each positive or uncertain observation.
    scores: np.ndarray


class Attributor:
    """Attributes CheXbert's positive and uncertain observations to the pieces of reports, with
    ``steps`` points on the line from the baseline, and ``batch_size`` texts per pass (fewer if they
    are longer than 64 pieces)."""

    def __init__(self, labeller: CheXbert, batch_size: int, steps: int = STEPS):
        self.labeller = labeller
        self.steps = steps
        self.batch_size = batch_size
        self.network = labeller.network.requires_grad_(False)
        self.embedding = self.network.bert.get_input_embeddings()
        self.method = IntegratedGradients(self.output)

    def output(self, embedded: Tensor, mask: Tensor, observation: Tensor, label: Tensor) -> Tensor:
        """Return the attributed output: score [n] of class ``label`` [n] of ``observation`` [n],
        before the softmax, from word embeddings [n, pieces, width] and their ``mask`` [n,
        pieces]."""
        states = self.network.bert(inputs_embeds=embedded, attention_mask=mask).last_hidden_state
        heads = torch.stack(self.network.scores(states)[:_COUNTED], dim=1)
        return heads[torch.arange(len(embedded), device=embedded.device), observation, label]

    def __call__(self, reports: Sequence[str]) -> list[Attribution]:
        """Read and attribute cleaned reports, in the given order."""
        tokenizer = self.labeller.tokenizer
        device = self.labeller.device
        pieces = tokenizer(
            list(reports),
            truncation=True,
            max_length=self.labeller.max_pieces,
            padding=True,
            return_tensors="pt",
        )
        tokens = pieces["input_ids"].to(device)
        mask = pieces["attention_mask"].to(device)
        with torch.no_grad():
            labels = self.network.classes(tokens, mask)[:, :_COUNTED]
        rows, observations = ((labels == POSITIVE) | (labels == UNCERTAIN)).nonzero(as_tuple=True)
        scores = self._scores(tokens, mask, rows, observations, labels[rows, observations])
        read = []
        for number, encoding in enumerate(pieces.encodings):
            text = slice(1, int(mask[number].sum()) - 1)
            attributions = scores[(rows == number).numpy(force=True), text]
            read.append(Attribution([end for _, end in encoding.offsets[text]], attributions))
        return read

    def _scores(
        self, tokens: Tensor, mask: Tensor, rows: Tensor, observations: Tensor, labels: Tensor
    ) -> np.ndarray:
        """Return scores [rows, pieces] of ``tokens[rows]``; in the baseline every piece of the text
        is ``[MASK]``."""
        text = mask.bool() & (mask.cumsum(dim=1) < mask.sum(dim=1, keepdim=True))
        text[:, 0] = False
        masked = torch.tensor(self.labeller.tokenizer.mask_token_id, device=tokens.device)
        scores = [np.zeros((0, tokens.shape[1]), dtype=np.float32)]
        size = max(1, min(self.batch_size, self.batch_size * _PIECES // tokens.shape[1]))
        for first in range(0, len(rows), size):
            part = slice(first, first + size)
            ids = tokens[rows[part]]
            attributed = self.method.attribute(
                self.embedding(ids).requires_grad_(),
                baselines=self.embedding(torch.where(text[rows[part]], masked, ids)),
                additional_forward_args=(mask[rows[part]], observations[part], labels[part]),
                n_steps=self.steps,
                internal_batch_size=size,
            )
            scores.append(attributed.detach().sum(dim=-1).numpy(force=True))
        return np.concatenate(scores)


def sentence_scores(report: str, read: Attribution, smoothing: float = SMOOTHING) -> list[float]:
    """Return the largest score of each sentence over all observations, 0 if there is no
    observation.

    Scores of an observation are smoothed by a Gaussian along the report (``smoothing``: its
    standard deviation in pieces; 0: none), then divided by their maximum, so that a threshold means
    the same for long and short reports. The sentence that contributes most to an observation has 1.
    """
    ends = sentence_ends(report)
    sentences = [min(bisect_left(ends, end), len(ends) - 1) for end in read.piece_ends]
    largest = np.zeros(len(ends))
    for scores in read.scores.astype(np.float64):
        smooth = gaussian_filter1d(scores, smoothing) if smoothing else scores
        if smooth.max(initial=0.0) > 0:
            np.maximum.at(largest, sentences, smooth / smooth.max())
    return largest.tolist()
