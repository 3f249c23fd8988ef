"""The whole model: frozen language model, Refine, source interface and Calibrate, wired together.

Shapes: B samples, T positions, P prefix positions, Q visual tokens, K depths, N patches, d widths.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import torch
from peft import LoraConfig, inject_adapter_in_model
from peft.tuners.lora import LoraLayer
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from pacer.backbones.families import lora_targets
from pacer.core.contexts import CONTEXTS, WITH_SOURCE, availability
from pacer.model.calibrate import PrefixCalibrator
from pacer.model.interface import SourceInterface, SourceTokens
from pacer.model.refine import DepthRouter


class TensorGroup:
    """Base of dataclasses of tensors, which are moved together."""

    def to(self, device: torch.device) -> Self:
        """Return the tensors on another device."""
        return self._each(lambda tensor: tensor.to(device, non_blocking=True))

    def pin_memory(self) -> Self:
        """Return the tensors in page-locked memory, which a GPU can copy from asynchronously."""
        return self._each(Tensor.pin_memory)

    def _each(self, change: Callable[[Tensor], Tensor]) -> Self:
        def changed(value: Any) -> Any:
            if isinstance(value, TensorGroup):
                return value._each(change)
            return None if value is None else change(value)

        return type(self)(**{name: changed(value) for name, value in vars(self).items()})


@dataclass(kw_only=True)
class SourceStates(TensorGroup):
    """States of the sources of a batch; the fields are arguments of :class:`~pacer.model.interface.SourceInterface`.

    Attributes:
        availability: [B, 2] bool (lateral, prior).
        frontal: [B, K, N, d_v] depth states, or [B, N, d_v] when refined. lateral: [n_l, ...], only rows that have
            one; or None.
        prior: [n_p, L, d_text] and prior_mask [n_p, L] bool, only rows that have one; or None.
    """

    availability: Tensor
    frontal: Tensor
    lateral: Tensor | None = None
    prior: Tensor | None = None
    prior_mask: Tensor | None = None


class FeatureSource(Protocol):
    """The methods of a feature store (:class:`pacer.features.store.FeatureStore`) that batches need."""

    def depth_states(self, image_ids: Sequence[str]) -> Tensor:
        """Return the depth states [B, K, N, d_v] of the images."""

    def prior_states(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Return the states [B, L, d_text] of the texts and their mask [B, L]."""


def read_sources(records: Sequence[Mapping[str, Any]], features: FeatureSource) -> SourceStates:
    """Read the states of the sources that the contexts of these rows of ``records.parquet`` include.

    Raises:
        ValueError: a record lacks a source that its context requires.
    """
    available = [availability(record["context"]) for record in records]

    def of(column: str, source: int) -> list[str]:
        names = [record[column] for record, has in zip(records, available, strict=True) if has[source]]
        if None in names:
            raise ValueError(f"a record's context asks for {column}, which the record does not have")
        return names

    laterals, priors = of("lateral", 0), of("prior_report", 1)
    prior, prior_mask = features.prior_states(priors) if priors else (None, None)
    return SourceStates(
        availability=torch.tensor(available),
        frontal=features.depth_states([record["frontal"] for record in records]),
        lateral=features.depth_states(laterals) if laterals else None,
        prior=prior,
        prior_mask=prior_mask,
    )


@dataclass(kw_only=True)
class Batch(SourceStates):
    """One micro-batch of model inputs, right-padded; every sample is contiguous.

    Attributes:
        ids: [B, T] token ids; zeros at the visual positions and in the padding.
        visual_start: [B] first visual position. prefix_length: [B] positions left of ``||``. length: [B].
    """

    ids: Tensor
    visual_start: Tensor
    prefix_length: Tensor
    length: Tensor

    @property
    def prefix_mask(self) -> Tensor:
        """m [B, T]: valid positions left of ``||``."""
        return torch.arange(self.ids.shape[1], device=self.ids.device) < self.prefix_length.unsqueeze(1)

    @property
    def predicted(self) -> Tensor:
        """[B, T] bool: the predicted target tokens, which are all after the target's BOS."""
        positions = torch.arange(self.ids.shape[1], device=self.ids.device)
        return (positions > self.prefix_length.unsqueeze(1)) & (positions < self.length.unsqueeze(1))

    @property
    def predicting(self) -> Tensor:
        """[B, T] bool: the positions that predict these tokens, each one step to the left."""
        return self.predicted.roll(-1, 1)


@dataclass(kw_only=True)
class Supervision(TensorGroup):
    """Weights of the tokens of a batch, zero outside targets and on BOS.

    Attributes:
        omega, s: [B, T]. kappa: [B] weight of the ignored BOS. omega_cons: [B, T] bool.
    """

    omega: Tensor
    s: Tensor
    kappa: Tensor
    omega_cons: Tensor


@dataclass(kw_only=True)
class TrainingBatch(Batch):
    """A batch to learn from."""

    supervision: Supervision


#: Depth weights [B, N, K] of the images in view ``frontal`` and, if there are any, ``lateral``.
DepthWeights = dict[str, Tensor]


class Embedded(NamedTuple):
    """Input embeddings [B, T, d] before Calibrate, the sources behind them, and the depth weights."""

    inputs: Tensor
    sources: SourceTokens
    depth_weights: DepthWeights


class Pacer(nn.Module):
    """PACER around a frozen causal language model.

    Args:
        language: a causal language model built like Llama (:mod:`pacer.backbones.families`), frozen here.
        endpoint_norm: the vision encoder's final LayerNorm, frozen here; maps the last depth's state to the endpoint.
        router, interface: Refine and the source interface. calibrator: None until the calibrate phase.

    Attributes:
        only_in: contexts by the prefixes of those parameters that a record of another context does not use.
    """

    only_in: ClassVar[dict[str, tuple[str, ...]]] = {
        "interface.lateral.": WITH_SOURCE[1],
        "interface.prior.": WITH_SOURCE[2],
    }

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

    def add_lora(self, rank: int, alpha: int, dropout: float, targets: list[str] | None) -> None:
        """Add LoRA to the language model's ``targets`` (paper: q_proj and v_proj; None: PEFT's defaults for the model).

        Raises:
            ConfigError: see :func:`~pacer.backbones.families.lora_targets`.
        """
        targets = lora_targets(self.language, targets)
        config = LoraConfig(r=rank, lora_alpha=alpha, lora_dropout=dropout, target_modules=targets, bias="none")
        inject_adapter_in_model(config, self.language)
        for name, parameter in self.language.named_parameters():
            parameter.requires_grad_("lora_" in name)
            if parameter.requires_grad:  # PEFT gave it the type of the frozen weight
                parameter.data = parameter.data.to(torch.promote_types(parameter.dtype, torch.float32))

    def merge_lora(self) -> None:
        """Merge LoRA into the frozen weights: the same function, with no extra work per step.

        Each sum is computed in float32 and rounded once to the type of the weights. LoRA on quantised weights is not
        merged: quantising the sum again would change the function.
        """
        if getattr(self.language, "is_quantized", False):
            return
        for module in self.language.modules():
            if isinstance(module, LoraLayer):
                module.merge()  # type: ignore[call-non-callable]

    def checkpoint_blocks(self) -> None:
        """Keep only the inputs of the language model's blocks; the backward pass recomputes the rest, dropout included.

        The values are the same. This saves memory and costs about one more forward pass. The last block keeps
        everything, because the backward pass begins with it.
        """
        for block in self.language.model.layers[:-1]:
            block.forward = partial(checkpoint, block.forward, use_reentrant=False)

    def blocks(self, name: str, values: Tensor) -> list[tuple[Tensor, tuple[str, ...]]]:
        """Divide a parameter, or its gradient, into views, each with the contexts whose records use it.

        Args:
            name: of the parameter. values: of its shape.
        """
        if name == "interface.fusion.weight":
            return list(zip(values.chunk(3, dim=1), WITH_SOURCE, strict=True))
        if name == "calibrator.availability.weight":
            rows = sorted(CONTEXTS, key=lambda context: PrefixCalibrator.row(*availability(context)))
            return [(row, (context,)) for row, context in zip(values, rows, strict=True)]
        contexts = next((own for prefix, own in self.only_in.items() if name.startswith(prefix)), CONTEXTS)
        return [(values, contexts)]

    def refine(self, depths: Tensor) -> tuple[Tensor, Tensor]:
        """Refine depth states: [B, K, N, d_v] -> refined [B, N, d_v] and depth weights [B, N, K]."""
        depths = depths.to(self.endpoint_norm.weight.dtype)
        return self.router(depths, self.endpoint_norm(depths[:, -1]))

    def refine_sources(self, batch: SourceStates) -> tuple[SourceStates, DepthWeights]:
        """Refine the images of a batch: return what the interface reads, and the depth weights."""
        frontal, weights = self.refine(batch.frontal)
        depth_weights, lateral = {"frontal": weights}, None
        if batch.lateral is not None:
            lateral, depth_weights["lateral"] = self.refine(batch.lateral)
        prior = None if batch.prior is None else batch.prior.to(frontal.dtype)
        refined = SourceStates(
            availability=batch.availability, frontal=frontal, lateral=lateral, prior=prior, prior_mask=batch.prior_mask
        )
        return refined, depth_weights

    def source_tokens(self, refined: SourceStates, batch: Batch) -> SourceTokens:
        """Return the source tokens of a batch and their fusion, from its refined sources."""
        return self.interface(**vars(refined))

    def embed(self, batch: Batch, frontal_only: bool = False) -> Embedded:
        """Return the input embeddings: text tokens, with the visual tokens in their places.

        With ``frontal_only`` the visual tokens are the unfused frontal tokens (warm-up; upstream's first stage).
        """
        text = self.language.get_input_embeddings()(batch.ids)
        if frontal_only:
            frontal, weights = self.refine(batch.frontal)
            visual = self.interface.frontal.to_model(self.interface.compress_frontal(frontal))
            sources, depth_weights = SourceTokens(visual.unsqueeze(1), visual), {"frontal": weights}
        else:
            refined, depth_weights = self.refine_sources(batch)
            sources = self.source_tokens(refined, batch)
            visual = sources.fused
        places = batch.visual_start.unsqueeze(1) + torch.arange(visual.shape[1], device=text.device)
        # keep the interface's type: Calibrate's residual is smaller than a visual token's rounding error in bfloat16
        inputs = text.to(visual.dtype).scatter(1, places.unsqueeze(-1).expand_as(visual), visual)
        return Embedded(inputs, sources, depth_weights)

    def calibrate(self, embedded: Embedded, batch: Batch) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Correct the prefix; return inputs [B, T, d], gate [B] and residual [B, P, d] (P: the longest prefix).

        Without a calibrator, return the embeddings unchanged, and None for gate and residual.
        """
        if self.calibrator is None:
            return embedded.inputs, None, None
        width = int(batch.prefix_length.max())
        mask = batch.prefix_mask[:, :width]
        result = self.calibrator(embedded.inputs[:, :width], mask, embedded.sources.tokens, batch.availability)
        # positions right of the prefix have no residual, so only the prefix columns change
        return torch.cat([result.prefix, embedded.inputs[:, width:]], dim=1), result.gate, result.residual

    def hidden(self, inputs: Tensor, wanted: Tensor | None = None) -> Tensor:
        """Return the last hidden states [B, T, d]. With right padding and causality, no attention mask is needed.

        Args:
            wanted: [B, T] bool, positions whose states will be used; the others may hold anything. None: all.
        """
        with _only_at(self.language.model.layers[-1].mlp, wanted), autocast_to_weights(self.language):
            return self.language.model(inputs_embeds=inputs, use_cache=False).last_hidden_state

    def predicting_states(self, inputs: Tensor, batch: Batch) -> Tensor:
        """Return the states [n, d] that predict the n target tokens, in row-major order of ``batch.predicted``."""
        return self.hidden(inputs, batch.predicting)[batch.predicting]


def autocast_to_weights(language: Any) -> torch.autocast:
    """Return a context in which a language model multiplies matrices in the type of its weights. The sums between its
    blocks stay in the type of its input embeddings, so float32 embeddings reach every block unrounded."""
    return torch.autocast(language.device.type, dtype=language.dtype, enabled=language.dtype.itemsize < 4)


@contextmanager
def _only_at(block: nn.Module, wanted: Tensor | None) -> Generator[None]:
    """Make a position-wise block [B, T, d] -> [B, T, d] compute only the ``wanted`` positions; the others get zeros.

    After the last attention, only the positions that predict a token are used.
    """
    if wanted is None:
        yield
        return

    whole = block.forward

    def forward(inputs: Tensor) -> Tensor:
        output = whole(inputs[wanted])
        return output.new_zeros(*wanted.shape, output.shape[-1]).index_put((wanted,), output)

    block.forward = forward
    try:
        yield
    finally:
        del block.forward  # of this block alone; its class has the whole
