"""Beam search for reports on prefix embeddings: the same tokens as transformers' ``generate``, with
less work.

- A prefix is computed and stored once for all its beams (:mod:`pacer.decoding.tree`).
- When a record ends, its row is free at once for another record, while the others continue.
- Records may have different lengths: no padding is needed, and no record waits for the longest.
- Generated tokens are embedded in the type of the prefix, so all positions are computed as in
  training.

Selection follows the definition step by step (:mod:`pacer.decoding.hypotheses`); only the rounding
of the language model's sums differs.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Any, Generic

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from pacer.config import Decode
from pacer.decoding.hypotheses import Hypotheses
from pacer.decoding.list_bias import ListBias
from pacer.decoding.search import Found, Label, Prefix
from pacer.decoding.tree import ATTENTION, TokenTree
from pacer.model.pacer import attending, autocast_to_weights

#: New records are admitted once one in this many rows is free: computing prefixes together takes
#: fewer passes.
_REFILL = 8


class BeamSearch:
    """The :class:`~pacer.decoding.search.Engine` of decoding, for ``decode.batch_size`` texts at a
    time.

    Args:
        language: a causal language model of a family in :data:`pacer.backbones.families.LANGUAGE`,
            in eval mode, LoRA merged or not.
        decode: beams, minimum and maximum tokens, penalties, batch size.
        eos: the token that ends a report.
        bias: on findings of commitments.
    """

    def __init__(self, language: Any, decode: Decode, eos: int, bias: ListBias | None = None):
        self.language = language
        self.decode = decode
        self.eos = eos
        self.bias = bias

    @torch.no_grad()
    def __call__(
        self, prefixes: Iterable[tuple[Label, Prefix]], candidates: int = 1
    ) -> Iterator[Found[Label]]:
        """Search the texts of these prefixes, as an :class:`~pacer.decoding.search.Engine`."""
        waiting = iter(prefixes)
        more = True
        places = max(1, self.decode.batch_size // candidates)
        refill = max(1, places // _REFILL)
        search = _Search[Label](self, places, candidates)
        while more or search.records:
            room = places - len(search.records)
            if more and (room >= refill or not search.records):
                new = list(islice(waiting, room))
                more = len(new) == room
                # an admission is of prefixes that all have forced tokens, or none: the first step
                # fills rows without any with their first token
                for _, alike in groupby(new, key=lambda pair: bool(pair[1].forced)):
                    yield from search.admit(list(alike))
            if search.records:
                yield from search.step()


@dataclass
class _Record(Generic[Label]):
    """A running record."""

    label: Label
    #: Tokens generated so far.
    tokens: int = 0
    #: Nodes of its row of the tree, up to the last node in use.
    nodes: int = 0


class _Search(Generic[Label]):
    """The running records: row i of the tree and of the hypotheses belongs to ``records[i]``."""

    def __init__(self, engine: BeamSearch, places: int, candidates: int):
        config = engine.language.config
        self.language = engine.language
        device = engine.language.device
        heads = config.num_attention_heads // config.num_key_value_heads
        self.hypotheses = Hypotheses(
            places, engine.decode, engine.eos, device, engine.bias, candidates
        )
        self.tree = TokenTree(
            places, self.hypotheses.beams_of_row, config.num_hidden_layers, heads, device
        )
        #: [S], lengths of the prefixes without forced tokens.
        self.prefix = torch.zeros(places, dtype=torch.long, device=device)
        self.type = engine.language.dtype
        self.records: list[_Record[Label]] = []

    def admit(self, prefixes: Sequence[tuple[Label, Prefix]]) -> list[Found[Label]]:
        """Add records and generate their first tokens; return the results of those that ended. All
        have forced tokens, or none has."""
        rows = slice(len(self.records), len(self.records) + len(prefixes))
        forced_counts = self.hypotheses.start(rows, [prefix.forced for _, prefix in prefixes])
        inputs = [self._embed(prefix) for _, prefix in prefixes]
        lengths = torch.tensor([len(prefix) for prefix in inputs], device=self.prefix.device)
        # padding is on the right, where no position attends to it
        inputs = pad_sequence(inputs, batch_first=True)
        self.type = inputs.dtype
        with self.tree.filling(rows, lengths, inputs.shape[1]), autocast_to_weights(self.language):
            positions = torch.arange(inputs.shape[1])[None].to(lengths)
            hidden = self._forward(inputs, positions)
            last = hidden.gather(1, (lengths - 1)[:, None, None].expand(-1, 1, hidden.shape[2]))
            logits = self.language.lm_head(last)
        self.prefix[rows] = lengths - forced_counts
        counts = forced_counts.tolist()
        self.records += [
            _Record(label, count) for (label, _), count in zip(prefixes, counts, strict=True)
        ]
        parents, ends = self.hypotheses.advance(rows, logits, max(counts))
        return self._finish_step(rows, parents, ends)

    def step(self) -> list[Found[Label]]:
        """Generate one more token for every beam; return the records that ended, as
        :meth:`admit`."""
        active = len(self.records)
        longest = max(record.tokens for record in self.records)
        rows = slice(active)
        tokens = self.hypotheses.last(active)
        positions = self.prefix[rows, None] + self.hypotheses.lengths(rows) - 1
        embedded = self.language.get_input_embeddings()(tokens).to(self.type)
        with self.tree.stepping(active) as mask, autocast_to_weights(self.language):
            hidden = self._forward(embedded, positions, mask)
            logits = self.language.lm_head(hidden)
        parents, ends = self.hypotheses.advance(rows, logits, longest)
        return self._finish_step(rows, parents, ends)

    def _embed(self, prefix: Prefix) -> Tensor:
        """Return the embeddings of a prefix and of its forced tokens."""
        if not prefix.forced:
            return prefix.inputs
        tokens = torch.tensor(prefix.forced, device=prefix.inputs.device)
        embedded = self.language.get_input_embeddings()(tokens)
        return torch.cat([prefix.inputs, embedded.to(prefix.inputs.dtype)])

    def _forward(self, embedded: Tensor, positions: Tensor, mask: Tensor | None = None) -> Tensor:
        with attending(self.language.model, ATTENTION):
            # the cache is passed by position: its name differs among versions of transformers
            return self.language.model(
                None, mask, positions, self.tree, embedded, use_cache=True
            ).last_hidden_state

    def _finish_step(self, rows: slice, parents: Tensor, ends: Tensor) -> list[Found[Label]]:
        """Branch the tree; remove the records that ended, and return them."""
        last_nodes = self.tree.branch(rows, parents)
        # the only time that the host waits for the GPU in a step
        ended, last_nodes = torch.stack([ends.long(), last_nodes]).tolist()
        for record, node in zip(self.records[rows], last_nodes, strict=True):
            record.tokens = record.tokens + 1
            record.nodes = node
        free = [row for row, end in enumerate(ended, rows.start or 0) if end]
        results = [(self.records[row].label, self.hypotheses.result(row)) for row in free]
        self._remove(free)
        return results

    def _remove(self, free: list[int]) -> None:
        """Move the last rows into these ones: a b c d without b and c becomes a d."""
        left = len(self.records) - len(free)
        sources = [row for row in range(left, len(self.records)) if row not in free]
        moves = list(zip(sources, [row for row in free if row < left], strict=True))
        if moves:
            moved, into = torch.tensor(moves).T.to(self.prefix.device)
            self.tree.move(moved, into)
            self.hypotheses.move(moved, into)
            self.prefix[into] = self.prefix[moved]
            for source, target in moves:
                self.records[target] = self.records[source]
        del self.records[left:]
        self.tree.used = max((record.nodes for record in self.records), default=0)
