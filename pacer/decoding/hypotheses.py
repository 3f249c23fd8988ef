"""What a search keeps of each record, and how one step changes it: transformers' ``generate``, row by row.

The definition is ``GenerationMixin._beam_search`` and, for one beam, ``_sample`` without sampling, of the pinned
transformers, with ``early_stopping=False``. The arithmetic is the same, in the same order and on the same shapes, so
that equal scores are ordered alike. Unlike there, every row has its own length.

Shapes: S rows, n rows of a step, K beams, V vocabulary, T most generated tokens.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from pacer.config import Decode

#: The definition's "minus infinity" of scores.
_MINUS_INFINITY = -1.0e9


class Step(NamedTuple):
    """What a step decided: the beam that each beam continues [n, K], and the rows that ended [n] bool."""

    parents: Tensor
    ended: Tensor


class Hypotheses:
    """Running and finished hypotheses of S rows.

    Attributes:
        tokens: [S, K, T] generated tokens of the running beams, filled up with the first one. scores: [S, K], their
            sums of log-probabilities. length: [S] tokens generated so far.
        best: [S, K, T], best_scores [S, K], best_length [S, K]: finished hypotheses, best first; a place without one
            has the score "minus infinity".
    """

    def __init__(self, rows: int, decode: Decode, eos: int, device: torch.device):
        beams, most = decode.num_beams, decode.max_new_tokens
        self.decode, self.eos, self.most = decode, eos, most
        # the definition divides by a Python float
        self.powers = torch.tensor(
            [0.0, *(float(t) ** decode.length_penalty for t in range(1, most + 1))], dtype=torch.float32, device=device
        )
        self.tokens = torch.zeros(rows, beams, most, dtype=torch.long, device=device)
        self.scores = torch.zeros(rows, beams, device=device)
        self.length = torch.zeros(rows, dtype=torch.long, device=device)
        self.best = torch.zeros_like(self.tokens)
        self.best_scores = torch.zeros_like(self.scores)
        self.best_length = torch.zeros(rows, beams, dtype=torch.long, device=device)

    def start(self, rows: slice) -> None:
        """Forget what these rows held. Only the first beam may continue: the others would repeat it."""
        self.length[rows] = 0
        self.scores[rows], self.scores[rows, 1:] = 0.0, _MINUS_INFINITY
        self.best_scores[rows] = _MINUS_INFINITY

    def move(self, sources: list[int], targets: list[int]) -> None:
        """Copy rows over others."""
        for tensor in (self.tokens, self.scores, self.length, self.best, self.best_scores, self.best_length):
            tensor[targets] = tensor[sources]

    def last(self, rows: int) -> Tensor:
        """Newest token of each beam of the first rows [rows, K]."""
        places = (self.length[:rows] - 1)[:, None, None].expand(-1, self.tokens.shape[1], 1)
        return self.tokens[:rows].gather(2, places).squeeze(2)

    def result(self, row: int) -> list[int]:
        """Tokens of an ended row, EOS included."""
        return self.best[row, 0, : int(self.best_length[row, 0])].tolist()

    def advance(self, rows: slice, logits: Tensor, longest: int) -> Step:
        """One step of these rows.

        Args:
            logits: [n, K, V], or [n, 1, V] at the start, where the beams do not differ yet. longest: no row has more
                tokens yet; 0 at the start.
        """
        return (self._greedy if self.decode.num_beams == 1 else self._beams)(rows, logits.float(), longest)

    def _greedy(self, rows: slice, logits: Tensor, longest: int) -> Step:
        tokens = self._process(rows, logits, longest).argmax(-1)
        if longest == 0:
            self.tokens[rows] = tokens.unsqueeze(-1)
        self.tokens[rows].scatter_(2, self.length[rows, None, None], tokens.unsqueeze(-1))
        self.length[rows] += 1
        self.best[rows], self.best_length[rows] = self.tokens[rows], self.length[rows, None]
        ended = (tokens[:, 0] == self.eos) | (self.length[rows] == self.most)
        return Step(torch.zeros_like(tokens), ended)

    def _beams(self, rows: slice, logits: Tensor, longest: int) -> Step:
        beams, vocabulary = self.decode.num_beams, logits.shape[-1]
        scores = self._process(rows, F.log_softmax(logits, dim=-1), longest) + self.scores[rows].unsqueeze(-1)
        # twice the beams, so that enough of them go on where EOS takes the best places
        top, flat = scores.flatten(1).topk(2 * beams)
        parents, new = flat // vocabulary, flat % vocabulary
        candidates = _pick(self.tokens[rows], parents) if longest else new.unsqueeze(-1).repeat(1, 1, self.most)
        candidates.scatter_(2, self.length[rows, None, None].expand(-1, 2 * beams, 1), new.unsqueeze(-1))
        self.length[rows] += 1
        length = self.length[rows, None]
        ends = (new == self.eos) | (length == self.most)

        running = top + ends.float() * _MINUS_INFINITY
        chosen = running.topk(beams)[1]
        self.tokens[rows], self.scores[rows] = _pick(candidates, chosen), _pick(running, chosen)

        power = self.powers[length]
        finished = top / power + (~ends) * _MINUS_INFINITY
        finished[:, beams:] += _MINUS_INFINITY  # these are candidates for going on alone
        merged = torch.cat([self.best_scores[rows], finished], 1)
        order = merged.topk(beams)[1]
        self.best[rows] = _pick(torch.cat([self.best[rows], candidates], 1), order)
        self.best_length[rows] = _pick(torch.cat([self.best_length[rows], length.expand(-1, 2 * beams)], 1), order)
        self.best_scores[rows] = _pick(merged, order)

        # no running beam can overtake the worst finished one, judged at the present length
        cannot_improve = ~(self.scores[rows, 0] / power[:, 0] > self.best_scores[rows].amin(1))
        return Step(_pick(parents, chosen), cannot_improve | (self.length[rows] == self.most))

    def _process(self, rows: slice, scores: Tensor, longest: int) -> Tensor:
        """The definition's processors in its order: no EOS before the least length, then the repetition penalty.

        Args:
            scores: [n, K, V] logits (greedy) or log-probabilities (beams); changed.
        """
        early = self.length[rows] < self.decode.min_new_tokens
        scores[..., self.eos].masked_fill_(early.unsqueeze(1), -torch.inf)
        penalty = self.decode.repetition_penalty
        if longest == 0 or penalty == 1.0:
            return scores
        generated = self.tokens[rows, :, :longest]
        before = scores.gather(2, generated)
        return scores.scatter(2, generated, torch.where(before < 0, before * penalty, before / penalty))


def _pick(values: Tensor, places: Tensor) -> Tensor:
    """Entries of dimension 1 at ``places`` [n, m]: [n, N, ...] -> [n, m, ...]."""
    while places.dim() < values.dim():
        places = places.unsqueeze(-1)
    return values.take_along_dim(places, 1)
