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

#: Candidates draw among so many of the best continuations of a step, or two for each beam if those
#: are more.
_DRAWN = 32
_SEED = 0
#: Batches in a group: the best report of each record of a group is searched first, then the
#: candidates of the records that need them.
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
    """Extract the text after the last ``<REPORT>``, up to ``</REPORT>`` or a line that begins a
    marker: below the minimum length, a search can leave ``</REPORT>`` unfinished and go on.

    Without an opening marker, or with nothing after it, the raw text is used and ``fallback`` is
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


def drop_uncommitted_sentences(report: str, commitment: Anchor) -> str:
    """Leave out the sentences of a report that affirm a finding which the commitment does not
    affirm, or deny a finding that it affirms and the report as a whole denies."""
    affirmed = set(commitment.positive)
    denied = affirmed & set(extract_anchor(report).negative)
    sentences = [report[start:end].strip() for start, end in pairwise([0, *sentence_ends(report)])]

    def is_supported(texts: list[str]) -> bool:
        read = extract_anchor(" ".join(texts))
        return affirmed.issuperset(read.positive) and denied.isdisjoint(read.negative)

    supported = [sentence for sentence in sentences if is_supported([sentence])]
    if not is_supported(supported):
        # without its neighbours, "a small one persists" may mean another finding
        candidates = supported
        supported = []
        for sentence in candidates:
            if is_supported([*supported, sentence]):
                supported.append(sentence)
    return report if len(supported) == len(sentences) else " ".join(supported)


class ForcedPrefix(NamedTuple):
    """The start that all candidates of a record share: the prefix, and tokens that were not
    generated."""

    #: [P, d], embeddings of the prefix and of ``tokens``.
    inputs: Tensor
    tokens: list[int]


def force_prefix(
    prefix: Tensor, tokens: list[int], embeddings: Callable[[Tensor], Tensor]
) -> ForcedPrefix:
    """Return a prefix [P, d] that is continued by tokens."""
    embedded = embeddings(torch.tensor(tokens, device=prefix.device))
    return ForcedPrefix(torch.cat([prefix, embedded.to(prefix.dtype)]), tokens)


class Candidate(NamedTuple):
    """A candidate's ``tokens``, including the forced ones and EOS, and its ``score``."""

    tokens: list[int]
    score: float


class Candidates(Hypotheses):
    """The searches of C candidates for each row, all from the row's :class:`ForcedPrefix`."""

    def __init__(
        self, rows: int, decode: Decode, eos: int, device: torch.device, bias: None = None
    ):
        generator = torch.Generator().manual_seed(_SEED)
        continuations = max(_DRAWN, 2 * decode.num_beams)
        noise = torch.empty(decode.candidates, decode.max_new_tokens, continuations)
        noise = noise.exponential_(generator=generator).log()
        noise *= -decode.temperature  # Gumbel's distribution
        noise[0] = 0.0
        super().__init__(rows, decode, eos, device, bias, noise.to(device))

    def start(self, rows: slice, prefixes: Sequence[ForcedPrefix]) -> Tensor:
        """Begin these rows with their forced tokens; return the numbers of these tokens [n]."""
        super().start(rows, prefixes)
        for row, prefix in enumerate(prefixes, rows.start):
            searches = self.searches(slice(row, row + 1))
            tokens = torch.tensor(prefix.tokens).to(self.tokens)
            self.tokens[searches] = tokens[0]
            self.tokens[searches, :, : len(tokens)] = tokens
            self.length[searches] = len(tokens)
        return self.generated(rows)[:, 0]

    def result(self, row: int) -> list[Candidate]:
        """Return the candidates of an ended row."""
        searches = range(row * self.count, (row + 1) * self.count)
        return [
            Candidate(self.finished(search), float(self.best_scores[search, 0]))
            for search in searches
        ]


class ListedSearch:
    """An engine that writes a report for a given commitment. If the report does not keep to it, the
    engine searches ``decode.candidates`` reports and returns the one with the smallest
    :func:`distance`, then the best score. Texts in which no report begins come last.

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
        single = decode.model_copy(update={"candidates": 1})
        rows = max(1, decode.batch_size // decode.candidates)
        several = decode.model_copy(update={"batch_size": rows})
        self.first = BeamSearch(language, single, eos, hypotheses=Candidates)
        self.candidates = BeamSearch(language, several, eos, hypotheses=Candidates)
        self.text = text
        self.decode = decode
        self.kinds = kinds

    @torch.no_grad()
    def __call__(self, prefixes: Iterable[Any]) -> Iterator[tuple[int, list[int]]]:
        """Yield the index of each :class:`ForcedPrefix` in ``prefixes`` and its tokens, including
        the forced ones."""
        numbered = ((prefix, (place, prefix)) for place, prefix in enumerate(prefixes))
        while group := list(islice(numbered, _GROUPED * self.decode.batch_size)):
            yield from self._searched(group)

    def _searched(
        self, group: list[tuple[Any, tuple[int, Any]]]
    ) -> Iterator[tuple[int, list[int]]]:
        unsupported = []
        for (place, prefix), (first,) in search_with(self.first, group):
            if self.decode.candidates == 1 or self._is_supported(first.tokens):
                yield place, first.tokens
            else:
                unsupported.append((prefix, place))
        for place, candidates in search_with(self.candidates, unsupported):
            yield place, self._best([], candidates)

    def _is_supported(self, tokens: list[int]) -> bool:
        """Return whether a report keeps to its commitment in full: no other can be closer."""
        return not any(self._distance(tokens))

    def _best(self, preferred: list[list[int]], candidates: list[Candidate]) -> list[int]:
        """Return the tokens that keep to their commitment best; between equals ``preferred`` ones,
        then those with the best score."""
        ranked = sorted(candidates, key=lambda candidate: -candidate.score)
        return min(preferred + [candidate.tokens for candidate in ranked], key=self._distance)

    def _distance(self, tokens: list[int]) -> tuple[int, ...]:
        extraction = extract_report(self.text(tokens), kinds=self.kinds)
        anchor = extraction.anchor or Anchor()
        return (int(extraction.fallback), *distance(anchor, extraction.report, self.kinds))


class AgreeingSearch(ListedSearch):
    """An engine that searches the best hypothesis. If its report does not keep to its commitment,
    the engine also searches candidates for that commitment, and returns the report that keeps to it
    best; between equals the best hypothesis. A hypothesis without a commitment is returned as it
    is."""

    def __init__(
        self, language: Any, decode: Decode, eos: int, *text: Any, bias: ListBias | None = None
    ):
        super().__init__(language, decode, eos, *text)
        self.best = BeamSearch(language, decode, eos, bias)
        self.embeddings = language.get_input_embeddings()

    def _searched(
        self, group: list[tuple[Any, tuple[int, Any]]]
    ) -> Iterator[tuple[int, list[int]]]:
        """As in :class:`ListedSearch`, for prefixes [P, d]."""
        unsupported = []
        for (place, prefix), tokens in search_with(self.best, group):
            commitment = self._commitment(tokens)
            if not commitment or self._is_supported(tokens):
                yield place, tokens
            else:
                forced = force_prefix(prefix, commitment, self.embeddings)
                unsupported.append((forced, (place, tokens)))
        for (place, best), candidates in search_with(self.candidates, unsupported):
            yield place, self._best([best], candidates)

    def _commitment(self, tokens: list[int]) -> list[int]:
        """Return the tokens up to the end of the commitment; none if it does not end or nothing
        follows it."""

        def is_complete(count: int) -> bool:
            return CLOSE_ANCHOR in self.text(tokens[:count])

        length = bisect_left(range(len(tokens) + 1), True, key=is_complete)
        return tokens[:length] if length < min(len(tokens), self.decode.max_new_tokens) else []


def agreement(anchor: Anchor | None, report: str) -> float | None:
    """Return the share of a commitment's findings to which the report gives the same polarity; None
    if it has none."""
    if anchor is None:
        return None
    stated = [finding for finding in FINDINGS if anchor.polarity(finding)]
    if not stated:
        return None
    read = extract_anchor(report)
    agreeing = sum(read.polarity(finding) == anchor.polarity(finding) for finding in stated)
    return agreeing / len(stated)


def distance(anchor: Anchor, report: str, kinds: Collection[str] = ()) -> tuple[int, int, int]:
    """Return the contradictions, the findings that only one of commitment and report affirms, and
    the differences in attributes of those that both affirm.

    A contradiction is a finding that one of the two affirms and the other denies, or to which the
    report gives a side that the commitment does not give. A difference is a kind of attribute that
    only one of the two has, or that differs.

    Args:
        kinds: of attributes in the model's commitments; others do not count.
    """
    read = extract_anchor(report)
    committed = set(anchor.positive)
    affirmed = set(read.positive)
    contradictions = len(anchor.contradicted(read))
    differences = 0
    attributes = read_attributes(report) if kinds else {}
    for finding in committed & affirmed & attributes.keys():
        listed = anchor.attributes.get(finding, Attributes())
        written = attributes[finding].only(kinds)
        if not written.side <= listed.side:
            contradictions += 1
        differences += sum(
            in_list != in_report for in_list, in_report in zip(listed, written, strict=True)
        )
    return contradictions, len(committed ^ affirmed), differences
