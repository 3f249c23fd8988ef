"""Reports from a trained model: transformers' ``generate`` on the calibrated prefix.

One call generates commitment and report; the repetition penalty covers the whole generated history. Configurations
with Commit decode commitment-first, those without decode directly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers import LogitsProcessorList, PreTrainedTokenizerBase, RepetitionPenaltyLogitsProcessor

from pacer.core.config import Decode
from pacer.model.collate import Features, Sources, Target, collate
from pacer.model.pacer import Batch, Pacer
from pacer.model.prompt import build_prompt


class Generated(NamedTuple):
    """Result for one record: raw ``text``, number of generated ``tokens`` (EOS counted), ``gate`` (None without
    Calibrate), depth weights [N, K] of the frontal and, where there is one, of the lateral image."""

    text: str
    tokens: int
    gate: float | None
    frontal_weights: Tensor
    lateral_weights: Tensor | None


class Generator:
    """Generates reports for records (rows of ``records.parquet`` as dictionaries).

    Args:
        model: in eval mode. settings: groups ``prompt``, ``commit``, ``interface`` of its checkpoint record.
    """

    def __init__(
        self,
        model: Pacer,
        tokenizer: PreTrainedTokenizerBase,
        features: Features,
        settings: dict[str, Any],
        decode: Decode,
        device: torch.device | str = "cpu",
    ):
        self.model, self.tokenizer, self.features, self.decode = model.to(device), tokenizer, features, decode
        self.prompt, self.device = settings["prompt"], device
        self.commit = settings["commit"]["route"] != "direct"
        self.num_queries = settings["interface"]["num_queries"]

    def batch(self, records: Sequence[dict[str, Any]]) -> Batch:
        """Prefix and the target's BOS of each record."""
        bos = self.tokenizer.bos_token_id
        zero = np.zeros(1, dtype=np.float32)
        target = Target(np.array([bos], dtype=np.int64), zero, zero, zero, 0.0)
        prompts = [
            build_prompt(self.tokenizer, view=r["view"], sections=r["sections"], indication=r["indication"],
                         history=r["history"], commit=self.commit, **self.prompt)
            for r in records
        ]
        sources = [Sources(r["context"], r["frontal"], r["lateral"], r["prior_report"]) for r in records]
        return collate(prompts, [target] * len(records), sources, self.features, bos=bos, num_queries=self.num_queries)

    @torch.no_grad()
    def __call__(self, records: Sequence[dict[str, Any]]) -> list[Generated]:
        """Generate for one batch of records, in their order."""
        batch = self.batch(records).to(torch.device(self.device))
        embedded = self.model.embed(batch)
        inputs, gate, _ = self.model.calibrate(embedded, batch)
        inputs, mask = left_padded(inputs, batch.length)
        eos = self.tokenizer.eos_token_id
        # generate's own repetition_penalty option skips rows that are padded on the left; the processor does not
        processors = LogitsProcessorList()
        if self.decode.repetition_penalty != 1.0:
            processors.append(RepetitionPenaltyLogitsProcessor(self.decode.repetition_penalty))
        ids = self.model.language.generate(
            inputs_embeds=inputs, attention_mask=mask, logits_processor=processors, do_sample=False,
            num_beams=self.decode.num_beams, min_new_tokens=self.decode.min_new_tokens,
            max_new_tokens=self.decode.max_new_tokens, length_penalty=self.decode.length_penalty,
            eos_token_id=eos, pad_token_id=eos, bos_token_id=self.tokenizer.bos_token_id,
        )
        assert embedded.depth_weights is not None
        lateral_weights = embedded.lateral_depth_weights
        results, laterals = [], iter(() if lateral_weights is None else lateral_weights)
        for row, (record, tokens) in enumerate(zip(records, ids.tolist(), strict=True)):
            tokens = tokens[: tokens.index(eos) + 1] if eos in tokens else tokens
            text = str(self.tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False))
            lateral = next(laterals).cpu() if record["context"].startswith("m") else None
            results.append(Generated(text, len(tokens), None if gate is None else gate[row].item(),
                                     embedded.depth_weights[row].cpu(), lateral))
        return results


def left_padded(inputs: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
    """Move right-padded rows [B, T, d] to the right edge: left-padded inputs and their mask [B, T]."""
    total = inputs.shape[1]
    source = torch.arange(total, device=inputs.device) - (total - length).unsqueeze(1)
    mask = source >= 0
    moved = inputs.gather(1, source.clamp(min=0).unsqueeze(-1).expand_as(inputs))
    return torch.where(mask.unsqueeze(-1), moved, 0), mask.long()
