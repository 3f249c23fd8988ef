"""Several reports for one commitment, and the choice of the one that keeps it (``decode.select: agreement``).

The commitment is that of the best hypothesis, or a given one. Every candidate continues it by its own beam search,
with the configured penalties.
The first is without noise; the others rank each step's continuations with their own noise
(:mod:`pacer.decoding.hypotheses`). The noise depends only on candidate and position, so a record gets the same
candidates in every batch.

Shapes: C candidates of a record, K beams of a candidate, V vocabulary, T maximum number of generated tokens.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pacer.commitments.anchor import Anchor
from pacer.commitments.attributes import read_attributes
from pacer.commitments.description import Attributes
from pacer.commitments.rules import extract_anchor
from pacer.config import Decode
from pacer.data.findings import FINDINGS
from pacer.decoding.beam import BeamSearch, search_with
from pacer.decoding.extract import extract_report
from pacer.decoding.hypotheses import Hypotheses
from pacer.decoding.list_bias import ListBias

#: The best continuations of a step among which candidates draw, if two for each beam are not more.
_DRAWN = 32
_SEED = 0
CLOSE_ANCHOR = "</ANCHOR>"


class Opening(NamedTuple):
    """What a record's candidates begin with: ``inputs`` [P, d], embeddings of the prefix and of ``tokens``."""

    inputs: Tensor
    tokens: list[int]


def opened(prefix: Tensor, tokens: list[int], embeddings: Callable[[Tensor], Tensor]) -> Opening:
    """Return the opening of a prefix [P, d] and tokens."""
    embedded = embeddings(torch.tensor(tokens, device=prefix.device))
    return Opening(torch.cat([prefix, embedded.to(prefix.dtype)]), tokens)


class Candidate(NamedTuple):
    """A candidate's ``tokens``, those of the opening and EOS included, and its ``score``."""

    tokens: list[int]
    score: float


class Candidates(Hypotheses):
    """The searches of C candidates for each row, each from the tokens of the row's :class:`Opening`."""

    def __init__(self, rows: int, decode: Decode, eos: int, device: torch.device, bias: None = None):
        draw = torch.Generator().manual_seed(_SEED)
        shape = decode.candidates, decode.max_new_tokens, max(_DRAWN, 2 * decode.num_beams)
        noise = torch.empty(shape).exponential_(generator=draw).log()
        noise *= -decode.temperature  # Gumbel's distribution
        noise[0] = 0.0
        super().__init__(rows, decode, eos, device, bias, noise.to(device))

    def start(self, rows: slice, prefixes: Sequence[Opening]) -> Tensor:
        """Begin these rows with the tokens of their openings; return their numbers [n]."""
        super().start(rows, prefixes)
        for row, opening in enumerate(prefixes, rows.start):
            of_row, tokens = self.searches(slice(row, row + 1)), torch.tensor(opening.tokens).to(self.tokens)
            self.tokens[of_row] = tokens[0]
            self.tokens[of_row, :, : len(tokens)] = tokens
            self.length[of_row] = len(tokens)
        return self.generated(rows)[:, 0]

    def result(self, row: int) -> list[Candidate]:
        """Return the candidates of an ended row."""
        searches = range(row * self.count, (row + 1) * self.count)
        return [Candidate(self.finished(search), float(self.best_scores[search, 0])) for search in searches]


class ListedSearch:
    """An engine that writes ``decode.candidates`` reports for a given commitment and returns the one with the smallest
    :func:`distance`, then the best score. Texts in which no report begins come last.

    Args:
        language, decode, eos: of :class:`BeamSearch`. text: returns the text of tokens. kinds: of attributes in the
            model's commitments.
    """

    def __init__(
        self, language: Any, decode: Decode, eos: int, text: Callable[[Sequence[int]], str], kinds: Sequence[str] = ()
    ):
        several = decode.model_copy(update={"batch_size": max(1, decode.batch_size // decode.candidates)})
        self.candidates = BeamSearch(language, several, eos, hypotheses=Candidates)
        self.text, self.most, self.kinds = text, decode.max_new_tokens, kinds

    @torch.no_grad()
    def __call__(self, prefixes: Iterable[Any]) -> Iterator[tuple[int, list[int]]]:
        """Yield the index of each :class:`Opening` in ``prefixes`` and its tokens, those of the opening included."""
        for place, candidates in self.candidates(prefixes):
            yield place, self._best([], candidates)

    def _best(self, before: list[list[int]], candidates: list[Candidate]) -> list[int]:
        """Return the tokens that keep their commitment best; between equals those ``before`` the candidates."""
        ranked = sorted(candidates, key=lambda candidate: -candidate.score)
        return min([*before, *(candidate.tokens for candidate in ranked)], key=self._distance)

    def _distance(self, tokens: list[int]) -> tuple[int, ...]:
        extraction = extract_report(self.text(tokens), kinds=self.kinds)
        return extraction.fallback, *distance(extraction.anchor or Anchor(), extraction.report, self.kinds)


class AgreeingSearch(ListedSearch):
    """An engine that searches the best hypothesis, then candidates for its commitment, and returns the one of them all
    that keeps it best; between equals the best hypothesis. A hypothesis without a commitment is returned as it is."""

    def __init__(self, language: Any, decode: Decode, eos: int, *text: Any, bias: ListBias | None = None):
        super().__init__(language, decode, eos, *text)
        self.best, self.embeddings = BeamSearch(language, decode, eos, bias), language.get_input_embeddings()

    @torch.no_grad()
    def __call__(self, prefixes: Iterable[Any]) -> Iterator[tuple[int, list[int]]]:
        """Yield the index of each prefix [P, d] and its tokens, as :class:`BeamSearch`."""
        finished: list[tuple[int, list[int]]] = []

        def openings() -> Iterator[tuple[Opening, tuple[int, list[int]]]]:
            numbered = ((prefix, (place, prefix)) for place, prefix in enumerate(prefixes))
            for (place, prefix), tokens in search_with(self.best, numbered):
                if commitment := self._commitment(tokens):
                    yield opened(prefix, commitment, self.embeddings), (place, tokens)
                else:
                    finished.append((place, tokens))

        for (place, best), candidates in search_with(self.candidates, openings()):
            yield place, self._best([best], candidates)
        yield from finished

    def _commitment(self, tokens: list[int]) -> list[int]:
        """Return the tokens up to the end of the commitment; none if it does not end or nothing follows it."""
        length = bisect_left(range(len(tokens) + 1), True, key=lambda count: CLOSE_ANCHOR in self.text(tokens[:count]))
        return tokens[:length] if length < min(len(tokens), self.most) else []


def agreement(anchor: Anchor | None, report: str) -> float | None:
    """Return the share of a commitment's findings to which the report gives the same polarity; None if it has none."""
    stated = [finding for finding in FINDINGS if anchor is not None and anchor.polarity(finding)]
    if anchor is None or not stated:
        return None
    read = extract_anchor(report)
    return sum(read.polarity(finding) == anchor.polarity(finding) for finding in stated) / len(stated)


def distance(anchor: Anchor, report: str, kinds: Collection[str] = ()) -> tuple[int, int, int]:
    """Return the contradictions, the findings that only one of commitment and report affirms, and the differences in
    attributes of those that both affirm.

    A contradiction is a finding that one affirms and the other denies, or to which the report gives a side that the
    commitment does not. A difference is a kind of attribute that only one of them has, or that differs.

    Args:
        kinds: of attributes in the model's commitments; others do not count.
    """
    read = extract_anchor(report)
    affirmed, stated = set(anchor.positive), set(read.positive)
    opposite, different = len(affirmed & set(read.negative) | set(anchor.negative) & stated), 0
    said = read_attributes(report) if kinds else {}
    for finding in affirmed & stated & said.keys():
        listed, written = anchor.attributes.get(finding, Attributes()), said[finding].only(kinds)
        opposite += not written.side <= listed.side
        different += sum(one != other for one, other in zip(listed, written, strict=True))
    return opposite, len(affirmed ^ stated), different
