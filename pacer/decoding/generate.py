"""Reports from a trained model: the calibrated prefix of each record, continued by the chosen engine.

One search generates commitment and report; the repetition penalty covers the complete generated history.
Configurations with Commit decode commitment-first, those without decode directly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from pacer.config import Decode
from pacer.core.errors import DataError
from pacer.decoding.beam import BeamSearch, unknown_attention
from pacer.decoding.transformers_generate import Generate
from pacer.model.checkpoint import ModelSpecification
from pacer.model.pacer import Batch, FeatureSource, Pacer, read_sources
from pacer.model.prompt import PromptIds, build_prompt

#: ``decode.engine``. Both take prefixes and give the same tokens.
ENGINES = {"beam": BeamSearch, "generate": Generate}

#: A row of ``records.parquet``.
Row = dict[str, Any]


class Prefix(NamedTuple):
    """What a report is generated from: ``inputs`` [P, d], the calibrated prefix and the target's BOS; ``gate``,
    ``frontal_weights``, ``lateral_weights``: see :class:`Generated`."""

    inputs: Tensor
    gate: float | None
    frontal_weights: Tensor
    lateral_weights: Tensor | None


class Generated(NamedTuple):
    """Result for one record: raw ``text``, number of generated ``tokens`` (EOS counted), ``gate`` (None without
    Calibrate), depth weights [N, K] of the frontal and, where there is one, of the lateral image."""

    text: str
    tokens: int
    gate: float | None
    frontal_weights: Tensor
    lateral_weights: Tensor | None


class Generator:
    """Generates reports for records; ``decode`` may be replaced between calls.

    With ``decode.engine: beam`` and a language model whose attention the beam search does not know, ``generate`` is
    used, and a line says so.

    Args:
        model: in eval mode, not of the warm-up, which knows no instruction. specification: of its checkpoint record.
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
        if unknown and decode.engine == "beam":
            print(f"decode: the beam search does not know {unknown}; using decode.engine: generate")
            self.decode = decode.model_copy(update={"engine": "generate"})

    def prompt_ids(self, record: Row) -> PromptIds:
        """Text of the prefix, in which alone the lengths of prefixes differ."""
        return build_prompt(self.tokenizer, record, commit=self.commit, **self.prompt.model_dump())

    def batch(self, record: Row) -> Batch:
        """Prefix and the target's BOS of one record."""
        prompt, bos = self.prompt_ids(record), self.tokenizer.bos_token_id
        prefix = prompt.prefix(bos, self.num_queries)
        return Batch(
            ids=torch.tensor([[*prefix, bos]]),
            visual_start=torch.tensor([prompt.visual_start]),
            prefix_length=torch.tensor([len(prefix)]),
            length=torch.tensor([len(prefix) + 1]),
            **vars(read_sources([record], self.features)),
        )

    @torch.no_grad()
    def prefix(self, record: Row) -> Prefix:
        """The calibrated prefix of one record.

        Records are embedded one by one: a result is then the same to the last bit, however records are batched, split
        over processes or resumed.

        Raises:
            DataError: it is not finite. A search would go on from it and give a report of any words.
        """
        batch = self.batch(record).to(self.device)
        embedded = self.model.embed(batch)
        inputs, gate, _ = self.model.calibrate(embedded, batch)
        if not inputs.isfinite().all():
            raise DataError(
                f"record {record['record_id']}: its prefix is not finite; the features of its images or of "
                "its previous report, or the checkpoint, are damaged: make them again"
            )
        lateral = embedded.lateral_depth_weights
        return Prefix(
            inputs[0],
            None if gate is None else gate.item(),
            embedded.depth_weights[0].cpu(),
            None if lateral is None else lateral[0].cpu(),
        )

    def stream(self, records: Iterable[Row]) -> Iterator[tuple[int, Generated]]:
        """Place of a record in ``records`` and its result, as soon as it is there.

        Records enter in the order given, and are asked for when there is room: similar lengths side by side cost least.
        """
        beside: dict[int, tuple[float | None, Tensor, Tensor | None]] = {}

        def inputs() -> Iterator[Tensor]:
            for place, record in enumerate(records):
                prefix = self.prefix(record)
                beside[place] = prefix[1:]  # the inputs of all of them would take too much memory
                yield prefix.inputs

        engine = ENGINES[self.decode.engine]
        search = engine(self.model.language, self.decode, self.tokenizer.eos_token_id)
        for place, tokens in search(inputs()):
            text = str(self.tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False))
            yield place, Generated(text, len(tokens), *beside.pop(place))

    def __call__(self, records: Sequence[Row]) -> list[Generated]:
        """Results in the records' order."""
        return [result for _, result in sorted(self.stream(records), key=lambda placed: placed[0])]
