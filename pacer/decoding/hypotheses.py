"""The state of a search for each record, and how one step updates it: transformers' ``generate``,
row by row.

The definition is ``GenerationMixin._beam_search`` and, for one beam, ``_sample`` without sampling,
of the pinned transformers, with ``early_stopping=False``. The arithmetic, its order and the shapes
are the same, so ties are broken the same way. Unlike there, rows have different lengths.

With ``noise`` a step draws its beams: it ranks the best continuations by their scores plus noise
(Gumbel's, times a temperature), so that one beam is a sample at that temperature and several are a
search around it. Sums and the choice among finished hypotheses use only the scores.

Shapes: S rows, n rows of a step, C searches of a row (1 without noise), K beams of a search, V
vocabulary, T maximum number of generated tokens, M continuations with noise.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import PreTrainedTokenizerBase

from pacer.config import Decode

_START = "<ANCHOR> positive:"
#: The definition's "minus infinity" for scores.
_MINUS_INFINITY = -1.0e9


class ListBias:
    """A ``bias`` towards findings in the positive list of a commitment."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, bias: float):
        def ids(text: str) -> list[int]:
            return list(tokenizer(f"{_START}{text}", add_special_tokens=False)["input_ids"])

        def with_mark(mark: str) -> list[int]:
            return [number for token, number in tokenizer.get_vocab().items() if mark in token]

        self.bias = bias
        self.start = ids("")
        self.none = sorted({ids(text)[len(self.start)] for text in (" none", " none;")})
        # a mark may be a token of its own, or the end of a word's token
        self.commas = with_mark(",")
        self.ends = with_mark(";")

    def __call__(self, scores: Tensor, tokens: Tensor, length: Tensor) -> Tensor:
        """Add the bias to the scores [n, K, V] of what follows the first ``length`` [n] of
        ``tokens`` [n, K, T]."""
        size = len(self.start)
        longest = tokens.shape[-1]
        if longest < size:
            return scores
        start = torch.tensor(self.start, device=tokens.device)
        none = torch.tensor(self.none, device=tokens.device)
        ends = torch.tensor(self.ends, device=tokens.device)
        places = torch.arange(longest, device=tokens.device)
        length = length[:, None]
        ending = torch.isin(tokens, ends) | torch.isin(tokens, none) & (places == size)
        ended = (ending & (places >= size) & (places < length.unsqueeze(-1))).any(-1)
        listing = (tokens[..., :size] == start).all(-1) & (length >= size) & ~ended
        first = listing & (length == size)
        scores += self.bias * first.unsqueeze(-1)
        scores[..., none] -= self.bias * first.unsqueeze(-1)
        scores[..., self.commas] += self.bias * listing.unsqueeze(-1)
        return scores


class Hypotheses:
    """Running and finished hypotheses of S rows. The C searches of a row follow each other in the
    first dimension of all tensors, S x C.

    Args:
        noise: [C, T, M] for the tokens of each search of a row. None: one search, the definition.
        bias: is added last to the scores of a step. None: the definition.
    """

    def __init__(
        self,
        rows: int,
        decode: Decode,
        eos: int,
        device: torch.device,
        bias: ListBias | None = None,
        noise: Tensor | None = None,
    ):
        beams = decode.num_beams
        most = decode.max_new_tokens
        self.decode = decode
        self.eos = eos
        self.most = most
        self.bias = bias
        self.noise = noise
        self.count = 1 if noise is None else len(noise)
        searches = rows * self.count
        # the definition divides by a Python float
        powers = [0.0] + [float(length) ** decode.length_penalty for length in range(1, most + 1)]
        self.powers = torch.tensor(powers, dtype=torch.float32, device=device)
        #: [S x C, K, T], generated tokens of the running beams, padded with the first token.
        self.tokens = torch.zeros(searches, beams, most, dtype=torch.long, device=device)
        #: [S x C, K], the sums of their log-probabilities.
        self.scores = torch.zeros(searches, beams, device=device)
        #: [S x C], tokens generated so far.
        self.length = torch.zeros(searches, dtype=torch.long, device=device)
        #: [S x C, K, T], finished hypotheses, best first.
        self.best = torch.zeros_like(self.tokens)
        #: [S x C, K], their scores; "minus infinity" for empty entries.
        self.best_scores = torch.zeros_like(self.scores)
        #: [S x C, K].
        self.best_length = torch.zeros(searches, beams, dtype=torch.long, device=device)
        #: [S x C] bool, ended searches, whose finished hypotheses no longer change.
        self.done = torch.zeros(searches, dtype=torch.bool, device=device)

    @property
    def beams(self) -> int:
        """C x K, the beams of a row."""
        return self.count * self.decode.num_beams

    def searches(self, rows: slice) -> slice:
        """Return the searches of these rows."""
        return slice((rows.start or 0) * self.count, rows.stop * self.count)

    def start(self, rows: slice, prefixes: Sequence[Any]) -> Tensor:
        """Reset these rows; return their numbers of tokens [n]. Only the first beam of a search may
        continue, because the others would repeat it."""
        searches = self.searches(rows)
        self.length[searches] = 0
        self.done[searches] = False
        self.scores[searches] = 0.0
        self.scores[searches, 1:] = _MINUS_INFINITY
        self.best_scores[searches] = _MINUS_INFINITY
        return self.generated(rows)[:, 0]

    def move(self, sources: Tensor, targets: Tensor) -> None:
        """Copy rows ``sources`` over rows ``targets``."""
        for tensor in (
            self.tokens,
            self.scores,
            self.length,
            self.best,
            self.best_scores,
            self.best_length,
            self.done,
        ):
            by_row = tensor.unflatten(0, (-1, self.count))
            by_row[targets] = by_row[sources]

    def generated(self, rows: slice) -> Tensor:
        """Return the number of tokens of each beam of these rows [n, C x K]."""
        lengths = self.length[self.searches(rows)]
        return lengths.repeat_interleave(self.decode.num_beams).view(-1, self.beams)

    def last(self, rows: int) -> Tensor:
        """Return the newest token of each beam of the first ``rows`` rows [rows, C x K]."""
        places = (self.generated(slice(rows)) - 1).view(rows * self.count, -1, 1)
        return self.tokens[: rows * self.count].gather(2, places).view(rows, self.beams)

    def finished(self, search: int) -> list[int]:
        """Return the tokens of an ended search, EOS included."""
        return self.best[search, 0, : int(self.best_length[search, 0])].tolist()

    def result(self, row: int) -> Any:
        """Return the tokens of an ended row, EOS included."""
        return self.finished(row)

    def advance(self, rows: slice, logits: Tensor, longest: int) -> tuple[Tensor, Tensor]:
        """Take one step for these rows; return the beam that each beam continues [n, C x K], and
        the rows that ended [n] bool.

        Args:
            logits: [n, C x K, V], or [n, 1, V] at the start, when all beams are equal.
            longest: upper bound on the tokens that a row has so far; 0 at the start.
        """
        greedy = self.decode.num_beams == 1 and self.noise is None
        n = len(logits)
        beams = self.decode.num_beams
        logits = logits.float().expand(-1, self.beams, -1).reshape(n * self.count, beams, -1)
        step = self._greedy if greedy else self._beams
        parents, ended = step(self.searches(rows), logits, longest)
        first = torch.arange(0, self.beams, beams, device=parents.device)
        parents = parents.view(n, self.count, beams) + first[:, None]
        return parents.view(n, self.beams), ended.view(n, self.count).all(1)

    def _greedy(self, rows: slice, logits: Tensor, longest: int) -> tuple[Tensor, Tensor]:
        tokens = self._process(rows, logits, longest).argmax(-1)
        if longest == 0:
            self.tokens[rows] = tokens.unsqueeze(-1)
        self.tokens[rows].scatter_(2, self.length[rows, None, None], tokens.unsqueeze(-1))
        self.length[rows] += 1
        self.best[rows] = self.tokens[rows]
        self.best_length[rows] = self.length[rows, None]
        ended = (tokens[:, 0] == self.eos) | (self.length[rows] == self.most)
        return torch.zeros_like(tokens), ended

    def _beams(self, rows: slice, logits: Tensor, longest: int) -> tuple[Tensor, Tensor]:
        """Take a step with several beams, or with noise.

        Of K beams x V tokens, the best 2K continuations are chosen, best first:

        - The best K of those that go on are the running beams; with noise, the best by scores and
          noise.
        - Those that end, of the first K, join the finished hypotheses, of which the best K by
          score / tokens ** penalty are kept.

        A search is done when no running beam can overtake its worst finished hypothesis.
        """
        beams = self.decode.num_beams
        vocabulary = logits.shape[-1]
        scores = self._process(rows, F.log_softmax(logits, dim=-1), longest)
        scores = scores + self.scores[rows].unsqueeze(-1)
        place = self.length[rows].clamp(max=self.most - 1)  # a row that has ended may be full
        top, ranked, places = self._best_continuations(scores.flatten(1), place)
        parents = places // vocabulary
        new = places % vocabulary
        if longest:
            tokens = _pick(self.tokens[rows], parents)
        else:
            tokens = new.unsqueeze(-1).repeat(1, 1, self.most)
        tokens.scatter_(2, place[:, None, None].expand(-1, 2 * beams, 1), new.unsqueeze(-1))
        self.length[rows] += ~self.done[rows]
        ends = (new == self.eos) | (self.length[rows, None] == self.most)

        running = (ranked + ends.float() * _MINUS_INFINITY).topk(beams)[1]
        self.tokens[rows] = _pick(tokens, running)
        self.scores[rows] = _pick(top + ends.float() * _MINUS_INFINITY, running)
        self._finish(rows, tokens, top, ends)
        return _pick(parents, running), self.done[rows]

    def _best_continuations(self, scores: Tensor, place: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the scores of the best 2K continuations [n, 2K], what they are ranked by, and
        their places in ``scores`` [n, K x V]; with noise, that of ``place`` [n].

        There are twice as many as beams, so that enough can continue if EOS takes the best places.
        """
        count = 2 * self.decode.num_beams
        if self.noise is None:
            top, places = scores.topk(count)
            return top, top, places
        top, places = scores.topk(self.noise.shape[2])  # best first
        searches = torch.arange(len(top), device=top.device) % len(self.noise)
        ranked, drawn = (top + self.noise[searches, place]).topk(count)
        return _pick(top, drawn), ranked, _pick(places, drawn)

    def _finish(self, rows: slice, tokens: Tensor, scores: Tensor, ends: Tensor) -> None:
        """Add the continuations that end, of the first K, to the finished hypotheses, and mark
        searches as done. ``tokens``: [n, 2K, T]. ``scores``, ``ends``: [n, 2K]."""
        beams = self.decode.num_beams
        length = self.length[rows, None]
        power = self.powers[length]
        excluded = ~ends | self.done[rows, None]
        finished = scores / power + excluded * _MINUS_INFINITY
        finished[:, beams:] += _MINUS_INFINITY  # these may only continue
        merged = torch.cat([self.best_scores[rows], finished], 1)
        order = merged.topk(beams)[1]
        self.best[rows] = _pick(torch.cat([self.best[rows], tokens], 1), order)
        lengths = torch.cat([self.best_length[rows], length.expand(-1, 2 * beams)], 1)
        self.best_length[rows] = _pick(lengths, order)
        self.best_scores[rows] = _pick(merged, order)
        # no running beam can overtake the worst finished one, judged at the current length
        cannot_improve = ~(self.scores[rows].amax(1) / power[:, 0] > self.best_scores[rows].amin(1))
        self.done[rows] |= cannot_improve | (self.length[rows] == self.most)

    def _process(self, rows: slice, scores: Tensor, longest: int) -> Tensor:
        """Apply the definition's processors in order: no EOS before the minimum length, then the
        repetition penalty, then the bias. ``scores``: [n, K, V] logits (greedy) or
        log-probabilities (beams); modified."""
        early = self.length[rows] < self.decode.min_new_tokens
        scores[..., self.eos].masked_fill_(early.unsqueeze(1), -torch.inf)
        penalty = self.decode.repetition_penalty
        generated = self.tokens[rows, :, :longest]
        if longest and penalty != 1.0:
            before = scores.gather(2, generated)
            penalised = torch.where(before < 0, before * penalty, before / penalty)
            scores = scores.scatter(2, generated, penalised)
        return scores if self.bias is None else self.bias(scores, generated, self.length[rows])


def _pick(values: Tensor, places: Tensor) -> Tensor:
    """Select entries of dimension 1 at ``places`` [n, m]: [n, N, ...] -> [n, m, ...]."""
    while places.dim() < values.dim():
        places = places.unsqueeze(-1)
    return values.take_along_dim(places, 1)
