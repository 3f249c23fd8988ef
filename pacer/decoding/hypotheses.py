"""The state of a search for each record, and how one step updates it: transformers' ``generate``,
row by row.

The definition is ``GenerationMixin._beam_search`` and, for one beam, ``_sample`` without sampling,
of the pinned transformers, with ``early_stopping=False``. The arithmetic, its order and the shapes
are the same, so ties are broken the same way. Unlike there, rows have different lengths.

Several candidates of a row are separate searches. The first has no noise. The others draw their
beams: a step ranks the best continuations by their scores plus noise (Gumbel's, times a
temperature), so that one beam is a sample at that temperature and several are a search around it.
Only this ranking has noise; a beam's sum and the score of a finished hypothesis have none. The
noise depends only on candidate, position and rank among the continuations, so a record gets the
same candidates in every batch.

Shapes: S rows, n rows of a step, C candidates of a row, K beams of a search, V vocabulary, T
maximum number of generated tokens, M continuations with noise.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from pacer.config import Decode
from pacer.decoding.list_bias import ListBias

#: With noise, this many of the best continuations of a step are considered, or two for each beam if
#: that is more.
_DRAWN = 32
_SEED = 0
#: How much candidates differ: sampling temperature of the noise.
TEMPERATURE = 0.4
#: The definition's "minus infinity" for scores.
_MINUS_INFINITY = -1.0e9


class Hypotheses:
    """Running and finished hypotheses of S rows. The C searches of a row follow each other in the
    first dimension of all tensors, S x C.

    Args:
        bias: is added last to the scores of a step. None: the definition.
        candidates: C.
    """

    def __init__(
        self,
        rows: int,
        decode: Decode,
        eos: int,
        device: torch.device,
        bias: ListBias | None = None,
        candidates: int = 1,
    ):
        beams = decode.num_beams
        most = decode.max_new_tokens
        self.decode = decode
        self.eos = eos
        self.most = most
        self.bias = bias
        self.candidates = candidates
        #: [C, T, M].
        self.noise = candidate_noise(decode, candidates).to(device) if candidates > 1 else None
        searches = rows * self.candidates
        # the definition divides by a Python float
        powers = [0.0] + [float(length) ** decode.length_penalty for length in range(1, most + 1)]
        self.powers = torch.tensor(powers, dtype=torch.float32, device=device)
        #: [S x C, K, T], generated tokens of the running beams, padded with the first token, which
        #: the repetition penalty covers anyway.
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
    def beams_of_row(self) -> int:
        """C x K, the beams of a row."""
        return self.candidates * self.decode.num_beams

    def searches(self, rows: slice) -> slice:
        """Return the searches of these rows."""
        return slice((rows.start or 0) * self.candidates, rows.stop * self.candidates)

    def start(self, rows: slice, forced: Sequence[Sequence[int]]) -> Tensor:
        """Begin these rows with their forced tokens, in all rows or in none; return how many each
        row has [n]. Only the first beam of a search may continue, because the others would
        repeat it."""
        searches = self.searches(rows)
        self.length[searches] = 0
        self.done[searches] = False
        self.scores[searches] = 0.0
        self.scores[searches, 1:] = _MINUS_INFINITY
        self.best_scores[searches] = _MINUS_INFINITY
        for row, tokens in enumerate(forced, rows.start):
            if tokens:
                searches = self.searches(slice(row, row + 1))
                self.tokens[searches] = tokens[0]
                self.tokens[searches, :, : len(tokens)] = torch.tensor(tokens).to(self.tokens)
                self.length[searches] = len(tokens)
        return self.lengths(rows)[:, 0]

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
            by_row = tensor.unflatten(0, (-1, self.candidates))
            by_row[targets] = by_row[sources]

    def lengths(self, rows: slice) -> Tensor:
        """Return the number of generated tokens of each beam of these rows [n, C x K]."""
        length = self.length[self.searches(rows)]
        return length.repeat_interleave(self.decode.num_beams).view(-1, self.beams_of_row)

    def last(self, rows: int) -> Tensor:
        """Return the newest token of each beam of the first ``rows`` rows [rows, C x K]."""
        places = (self.lengths(slice(rows)) - 1).view(rows * self.candidates, -1, 1)
        return self.tokens[: rows * self.candidates].gather(2, places).view(rows, self.beams_of_row)

    def result(self, row: int) -> list[list[int]]:
        """Return the tokens of an ended row's candidates, EOS included, the best score first."""
        searches = range(row * self.candidates, (row + 1) * self.candidates)
        ranked = sorted(searches, key=lambda search: -float(self.best_scores[search, 0]))
        return [
            self.best[search, 0, : int(self.best_length[search, 0])].tolist() for search in ranked
        ]

    def advance(self, rows: slice, logits: Tensor, longest: int) -> tuple[Tensor, Tensor]:
        """Take one step for these rows; return the beam that each beam continues [n, C x K], and
        the rows that ended [n] bool.

        Args:
            logits: [n, C x K, V], or [n, 1, V] at the start, when all beams are equal.
            longest: upper bound on the tokens that a row has so far; at the start, 0 or the number
                of forced tokens.
        """
        greedy = self.decode.num_beams == 1 and self.noise is None
        n = len(logits)
        beams = self.decode.num_beams
        logits = (
            logits.float().expand(-1, self.beams_of_row, -1).reshape(n * self.candidates, beams, -1)
        )
        step = self._greedy if greedy else self._beams
        parents, ended = step(self.searches(rows), logits, longest)
        first = torch.arange(0, self.beams_of_row, beams, device=parents.device)
        parents = parents.view(n, self.candidates, beams) + first[:, None]
        return parents.view(n, self.beams_of_row), ended.view(n, self.candidates).all(1)

    def _greedy(self, searches: slice, logits: Tensor, longest: int) -> tuple[Tensor, Tensor]:
        tokens = self._process(searches, logits, longest).argmax(-1)
        if longest == 0:
            self.tokens[searches] = tokens.unsqueeze(-1)
        self.tokens[searches].scatter_(2, self.length[searches, None, None], tokens.unsqueeze(-1))
        self.length[searches] += 1
        self.best[searches] = self.tokens[searches]
        self.best_length[searches] = self.length[searches, None]
        ended = (tokens[:, 0] == self.eos) | (self.length[searches] == self.most)
        return torch.zeros_like(tokens), ended

    def _beams(self, searches: slice, logits: Tensor, longest: int) -> tuple[Tensor, Tensor]:
        """Take a step with several beams, or with noise.

        Of K beams x V tokens, the best 2K continuations are chosen and ranked, with noise by scores
        plus noise:

        - The best K of those that go on are the running beams.
        - Those that end, of the first K, join the finished hypotheses, of which the best K by
          score / tokens ** penalty are kept.

        A search is done when no running beam can overtake its worst finished hypothesis.
        """
        beams = self.decode.num_beams
        vocabulary = logits.shape[-1]
        scores = self._process(searches, F.log_softmax(logits, dim=-1), longest)
        scores = scores + self.scores[searches].unsqueeze(-1)
        # of the new token; a search that has ended may be full
        position = self.length[searches].clamp(max=self.most - 1)
        top, ranked, continuations = self._best_continuations(scores.flatten(1), position)
        parents = continuations // vocabulary
        new = continuations % vocabulary
        if longest:
            tokens = _pick(self.tokens[searches], parents)
        else:
            tokens = new.unsqueeze(-1).repeat(1, 1, self.most)
        tokens.scatter_(2, position[:, None, None].expand(-1, 2 * beams, 1), new.unsqueeze(-1))
        self.length[searches] += ~self.done[searches]
        ends = (new == self.eos) | (self.length[searches, None] == self.most)

        running = (ranked + ends.float() * _MINUS_INFINITY).topk(beams)[1]
        self.tokens[searches] = _pick(tokens, running)
        self.scores[searches] = _pick(top + ends.float() * _MINUS_INFINITY, running)
        self._finish(searches, tokens, top, ends)
        return _pick(parents, running), self.done[searches]

    def _best_continuations(
        self, scores: Tensor, position: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the best 2K continuations: their scores, what they are ranked by, and their
        indices in ``scores``, each [n, 2K].

        There are twice as many as beams, so that enough can continue if EOS takes the first ranks.

        Args:
            scores: [n, K x V].
            position: [n], of the token that continues each search; selects its noise.
        """
        count = 2 * self.decode.num_beams
        if self.noise is None:
            top, indices = scores.topk(count)
            return top, top, indices
        top, indices = scores.topk(self.noise.shape[2])  # best first: noise belongs to a rank
        candidates = torch.arange(len(top), device=top.device) % len(self.noise)
        ranked, drawn = (top + self.noise[candidates, position]).topk(count)
        return _pick(top, drawn), ranked, _pick(indices, drawn)

    def _finish(self, searches: slice, tokens: Tensor, scores: Tensor, ends: Tensor) -> None:
        """Add the continuations that end, of the first K, to the finished hypotheses, and mark
        searches as done. The running beams must be up to date.

        Args:
            tokens: [n, 2K, T].
            scores, ends: [n, 2K].
        """
        beams = self.decode.num_beams
        length = self.length[searches, None]
        power = self.powers[length]
        excluded = ~ends | self.done[searches, None]
        finished = scores / power + excluded * _MINUS_INFINITY
        finished[:, beams:] += _MINUS_INFINITY  # these may only continue
        merged = torch.cat([self.best_scores[searches], finished], 1)
        order = merged.topk(beams)[1]
        self.best[searches] = _pick(torch.cat([self.best[searches], tokens], 1), order)
        lengths = torch.cat([self.best_length[searches], length.expand(-1, 2 * beams)], 1)
        self.best_length[searches] = _pick(lengths, order)
        self.best_scores[searches] = _pick(merged, order)
        # no running beam can overtake the worst finished one, judged at the current length
        cannot_improve = ~(
            self.scores[searches].amax(1) / power[:, 0] > self.best_scores[searches].amin(1)
        )
        self.done[searches] |= cannot_improve | (self.length[searches] == self.most)

    def _process(self, searches: slice, scores: Tensor, longest: int) -> Tensor:
        """Apply the definition's processors in order: no EOS before the minimum length, then the
        repetition penalty, then the bias. ``scores``: [n, K, V] logits (greedy) or
        log-probabilities (beams); modified."""
        early = self.length[searches] < self.decode.min_new_tokens
        scores[..., self.eos].masked_fill_(early.unsqueeze(1), -torch.inf)
        penalty = self.decode.repetition_penalty
        generated = self.tokens[searches, :, :longest]
        if longest and penalty != 1.0:
            before = scores.gather(2, generated)
            penalised = torch.where(before < 0, before * penalty, before / penalty)
            scores = scores.scatter(2, generated, penalised)
        return scores if self.bias is None else self.bias(scores, generated, self.length[searches])


def candidate_noise(decode: Decode, candidates: int) -> Tensor:
    """Return the noise [C, T, M] of the candidates."""
    generator = torch.Generator().manual_seed(_SEED)
    continuations = max(_DRAWN, 2 * decode.num_beams)
    noise = torch.empty(candidates, decode.max_new_tokens, continuations)
    noise = noise.exponential_(generator=generator).log()
    noise *= -TEMPERATURE  # Gumbel's distribution
    noise[0] = 0.0
    return noise


def _pick(values: Tensor, places: Tensor) -> Tensor:
    """Select entries of dimension 1 at ``places`` [n, m]: [n, N, ...] -> [n, m, ...]."""
    while places.dim() < values.dim():
        places = places.unsqueeze(-1)
    return values.take_along_dim(places, 1)
