"""Beam search for reports on prefix embeddings: the same tokens as transformers' ``generate``, with
less work.

- A prefix is computed and stored once for all its beams (:mod:`pacer.decoding.tree`).
- When a record ends, its row is free at once for another record, while the others continue.
- Records may have different lengths: no padding is needed, and no record waits for the longest.
- Generated tokens are embedded in the type of the prefix, so all positions are computed as in
  training.

Selection follows the definition step by step (:mod:`pacer.decoding.hypotheses`); only the rounding
of the language model's sums differs. ``generate`` itself is the slower engine, and the reference.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import GenerationConfig, LogitsProcessorList, RepetitionPenaltyLogitsProcessor

from pacer.config import Decode
from pacer.core.errors import BackboneError
from pacer.decoding.hypotheses import Hypotheses, ListBias
from pacer.decoding.tree import ATTENTION, TokenTree
from pacer.model.pacer import attending, autocast_to_weights

#: New records are admitted once one in this many rows is free: computing prefixes together takes
#: fewer passes.
_REFILL = 8
#: Families of language models whose layers attend to all earlier positions, as
#: :mod:`pacer.decoding.tree` does.
FAMILIES = ("llama", "mistral", "qwen3")


def unknown_attention(config: Any) -> str | None:
    """Return the name of a feature of a language model's attention that this search does not
    support; None if it supports them all."""
    if config.model_type not in FAMILIES:
        return f"the attention of the {config.model_type} family"
    if getattr(config, "sliding_window", None) is not None:
        return f"sliding-window attention ({config.sliding_window} positions)"
    return None


class BeamSearch:
    """A search for the best continuations of many prefixes, ``decode.batch_size`` at a time. Raises
    a BackboneError if this search does not support the attention of the language model.

    Args:
        language: a causal language model of :data:`FAMILIES` in eval mode, LoRA merged or not.
        decode: beams, minimum and maximum tokens, penalties, batch size.
        eos: the token that ends a report.
        bias: on findings of commitments.
        hypotheses: makes the state of the searches: :class:`Hypotheses`, or for forced prefixes
            :class:`pacer.decoding.candidates.Candidates`, whose results are lists of candidates.
    """

    def __init__(
        self,
        language: Any,
        decode: Decode,
        eos: int,
        bias: ListBias | None = None,
        hypotheses: Callable[..., Hypotheses] = Hypotheses,
    ):
        if unknown := unknown_attention(language.config):
            raise BackboneError(
                f"beam search does not support {unknown}; set decode.engine: generate"
            )
        self.language = language
        self.decode = decode
        self.eos = eos
        self.bias = bias
        self.hypotheses = hypotheses

    @torch.no_grad()
    def __call__(self, prefixes: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        """Yield the index of each prefix in ``prefixes`` and its generated tokens (EOS included)
        when it ends. ``prefixes``: embeddings [P, d] on the model's device, of any lengths; read
        when rows are free."""
        waiting = enumerate(prefixes)
        more = True
        search = _Search(self)
        places = self.decode.batch_size
        refill = max(1, places // _REFILL)
        while more or search.records:
            room = places - len(search.records)
            if more and (room >= refill or not search.records):
                new = list(islice(waiting, room))
                more = len(new) == room
                if new:
                    numbers = [number for number, _ in new]
                    yield from search.admit(numbers, [prefix for _, prefix in new])
            if search.records:
                yield from search.step()


def search_with(
    engine: Callable[..., Iterator], pairs: Iterable[tuple[Any, Any]]
) -> Iterator[tuple[Any, Any]]:
    """Search from the prefix of each pair of prefix and label; yield the label and the result."""
    labels: dict[int, Any] = {}

    def prefixes() -> Iterator[Any]:
        for place, (prefix, label) in enumerate(pairs):
            labels[place] = label
            yield prefix

    for place, result in engine(prefixes()):
        yield labels.pop(place), result


@dataclass
class _Record:
    """A running record."""

    #: Its index in the prefixes.
    number: int
    #: Tokens generated so far.
    tokens: int = 0
    #: Nodes of its row of the tree, up to the last node in use.
    nodes: int = 0


class _Search:
    """The running records: row i of the tree and of the hypotheses belongs to ``records[i]``."""

    def __init__(self, engine: BeamSearch):
        config = engine.language.config
        decode = engine.decode
        places = decode.batch_size
        self.language = engine.language
        device = engine.language.device
        heads = config.num_attention_heads // config.num_key_value_heads
        self.hypotheses = engine.hypotheses(places, decode, engine.eos, device, engine.bias)
        self.tree = TokenTree(
            places, self.hypotheses.beams, config.num_hidden_layers, heads, device
        )
        self.prefix = torch.zeros(places, dtype=torch.long, device=device)
        self.type = engine.language.dtype
        self.records: list[_Record] = []

    def admit(self, numbers: Sequence[int], prefixes: Sequence[Any]) -> list[tuple[int, Any]]:
        """Add records and generate their first tokens; return those that ended, in the form of
        :class:`BeamSearch`."""
        rows = slice(len(self.records), len(self.records) + len(numbers))
        forced = self.hypotheses.start(rows, prefixes)
        inputs = [getattr(prefix, "inputs", prefix) for prefix in prefixes]
        lengths = torch.tensor([len(prefix) for prefix in inputs], device=self.prefix.device)
        # padding is on the right, where no position attends to it
        inputs = pad_sequence(inputs, batch_first=True)
        self.type = inputs.dtype
        with self.tree.filling(rows, lengths, inputs.shape[1]), autocast_to_weights(self.language):
            hidden = self._forward(inputs, torch.arange(inputs.shape[1])[None].to(lengths))
            last = hidden.gather(1, (lengths - 1)[:, None, None].expand(-1, 1, hidden.shape[2]))
            logits = self.language.lm_head(last)
        self.prefix[rows] = lengths - forced
        tokens = forced.tolist()
        self.records += map(_Record, numbers, tokens)
        parents, ends = self.hypotheses.advance(rows, logits, max(tokens))
        return self._finish_step(rows, parents, ends)

    def step(self) -> list[tuple[int, Any]]:
        """Generate one more token for every beam; return the records that ended, as
        :meth:`admit`."""
        active = len(self.records)
        longest = max(record.tokens for record in self.records)
        rows = slice(active)
        tokens = self.hypotheses.last(active)
        positions = self.prefix[rows, None] + self.hypotheses.generated(rows) - 1
        embedded = self.language.get_input_embeddings()(tokens).to(self.type)
        with self.tree.stepping(active) as mask, autocast_to_weights(self.language):
            hidden = self._forward(embedded, positions, mask)
            logits = self.language.lm_head(hidden)
        parents, ends = self.hypotheses.advance(rows, logits, longest)
        return self._finish_step(rows, parents, ends)

    def _forward(self, embedded: Tensor, positions: Tensor, mask: Tensor | None = None) -> Tensor:
        with attending(self.language.model, ATTENTION):
            # the cache is passed by position: its name differs among versions of transformers
            return self.language.model(
                None, mask, positions, self.tree, embedded, use_cache=True
            ).last_hidden_state

    def _finish_step(self, rows: slice, parents: Tensor, ends: Tensor) -> list[tuple[int, Any]]:
        """Branch the tree; remove the records that ended, and return them."""
        last_nodes = self.tree.branch(rows, parents)
        # the only time that the host waits for the GPU in a step
        ended, last_nodes = torch.stack([ends.long(), last_nodes]).tolist()
        for record, node in zip(self.records[rows], last_nodes, strict=True):
            record.tokens = record.tokens + 1
            record.nodes = node
        free = [row for row, end in enumerate(ended, rows.start or 0) if end]
        results = [(self.records[row].number, self.hypotheses.result(row)) for row in free]
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


class Generate:
    """An engine with the interface of :class:`pacer.decoding.beam.BeamSearch`; runs ``generate``
    batch by batch."""

    def __init__(self, language: Any, decode: Decode, eos: int, bias: ListBias | None = None):
        self.language = language
        self.decode = decode
        self.eos = eos
        self.bias = bias
        # a checkpoint may have generation settings, which generate would add to those of `decode`
        language.generation_config = GenerationConfig()

    @torch.no_grad()
    def __call__(self, prefixes: Iterable[Tensor]) -> Iterator[tuple[int, list[int]]]:
        """Yield the index of each prefix in ``prefixes`` and its generated tokens, EOS included.
        ``prefixes``: embeddings [P, d] on the model's device, of any lengths; read batch by
        batch."""
        waiting = enumerate(prefixes)
        while batch := list(islice(waiting, self.decode.batch_size)):
            results = self._generate([inputs for _, inputs in batch])
            for (number, _), tokens in zip(batch, results, strict=True):
                if self.eos in tokens:
                    tokens = tokens[: tokens.index(self.eos) + 1]
                yield number, tokens

    def _generate(self, inputs: list[Tensor]) -> list[list[int]]:
        mask = [
            torch.ones(len(prefix), dtype=torch.long, device=prefix.device) for prefix in inputs
        ]
        # generate's own repetition_penalty option skips rows that are padded on the left; the
        # processor does not
        processors = LogitsProcessorList()
        if self.decode.repetition_penalty != 1.0:
            processors.append(RepetitionPenaltyLogitsProcessor(self.decode.repetition_penalty))
        if self.bias is not None:
            processors.append(self._biased)
        embedded = pad_sequence(inputs, batch_first=True, padding_side="left")
        # generated tokens are embedded in the type of the prefix, as in training
        embeddings = self.language.get_input_embeddings()
        hook = embeddings.register_forward_hook(
            lambda _module, _ids, output: output.to(embedded.dtype)
        )
        with autocast_to_weights(self.language), hook:
            return self.language.generate(
                inputs_embeds=embedded,
                attention_mask=pad_sequence(mask, batch_first=True, padding_side="left"),
                logits_processor=processors,
                do_sample=False,
                num_beams=self.decode.num_beams,
                min_new_tokens=self.decode.min_new_tokens,
                max_new_tokens=self.decode.max_new_tokens,
                length_penalty=self.decode.length_penalty,
                eos_token_id=self.eos,
                pad_token_id=self.eos,
            ).tolist()

    def _biased(self, tokens: Tensor, scores: Tensor) -> Tensor:
        assert self.bias is not None
        return self.bias(
            scores[:, None], tokens[:, None], tokens.new_full(tokens.shape[:1], tokens.shape[1])
        )[:, 0]
