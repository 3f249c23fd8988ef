"""The commitment and the report in a generated text, and several reports for one commitment.

Of the reports the one that keeps the commitment is chosen (``decode.select: agreement``). The
commitment is that of the best hypothesis, or a given one. Every candidate continues it by its own
beam search, with the configured penalties. The first is without noise; the others rank each step's
continuations with their own noise (:mod:`pacer.decoding.hypotheses`). The noise depends only on
candidate and position, so a record gets the same candidates in every batch.

Shapes: C candidates of a record, K beams of a candidate, V vocabulary, T maximum number of
generated tokens.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pacer.commitments.anchor import (
    CLOSE_REPORT,
    OPEN_REPORT,
    Anchor,
    Attributes,
    contains_anchor,
    parse_anchor,
)
from pacer.commitments.attributes import read_attributes
from pacer.commitments.rules import extract_anchor
from pacer.config import Decode
from pacer.data.cleaning import sentence_ends
from pacer.data.findings import FINDINGS
from pacer.decoding.beam import BeamSearch, search_with
from pacer.decoding.hypotheses import Hypotheses, ListBias

#: The best continuations of a step among which candidates draw, if two for each beam are not more.
_DRAWN = 32
_SEED = 0
#: Records of a group, in batches: first the best report of each, then the candidates of those that
#: need them.
_GROUPED = 2
CLOSE_ANCHOR = "</ANCHOR>"


_END = re.compile(rf"{CLOSE_REPORT}|\n\s*<")


class Extraction(NamedTuple):
    """The ``report`` to score, the parsed ``anchor`` (None: none was generated), and whether the
    raw text is used as the report (``fallback``)."""

    report: str
    anchor: Anchor | None
    fallback: bool


def extract_report(generated: str, commit: bool = True, kinds: Collection[str] = ()) -> Extraction:
    """Extract the text after the last ``<REPORT>``, up to ``</REPORT>`` or to a line that begins a
    marker: a search that may not end yet can leave ``</REPORT>`` unfinished and go on.

    Without an opening marker, or with nothing after it, the raw text is kept and ``fallback`` is
    true. A model without ``commit`` writes only the report. ``kinds``: as in :func:`parse_anchor`.
    """
    if not commit:
        return Extraction(generated.strip(), None, False)
    anchor = parse_anchor(generated, kinds) if contains_anchor(generated) else None
    _, marker, rest = generated.rpartition(OPEN_REPORT)
    report = _END.split(rest.strip(), maxsplit=1)[0].strip()
    if not marker or not report:
        return Extraction(generated.strip(), anchor, True)
    return Extraction(report, anchor, False)


def within(report: str, commitment: Anchor) -> str:
    """Leave out the sentences of a report that affirm a finding which the commitment does not
    affirm, or deny one that it affirms and the report as a whole denies."""
    denied = {*extract_anchor(report).negative} & {*commitment.positive}
    sentences = [report[start:end].strip() for start, end in pairwise([0, *sentence_ends(report)])]

    def supported(*texts: str) -> bool:
        read = extract_anchor(" ".join(texts))
        return set(read.positive) <= set(commitment.positive) and not denied & {*read.negative}

    kept = [one for one in sentences if supported(one)]
    if not supported(*kept):  # without its neighbours "a small one persists" may be another finding
        left, kept = kept, []
        for one in left:
            kept += [one] if supported(*kept, one) else []
    return report if len(kept) == len(sentences) else " ".join(kept)


class Opening(NamedTuple):
    """What a record's candidates begin with: ``inputs`` [P, d], embeddings of the prefix and of
    ``tokens``."""

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
    """The searches of C candidates for each row, each from the tokens of the row's
    :class:`Opening`."""

    def __init__(
        self, rows: int, decode: Decode, eos: int, device: torch.device, bias: None = None
    ):
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
            of_row = self.searches(slice(row, row + 1))
            tokens = torch.tensor(opening.tokens).to(self.tokens)
            self.tokens[of_row] = tokens[0]
            self.tokens[of_row, :, : len(tokens)] = tokens
            self.length[of_row] = len(tokens)
        return self.generated(rows)[:, 0]

    def result(self, row: int) -> list[Candidate]:
        """Return the candidates of an ended row."""
        searches = range(row * self.count, (row + 1) * self.count)
        return [
            Candidate(self.finished(search), float(self.best_scores[search, 0]))
            for search in searches
        ]


class ListedSearch:
    """An engine that writes a report for a given commitment and, if it does not keep to that,
    returns the one of ``decode.candidates`` reports with the smallest :func:`distance`, then the
    best score. Texts in which no report begins come last.

    Args:
        language, decode, eos: of :class:`BeamSearch`. text: returns the text of tokens. kinds: of
            attributes in the model's commitments.
    """

    def __init__(
        self,
        language: Any,
        decode: Decode,
        eos: int,
        text: Callable[[Sequence[int]], str],
        kinds: Sequence[str] = (),
    ):
        several = decode.model_copy(
            update={"batch_size": max(1, decode.batch_size // decode.candidates)}
        )
        one = decode.model_copy(update={"candidates": 1})
        self.first = BeamSearch(language, one, eos, hypotheses=Candidates)
        self.candidates = BeamSearch(language, several, eos, hypotheses=Candidates)
        self.text = text
        self.decode = decode
        self.kinds = kinds

    @torch.no_grad()
    def __call__(self, prefixes: Iterable[Any]) -> Iterator[tuple[int, list[int]]]:
        """Yield the index of each :class:`Opening` in ``prefixes`` and its tokens, those of the
        opening included."""
        numbered = ((prefix, (place, prefix)) for place, prefix in enumerate(prefixes))
        while group := list(islice(numbered, _GROUPED * self.decode.batch_size)):
            yield from self._searched(group)

    def _searched(
        self, group: list[tuple[Any, tuple[int, Any]]]
    ) -> Iterator[tuple[int, list[int]]]:
        others = []
        for (place, opening), (first,) in search_with(self.first, group):
            if self.decode.candidates == 1 or self._keeps(first.tokens):
                yield place, first.tokens
            else:
                others.append((opening, place))
        for place, candidates in search_with(self.candidates, others):
            yield place, self._best([], candidates)

    def _keeps(self, tokens: list[int]) -> bool:
        """Return whether a report keeps its commitment in full, so that no other can be closer."""
        return not any(self._distance(tokens))

    def _best(self, before: list[list[int]], candidates: list[Candidate]) -> list[int]:
        """Return the tokens that keep their commitment best; between equals those ``before`` the
        candidates."""
        ranked = sorted(candidates, key=lambda candidate: -candidate.score)
        return min([*before, *(candidate.tokens for candidate in ranked)], key=self._distance)

    def _distance(self, tokens: list[int]) -> tuple[int, ...]:
        extraction = extract_report(self.text(tokens), kinds=self.kinds)
        return extraction.fallback, *distance(
            extraction.anchor or Anchor(), extraction.report, self.kinds
        )


class AgreeingSearch(ListedSearch):
    """An engine that searches the best hypothesis, and, if that does not keep its commitment,
    candidates for the commitment; it returns the one of them all that keeps it best, between equals
    the best hypothesis. A hypothesis without a commitment is returned as it is."""

    def __init__(
        self, language: Any, decode: Decode, eos: int, *text: Any, bias: ListBias | None = None
    ):
        super().__init__(language, decode, eos, *text)
        self.best = BeamSearch(language, decode, eos, bias)
        self.embeddings = language.get_input_embeddings()

    def _searched(
        self, group: list[tuple[Any, tuple[int, Any]]]
    ) -> Iterator[tuple[int, list[int]]]:
        """The same for prefixes [P, d]."""
        others = []
        for (place, prefix), tokens in search_with(self.best, group):
            commitment = self._commitment(tokens)
            if not commitment or self._keeps(tokens):
                yield place, tokens
            else:
                others.append((opened(prefix, commitment, self.embeddings), (place, tokens)))
        for (place, best), candidates in search_with(self.candidates, others):
            yield place, self._best([best], candidates)

    def _commitment(self, tokens: list[int]) -> list[int]:
        """Return the tokens up to the end of the commitment; none if it does not end or nothing
        follows it."""
        length = bisect_left(
            range(len(tokens) + 1),
            True,
            key=lambda count: CLOSE_ANCHOR in self.text(tokens[:count]),
        )
        return tokens[:length] if length < min(len(tokens), self.decode.max_new_tokens) else []


def agreement(anchor: Anchor | None, report: str) -> float | None:
    """Return the share of a commitment's findings to which the report gives the same polarity; None
    if it has none."""
    stated = [finding for finding in FINDINGS if anchor is not None and anchor.polarity(finding)]
    if anchor is None or not stated:
        return None
    read = extract_anchor(report)
    return sum(read.polarity(finding) == anchor.polarity(finding) for finding in stated) / len(
        stated
    )


def distance(anchor: Anchor, report: str, kinds: Collection[str] = ()) -> tuple[int, int, int]:
    """Return the contradictions, the findings that only one of commitment and report affirms, and
    the differences in attributes of those that both affirm.

    A contradiction is a finding that one affirms and the other denies, or to which the report gives
    a side that the commitment does not. A difference is a kind of attribute that only one of them
    has, or that differs.

    Args:
        kinds: of attributes in the model's commitments; others do not count.
    """
    read = extract_anchor(report)
    affirmed = set(anchor.positive)
    stated = set(read.positive)
    opposite = len(anchor.contradicted(read))
    different = 0
    said = read_attributes(report) if kinds else {}
    for finding in affirmed & stated & said.keys():
        listed = anchor.attributes.get(finding, Attributes())
        written = said[finding].only(kinds)
        opposite += not written.side <= listed.side
        different += sum(one != other for one, other in zip(listed, written, strict=True))
    return opposite, len(affirmed ^ stated), different
