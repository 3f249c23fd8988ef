"""The baseline of `bench/train.py`: training steps written straightforwardly after LLM-RG4.

The layout is that of LLM-RG4. BOS and the text before the image are padded on the left to a fixed
length. The text after the image is padded on the right to the longest in the batch, and the target
on the right to a fixed length. An attention mask hides the padding. The language model computes
logits for all positions, which are converted to float32. Cross-entropy (``reduction="none"``) and
the divergence are computed at all positions and masked by their weights. LoRA is not merged into
the frozen weights, as in peft. Router, interface, calibrator and the losses' definitions are those
of PACER, so that the two sides differ only in the language model's part.

One thing is better than in LLM-RG4: position ids count only real positions, as on the other side.
Otherwise the losses could not agree.
"""

from typing import Any, NamedTuple, Self

import torch
from shapes import BEFORE, LONGEST_TARGET
from torch import Tensor
from torch.nn import functional as F

from pacer.training.losses import drifts, ratio

IGNORED = -100


def all_position_nll(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the losses [B, T] for logits [B, T, V] float32 and next tokens ``labels`` [B, T]
    (-100: none, loss 0)."""
    nll = F.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED, reduction="none"
    )
    return nll.view_as(labels)


def all_position_divergence(teacher: Tensor, student: Tensor) -> Tensor:
    """Return ``KL(p_teacher || p_student)`` [B, T] from the logits [B, T, V] float32 of both."""
    corrected, parent = F.log_softmax(student, dim=-1), F.log_softmax(teacher, dim=-1)
    return F.kl_div(corrected, parent, reduction="none", log_target=True).sum(-1)


class FixedBatch(NamedTuple):
    """A batch in LLM-RG4's layout: L = 1 + 50 positions, Q visual ones, A of text, M of target; T
    in all.

    Attributes:
        left: [B, L] and right: [B, A + M] token ids. mask: [B, T] int64. labels: [B, T], -100 for
        no loss. weight, emphasis: [B, T]. kappa: [B]. consistency: [B, T] bool. prefix_mask: [B, L
        + Q + A] bool.
        sources: the :class:`pacer.model.batch.Batch` whose sources are used.
    """

    left: Tensor
    right: Tensor
    mask: Tensor
    labels: Tensor
    weight: Tensor
    emphasis: Tensor
    kappa: Tensor
    consistency: Tensor
    prefix_mask: Tensor
    sources: Any

    def to(self, device: torch.device) -> Self:
        """Return the same batch on another device."""
        return self._make(part.to(device) for part in self)


def fixed_layout(batch: Any, queries: int) -> FixedBatch:
    """Convert a right-padded :class:`pacer.model.batch.TrainingBatch` with Q ``queries`` to
    LLM-RG4's layout."""
    count, before, target = len(batch.ids), BEFORE[1], LONGEST_TARGET
    omega, s, omega_cons = (
        _padded(batch, values) for values in (batch.omega, batch.s, batch.omega_cons)
    )
    starts, prefixes, lengths = (
        t.tolist() for t in (batch.visual_start, batch.prefix_length, batch.length)
    )
    after = max(prefix - start - queries for start, prefix in zip(starts, prefixes))
    first = 1 + before + queries
    total = first + after + target
    ids = torch.zeros(count, total, dtype=torch.int64)
    mask, labels = torch.zeros_like(ids), torch.full_like(ids, IGNORED)
    weight, emphasis = torch.zeros(count, total), torch.zeros(count, total)
    consistency = torch.zeros(count, total, dtype=torch.bool)
    for row, (start, prefix, length) in enumerate(zip(starts, prefixes, lengths)):
        left, asked = (
            slice(1 + before - start, 1 + before),
            slice(first, first + prefix - start - queries),
        )
        answer, target_ids = (
            slice(first + after, first + after + length - prefix),
            slice(prefix, length),
        )
        ids[row, left] = batch.ids[row, :start]  # BOS and the text before the image
        ids[row, asked] = batch.ids[row, start + queries : prefix]
        ids[row, answer] = batch.ids[row, target_ids]
        mask[row, left] = mask[row, asked] = mask[row, answer] = 1
        mask[row, 1 + before : first] = 1
        labels[row, answer] = batch.ids[row, target_ids]
        labels[row, first + after] = IGNORED  # the target's BOS
        weight[row, answer], emphasis[row, answer] = omega[row, target_ids], s[row, target_ids]
        consistency[row, answer] = omega_cons[row, target_ids]
    return FixedBatch(
        ids[:, : 1 + before],
        ids[:, first:],
        mask,
        labels,
        weight,
        emphasis,
        batch.kappa,
        consistency,
        mask[:, : first + after].bool(),
        batch,
    )


def _padded(batch: Any, values: Tensor) -> Tensor:
    """Return values of the predicted tokens [n] in their places [B, T]."""
    return values.new_zeros(batch.ids.numel()).index_copy(0, batch.at, values).view(batch.ids.shape)


def _embed(model: Any, batch: FixedBatch) -> tuple[Tensor, Tensor]:
    """Return the input embeddings [B, T, d] and the source tokens [B, 3, Q, d]."""
    sources = model.source_tokens(model.refine_sources(batch.sources)[0], batch.sources)
    embed = model.language.get_input_embeddings()
    left, right = embed(batch.left), embed(batch.right)
    return torch.cat([left, sources.fused.to(left.dtype), right], dim=1), sources.tokens


def _logits(model: Any, inputs: Tensor, batch: FixedBatch) -> Tensor:
    """Return the logits [B, T, V] in float32."""
    places = (batch.mask.cumsum(1) - 1).clamp(min=0)
    output = model.language(
        inputs_embeds=inputs, attention_mask=batch.mask, position_ids=places, use_cache=False
    )
    return output.logits.float()


def _likelihood(logits: Tensor, batch: FixedBatch) -> dict[str, Tensor]:
    # transformers' own loss, which LLM-RG4 uses (4.41), shifts the logits and copies them
    nll = all_position_nll(logits[:, :-1].contiguous(), batch.labels[:, 1:])
    weight, emphasis = batch.weight[:, 1:], batch.emphasis[:, 1:]
    return {
        "trajectory": ratio(weight * nll, weight.sum() + batch.kappa.sum()),
        "emphasis": ratio(emphasis * nll, emphasis.sum()),
    }


def commit_losses(model: Any, batch: FixedBatch) -> dict[str, Tensor]:
    """Return the terms of the trajectory objective."""
    inputs, _ = _embed(model, batch)
    return _likelihood(_logits(model, inputs, batch), batch)


def calibrate_losses(model: Any, batch: FixedBatch) -> dict[str, Tensor]:
    """Return the terms of the complete objective, with full logits of the frozen parent and of the
    corrected model."""
    inputs, tokens = _embed(model, batch)
    width = batch.prefix_mask.shape[1]
    with torch.no_grad():
        teacher = _logits(model, inputs, batch)
    prefix = inputs[:, :width].to(model.calibrator.up.weight.dtype)
    corrected = model.calibrator(prefix, batch.prefix_mask, tokens, batch.sources.availability)
    student = _logits(
        model, torch.cat([corrected.prefix.to(inputs.dtype), inputs[:, width:]], dim=1), batch
    )
    mask = F.pad(batch.consistency, (0, 1))[:, 1:]
    divergence = all_position_divergence(teacher, student) * mask
    return _likelihood(student, batch) | {
        "consistency": ratio(divergence, mask.sum(), eps=0),
        "drift": ratio(
            drifts(corrected.residual, batch.prefix_mask), batch.prefix_mask.sum(), eps=0
        ),
    }
