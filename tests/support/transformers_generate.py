"""The reference of decoding: ``generate`` of transformers."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import GenerationConfig, LogitsProcessorList, RepetitionPenaltyLogitsProcessor

from pacer.config import Decode
from pacer.decoding.list_bias import ListBias
from pacer.decoding.search import Found, Label, Prefix
from pacer.model.pacer import autocast_to_weights


class Generate:
    """An engine for single texts without forced tokens, which runs ``generate`` batch by batch."""

    def __init__(self, language: Any, decode: Decode, eos: int, bias: ListBias | None = None):
        self.language = language
        self.decode = decode
        self.eos = eos
        self.bias = bias
        # a checkpoint may have generation settings, which generate would add to those of `decode`
        language.generation_config = GenerationConfig()

    @torch.no_grad()
    def __call__(
        self, prefixes: Iterable[tuple[Label, Prefix]], candidates: int = 1
    ) -> Iterator[Found[Label]]:
        assert candidates == 1
        waiting = iter(prefixes)
        while batch := list(islice(waiting, self.decode.batch_size)):
            assert not any(prefix.forced for _, prefix in batch)
            results = self._generate([prefix.inputs for _, prefix in batch])
            for (label, _), tokens in zip(batch, results, strict=True):
                if self.eos in tokens:
                    tokens = tokens[: tokens.index(self.eos) + 1]
                yield label, [tokens]

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
