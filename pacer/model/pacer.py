"""The whole model: frozen language model, Refine, source interface and Calibrate, wired together.

Shapes: B samples, T positions, P prefix positions, Q visual tokens, K depths, N patches, d widths.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from peft import LoraConfig, inject_adapter_in_model
from peft.tuners.lora import LoraLayer
from torch import Tensor, nn
from transformers import PreTrainedModel

from pacer.model.calibrate import PrefixCalibrator
from pacer.model.interface import SourceInterface, SourceTokens
from pacer.model.refine import DepthRouter


@dataclass
class Batch:
    """One micro-batch of model inputs, right-padded; every sample is contiguous.

    Attributes:
        ids: [B, T] token ids; zeros at the visual positions and in the padding.
        visual_start: [B] first visual position. prefix_length: [B] positions left of ``||``. length: [B].
        frontal: [B, K, N, d_v] depth states. lateral: [n_l, K, N, d_v] of the rows that have one, or None.
        prior: [n_p, L, d_text] and prior_mask [n_p, L] bool of the rows that have one, or None.
        availability: [B, 2] bool (lateral, prior).
        weight: [B, T] omega of the token at each position (zero outside targets and on BOS). emphasis: [B, T] s.
        kappa: [B]. consistency: [B, T] bool, Omega_cons.
    """

    ids: Tensor
    visual_start: Tensor
    prefix_length: Tensor
    length: Tensor
    frontal: Tensor
    lateral: Tensor | None
    prior: Tensor | None
    prior_mask: Tensor | None
    availability: Tensor
    weight: Tensor | None = None
    emphasis: Tensor | None = None
    kappa: Tensor | None = None
    consistency: Tensor | None = None

    def to(self, device: torch.device) -> Batch:
        """The same batch on another device."""
        moved = {k: v.to(device, non_blocking=True) for k, v in vars(self).items() if isinstance(v, Tensor)}
        return Batch(**(vars(self) | moved))

    @property
    def prefix_mask(self) -> Tensor:
        """m [B, T]: valid positions left of ``||``."""
        return torch.arange(self.ids.shape[1], device=self.ids.device) < self.prefix_length.unsqueeze(1)

    @property
    def predicted(self) -> Tensor:
        """[B, T] bool: target tokens that are predicted, that is all after the target's BOS."""
        positions = torch.arange(self.ids.shape[1], device=self.ids.device)
        return (positions > self.prefix_length.unsqueeze(1)) & (positions < self.length.unsqueeze(1))


class Embedded(NamedTuple):
    """Input embeddings [B, T, d] before Calibrate, the sources behind them, and the routing weights."""

    inputs: Tensor
    sources: SourceTokens
    depth_weights: Tensor
    lateral_depth_weights: Tensor | None


class Pacer(nn.Module):
    """PACER around a frozen causal language model.

    Args:
        language: a causal language model with ``model`` and ``lm_head`` (LlamaForCausalLM), frozen here.
        endpoint_norm: the vision encoder's final LayerNorm, frozen: it makes the endpoint of the last depth's state.
        router, interface: Refine and the source interface. calibrator: None until the calibrate phase.
    """

    def __init__(
        self,
        language: PreTrainedModel,
        endpoint_norm: nn.LayerNorm,
        router: DepthRouter,
        interface: SourceInterface,
        calibrator: PrefixCalibrator | None = None,
    ):
        super().__init__()
        self.language: Any = language.requires_grad_(False)
        self.endpoint_norm = endpoint_norm.requires_grad_(False)
        self.router, self.interface, self.calibrator = router, interface, calibrator

    def add_lora(self, rank: int, alpha: int, dropout: float, targets: list[str]) -> None:
        """Put LoRA into the language model's ``targets`` (paper: q_proj and v_proj)."""
        config = LoraConfig(r=rank, lora_alpha=alpha, lora_dropout=dropout, target_modules=targets, bias="none")
        inject_adapter_in_model(config, self.language)
        for name, parameter in self.language.named_parameters():
            parameter.requires_grad_("lora_" in name)

    def merge_lora(self) -> None:
        """Fold LoRA into the frozen weights: same function, no extra work per step."""
        for module in self.language.modules():
            if isinstance(module, LoraLayer):
                module.merge()  # type: ignore[call-non-callable]

    def refine(self, depths: Tensor) -> tuple[Tensor, Tensor]:
        """[B, K, N, d_v] -> refined [B, N, d_v] and depth weights [B, N, K]."""
        depths = depths.to(self.endpoint_norm.weight.dtype)
        return self.router(depths, self.endpoint_norm(depths[:, -1]))

    def sources(self, batch: Batch) -> tuple[SourceTokens, Tensor, Tensor | None]:
        """Z_s and their fusion, with the depth weights of frontal and lateral images."""
        frontal, weights = self.refine(batch.frontal)
        lateral = prior = prior_mask = lateral_weights = None
        if batch.lateral is not None:
            refined, lateral_weights = self.refine(batch.lateral)
            lateral = torch.zeros_like(frontal).index_copy(0, batch.availability[:, 0].nonzero()[:, 0], refined)
        if batch.prior is not None and batch.prior_mask is not None:
            rows = batch.availability[:, 1].nonzero()[:, 0]
            prior = frontal.new_zeros(len(frontal), *batch.prior.shape[1:])
            prior = prior.index_copy(0, rows, batch.prior.to(frontal.dtype))
            prior_mask = torch.zeros(prior.shape[:2], dtype=torch.bool, device=prior.device)
            prior_mask = prior_mask.index_copy(0, rows, batch.prior_mask)
        return self.interface(frontal, lateral, prior, batch.availability, prior_mask), weights, lateral_weights

    def embed(self, batch: Batch, warmup: bool = False) -> Embedded:
        """Input embeddings: text tokens with the visual tokens in their places.

        ``warmup``: the visual tokens are the unfused frontal tokens (upstream's first stage).
        """
        text = self.language.get_input_embeddings()(batch.ids)
        if warmup:
            frontal, weights = self.refine(batch.frontal)
            _, visual = self.interface.compress_frontal(frontal)
            sources, lateral_weights = SourceTokens(visual.unsqueeze(1), visual), None
        else:
            sources, weights, lateral_weights = self.sources(batch)
            visual = sources.fused
        places = batch.visual_start.unsqueeze(1) + torch.arange(visual.shape[1], device=text.device)
        inputs = text.scatter(1, places.unsqueeze(-1).expand_as(visual), visual.to(text.dtype))
        return Embedded(inputs, sources, weights, lateral_weights)

    def calibrate(self, embedded: Embedded, batch: Batch) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Correct the prefix: input embeddings [B, T, d], gate [B], residual [B, P, d] (P: the longest prefix).

        Without a calibrator the embeddings come back unchanged, with no gate.
        """
        if self.calibrator is None:
            return embedded.inputs, None, None
        width = int(batch.prefix_length.max())
        mask = batch.prefix_mask[:, :width]
        prefix = embedded.inputs[:, :width].to(self.calibrator.up.weight.dtype)
        result = self.calibrator(prefix, mask, embedded.sources.tokens, batch.availability)
        # positions right of the prefix have no residual, so only the prefix columns change
        corrected = result.prefix.to(embedded.inputs.dtype)
        return torch.cat([corrected, embedded.inputs[:, width:]], dim=1), result.gate, result.residual

    def hidden(self, inputs: Tensor) -> Tensor:
        """Last hidden states [B, T, d]. Right padding and causality make an attention mask needless."""
        return self.language.model(inputs_embeds=inputs, use_cache=False).last_hidden_state

    def target_logits(self, hidden: Tensor, batch: Batch) -> Tensor:
        """Logits [n, V] of the n predicted target tokens, in row-major order of ``batch.predicted``."""
        return self.language.lm_head(hidden[:, :-1][batch.predicted[:, 1:]])
