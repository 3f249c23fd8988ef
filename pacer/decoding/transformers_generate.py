"""transformers' ``generate`` on prefix embeddings: what decoding means, and the slower of the two engines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import GenerationConfig, LogitsProcessorList, RepetitionPenaltyLogitsProcessor

from pacer.params import Decode


class Generate:
    """The same calls as :class:`pacer.decoding.beam.BeamSearch`, by ``generate``, a batch of prefixes at a time."""

    def __init__(self, language: Any, decode: Decode, eos: int):
        self.language, self.decode, self.eos = language, decode, eos
        # a checkpoint may bring settings of its own, and generate would add them to those of `decode`
        language.generation_config = GenerationConfig()

    @torch.no_grad()
    def __call__(self, prefixes: Iterable[Tensor]) -> Iterator[tuple[int, list[int]]]:
        """Number of a prefix in the order of ``prefixes``, and its generated tokens (EOS counted).

        Args:
            prefixes: embeddings [P, d] on the model's device, each of its own length; taken batch by batch.
        """
        waiting = enumerate(prefixes)
        while batch := list(islice(waiting, self.decode.batch_size)):
            numbers, inputs = zip(*batch, strict=True)
            for number, tokens in zip(numbers, self._generate(list(inputs)), strict=True):
                yield number, tokens[: tokens.index(self.eos) + 1] if self.eos in tokens else tokens

    def _generate(self, inputs: list[Tensor]) -> list[list[int]]:
        length = torch.tensor([len(prefix) for prefix in inputs], device=inputs[0].device)
        embeddings, mask = left_padded(pad_sequence(inputs, batch_first=True), length)
        # generate's own repetition_penalty option skips rows that are padded on the left; the processor does not
        processors = LogitsProcessorList()
        if self.decode.repetition_penalty != 1.0:
            processors.append(RepetitionPenaltyLogitsProcessor(self.decode.repetition_penalty))
        return self.language.generate(
            inputs_embeds=embeddings.to(self.language.dtype),
            attention_mask=mask,
            logits_processor=processors,
            do_sample=False,
            num_beams=self.decode.num_beams,
            min_new_tokens=self.decode.min_new_tokens,
            max_new_tokens=self.decode.max_new_tokens,
            length_penalty=self.decode.length_penalty,
            eos_token_id=self.eos,
            pad_token_id=self.eos,
        ).tolist()


def left_padded(inputs: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
    """Move right-padded rows [B, T, d] to the right edge: left-padded inputs and their mask [B, T]."""
    total = inputs.shape[1]
    source = torch.arange(total, device=inputs.device) - (total - length).unsqueeze(1)
    mask = source >= 0
    moved = inputs.gather(1, source.clamp(min=0).unsqueeze(-1).expand_as(inputs))
    return torch.where(mask.unsqueeze(-1), moved, 0), mask.long()
