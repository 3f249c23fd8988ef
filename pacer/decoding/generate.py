"""Reports from a trained model: the configured engine continues the calibrated prefix of each record.

One search generates commitment and report; the repetition penalty covers all generated tokens.
Configurations with Commit decode commitment-first, those without decode directly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from pacer.config import Decode
from pacer.core.errors import BackboneError, DataError
from pacer.core.prefetch import prefetch
from pacer.decoding.beam import BeamSearch, search_with, unknown_attention
from pacer.decoding.candidates import AgreeingSearch
from pacer.decoding.transformers_generate import Generate
from pacer.model.batch import Batch, FeatureSource, SourceStates, read_sources
from pacer.model.checkpoint import ModelSpecification
from pacer.model.pacer import Pacer
from pacer.model.prompt import PromptIds, build_prompt

#: Values of ``decode.engine``. Both engines take prefixes and return the same tokens.
ENGINES = {"beam": BeamSearch, "generate": Generate}

#: A row of ``records.parquet``.
Row = dict[str, Any]


class Prefix(NamedTuple):
    """The start of a generation: ``inputs`` [P, d], the calibrated prefix and the target's BOS; the others as in
    :class:`Generated`."""

    inputs: Tensor
    gate: float | None
    depth_weights: dict[str, Tensor]


class Generated(NamedTuple):
    """Result for one record: raw ``text``, number of generated ``tokens`` (EOS included), ``gate`` (None without
    Calibrate), ``depth_weights`` [N, K] of the ``frontal`` and, if there is one, of the ``lateral`` image."""

    text: str
    tokens: int
    gate: float | None
    depth_weights: dict[str, Tensor]


class Generator:
    """A generator of reports for records; ``decode`` may be replaced between calls.

    If ``decode.engine`` is ``beam`` and the beam search does not support the language model's attention, ``generate``
    is used and a message is printed.

    Args:
        model: in eval mode; not of the warm-up, which has no instruction. specification: from its checkpoint record.

    Raises:
        BackboneError: ``decode.select: agreement`` with a language model that the beam search does not support.
    """

    def __init__(
        self,
        model: Pacer,
        tokenizer: PreTrainedTokenizerBase,
        features: FeatureSource,
        specification: ModelSpecification,
        decode: Decode,
        device: torch.device | str = "cpu",
    ):
        self.model, self.tokenizer, self.features, self.decode = model.to(device), tokenizer, features, decode
        assert specification.prompt is not None, "a model of the warm-up"
        self.prompt, self.device = specification.prompt, torch.device(device)
        self.commit = specification.commits
        self.num_queries = specification.interface.num_queries
        unknown = unknown_attention(model.language.config)
        if unknown and decode.select == "agreement":
            raise BackboneError(f"decode.select: agreement does not know {unknown}; set decode.select: score")
        if unknown and decode.engine == "beam":
            print(f"decode: the beam search does not know {unknown}; using decode.engine: generate")
            self.decode = decode.model_copy(update={"engine": "generate"})

    def prompt_ids(self, record: Row) -> PromptIds:
        """Return the text ids of the prefix, the only part whose length differs between records."""
        return build_prompt(self.tokenizer, record, commit=self.commit, **self.prompt.model_dump())

    def batch(self, record: Row, sources: SourceStates | None = None) -> Batch:
        """Return a batch of one record's prefix and the target's BOS. sources: its features; None: they are read."""
        prompt, bos = self.prompt_ids(record), self.tokenizer.bos_token_id
        prefix = prompt.prefix(bos, self.num_queries)
        return Batch(
            ids=torch.tensor([[*prefix, bos]]),
            visual_start=torch.tensor([prompt.visual_start]),
            prefix_length=torch.tensor([len(prefix)]),
            longest_prefix=len(prefix),
            length=torch.tensor([len(prefix) + 1]),
            **vars(sources or read_sources([record], self.features)),
        )

    @torch.no_grad()
    def prefix(self, record: Row, sources: SourceStates | None = None) -> Prefix:
        """Compute the calibrated prefix of one record; ``sources`` as in :meth:`batch`.

        Records are embedded one by one, so the result is bit-identical however records are batched, split over
        processes or resumed.

        Raises:
            DataError: the prefix is not finite. Beam search would otherwise emit garbage.
        """
        batch = self.batch(record, sources).to(self.device)
        embedded = self.model.embed(batch)
        inputs, gate, _ = self.model.calibrate(embedded, batch)
        if not inputs.isfinite().all():
            raise DataError(
                f"record {record['record_id']}: its prefix is not finite; the features of its images or of "
                "its previous report, or the checkpoint, are damaged: make them again"
            )
        depth_weights = {view: weights[0].cpu() for view, weights in embedded.depth_weights.items()}
        return Prefix(inputs[0], None if gate is None else gate.item(), depth_weights)

    def stream(self, records: Iterable[Row], workers: int = 0) -> Iterator[tuple[int, Generated]]:
        """Yield each record's index in ``records`` and its result, as soon as it is ready.

        Records are read in the given order when rows are free; it is fastest to put similar lengths next to each other.
        ``workers`` threads read features ahead (0: each record's when it is needed).
        """

        def read(record: Row) -> tuple[Row, SourceStates]:
            return record, read_sources([record], self.features)

        def prefixes() -> Iterator[tuple[Tensor, tuple]]:
            for place, (record, sources) in enumerate(prefetch(read, records, workers)):
                inputs, *others = self.prefix(record, sources)
                yield inputs, (place, others)

        arguments = self.model.language, self.decode, self.tokenizer.eos_token_id
        agreeing = self.decode.select == "agreement" and self.commit
        search = AgreeingSearch(*arguments, self.text) if agreeing else ENGINES[self.decode.engine](*arguments)
        for (place, others), tokens in search_with(search, prefixes()):
            yield place, Generated(self.text(tokens), len(tokens), *others)

    def text(self, tokens: Sequence[int]) -> str:
        """Return the text of generated tokens."""
        return str(self.tokenizer.decode(list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False))

    def __call__(self, records: Sequence[Row]) -> list[Generated]:
        """Return the results in the records' order."""
        return [result for _, result in sorted(self.stream(records), key=lambda placed: placed[0])]
