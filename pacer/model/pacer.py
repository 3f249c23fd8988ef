"""The whole model: frozen language model, Refine, source interface and Calibrate, wired together.

Shapes: B samples, T positions, P prefix positions, Q visual tokens, K depths, N patches, d widths.
"""

from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar, NamedTuple

import torch
from peft import LoraConfig, inject_adapter_in_model
from peft.tuners.lora import LoraLayer
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import AttentionInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from pacer.backbones.families import lora_targets
from pacer.core.contexts import CONTEXTS, WITH_SOURCE, availability
from pacer.model.batch import Batch, RefinedSources, SourceStates, TrainingBatch
from pacer.model.calibrate import PrefixCalibrator
from pacer.model.interface import SourceInterface, SourceTokens
from pacer.model.refine import Router

#: A name for transformers' attention under which it makes no mask; attention without a mask is
#: causal. To make one, transformers checks whether samples are packed, and so waits for the GPU.
_CAUSAL = "pacer_causal"
AttentionInterface.register(_CAUSAL, sdpa_attention_forward)


#: Depth weights [B, N, K] of the images in view ``frontal`` and, if there are any, ``lateral``.
DepthWeights = dict[str, Tensor]


class Embedded(NamedTuple):
    """A batch as inputs of the language model, before Calibrate."""

    #: [B, T, d], input embeddings.
    inputs: Tensor
    #: The source tokens among them.
    sources: SourceTokens
    depth_weights: DepthWeights
    #: [B, N, d_v], refined patches of the frontal images.
    frontal: Tensor


class Pacer(nn.Module):
    """PACER around a frozen causal language model.

    Args:
        language: a causal language model built like Llama (:mod:`pacer.backbones.families`), frozen
            here.
        endpoint_norm: the vision encoder's final LayerNorm, frozen here; maps the last depth's
            state to the endpoint.
        router: Refine.
        interface: the source interface.
        calibrator: None until the calibrate phase.
    """

    #: Contexts of the records that use the parameters with these prefixes of their names. All other
    #: parameters are used by records of all contexts.
    only_in: ClassVar[dict[str, tuple[str, ...]]] = {
        "interface.lateral.": WITH_SOURCE[1],
        "interface.prior.": WITH_SOURCE[2],
    }

    def __init__(
        self,
        language: PreTrainedModel,
        endpoint_norm: nn.LayerNorm,
        router: Router,
        interface: SourceInterface,
        calibrator: PrefixCalibrator | None = None,
    ):
        super().__init__()
        self.language: Any = language.requires_grad_(False)
        self.endpoint_norm = endpoint_norm.requires_grad_(False)
        self.router = router
        self.interface = interface
        self.calibrator = calibrator

    def add_lora(self, rank: int, alpha: int, dropout: float, targets: list[str] | None) -> None:
        """Add LoRA to the language model's ``targets`` (paper: q_proj and v_proj; None: PEFT's
        defaults for the model). Raises a ConfigError as
        :func:`~pacer.backbones.families.lora_targets` does."""
        targets = lora_targets(self.language, targets)
        config = LoraConfig(
            r=rank, lora_alpha=alpha, lora_dropout=dropout, target_modules=targets, bias="none"
        )
        inject_adapter_in_model(config, self.language)
        for name, parameter in self.language.named_parameters():
            parameter.requires_grad_("lora_" in name)
            if parameter.requires_grad:  # PEFT gave it the type of the frozen weight
                parameter.data = parameter.data.to(
                    torch.promote_types(parameter.dtype, torch.float32)
                )

    def merge_lora(self) -> None:
        """Merge LoRA into the frozen weights: the model computes the same function, with less work.

        Each sum is computed in float32 and rounded once to the type of the weights.
        """
        for module in self.language.modules():
            if isinstance(module, LoraLayer):
                module.merge()  # type: ignore[call-non-callable]

    def checkpoint_blocks(self) -> None:
        """Keep only the inputs of the language model's blocks; the backward pass recomputes the
        rest, dropout included.

        The values are the same. This saves memory and costs about one more forward pass. The last
        block keeps everything, because the backward pass begins with it.
        """
        for block in self.language.model.layers[:-1]:
            block.forward = partial(checkpoint, block.forward, use_reentrant=False)

    def blocks(self, name: str, values: Tensor) -> list[tuple[Tensor, tuple[str, ...]]]:
        """Divide the ``values`` of a parameter, or of its gradient, into views, each with the
        contexts whose records use it."""
        if name == "interface.fusion.weight":
            return list(zip(values.chunk(3, dim=1), WITH_SOURCE, strict=True))
        if name == "calibrator.availability.weight":
            rows = sorted(
                CONTEXTS, key=lambda context: PrefixCalibrator.row(*availability(context))
            )
            return [(row, (context,)) for row, context in zip(values, rows, strict=True)]
        contexts = next(
            (contexts for prefix, contexts in self.only_in.items() if name.startswith(prefix)),
            CONTEXTS,
        )
        return [(values, contexts)]

    def refine(self, depths: Tensor) -> tuple[Tensor, Tensor]:
        """Refine depth states: [B, K, N, d_v] -> refined [B, N, d_v] and depth weights [B, N,
        K]."""
        depths = depths.to(self.endpoint_norm.weight.dtype)
        return self.router(depths, self.endpoint_norm(depths[:, -1]))

    def refine_sources(self, batch: SourceStates) -> tuple[RefinedSources, DepthWeights]:
        """Refine the images of a batch: return what the interface reads, and the depth weights."""
        frontal, weights = self.refine(batch.frontal)
        depth_weights = {"frontal": weights}
        lateral = None
        if batch.lateral is not None:
            lateral, weights = self.refine(batch.lateral)
            depth_weights["lateral"] = weights
        return RefinedSources(
            availability=batch.availability,
            frontal=frontal,
            lateral=lateral,
            lateral_rows=batch.lateral_rows,
            prior=None if batch.prior is None else batch.prior.to(frontal.dtype),
            prior_mask=batch.prior_mask,
            prior_rows=batch.prior_rows,
        ), depth_weights

    def source_tokens(self, refined: RefinedSources, batch: Batch) -> SourceTokens:
        """Return the source tokens of a batch and their fusion, from its refined sources."""
        return self.interface(refined)

    def embed(self, batch: Batch, frontal_only: bool = False) -> Embedded:
        """Return the input embeddings: text tokens, with the visual tokens in their places.

        With ``frontal_only`` the visual tokens are the unfused frontal tokens (warm-up; upstream's
        first stage).
        """
        text = self.language.get_input_embeddings()(batch.ids)
        if frontal_only:
            frontal, weights = self.refine(batch.frontal)
            sources = self.interface.frontal_only(frontal)
            depth_weights = {"frontal": weights}
        else:
            refined, depth_weights = self.refine_sources(batch)
            sources = self.source_tokens(refined, batch)
            frontal = refined.frontal
        visual = sources.fused
        places = batch.visual_start.unsqueeze(1) + torch.arange(visual.shape[1], device=text.device)
        # keep the interface's type: Calibrate's residual is smaller than a visual token's rounding
        # error in bfloat16
        inputs = text.to(visual.dtype).scatter(1, places.unsqueeze(-1).expand_as(visual), visual)
        return Embedded(inputs, sources, depth_weights, frontal)

    def calibrate(
        self, embedded: Embedded, batch: Batch
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Correct the prefix; return inputs [B, T, d], gate [B] and residual [B, P, d] (P: the
        longest prefix).

        Without a calibrator, return the embeddings unchanged, and None for gate and residual.
        """
        if self.calibrator is None:
            return embedded.inputs, None, None
        prefix = embedded.inputs[:, : batch.longest_prefix]
        result = self.calibrator(
            prefix, batch.prefix_mask, embedded.sources.tokens, batch.availability
        )
        # positions right of the prefix have no residual, so only the prefix columns change
        inputs = torch.cat([result.prefix, embedded.inputs[:, batch.longest_prefix :]], dim=1)
        return inputs, result.gate, result.residual

    def hidden(self, inputs: Tensor) -> Tensor:
        """Return the last hidden states [B, T, d]. With right padding and causality, no attention
        mask is needed."""
        config = self.language.config
        attention = config._attn_implementation
        if attention == "sdpa" and getattr(config, "sliding_window", None) is None:
            attention = _CAUSAL
        with attending(self.language.model, attention), autocast_to_weights(self.language):
            return self.language.model(inputs_embeds=inputs, use_cache=False).last_hidden_state

    def predicting_states(self, inputs: Tensor, batch: TrainingBatch) -> Tensor:
        """Return the states [n, d] that predict the tokens at ``batch.at``, each from one position
        to the left.

        After the last attention only these positions are used, so the last block's MLP, which
        treats each position separately, computes only these.
        """
        rows = batch.at - 1
        mlp = self.language.model.layers[-1].mlp

        def select(_: nn.Module, arguments: tuple[Tensor]) -> Tensor:
            return arguments[0].flatten(0, 1).index_select(0, rows)

        def put_back(_: nn.Module, arguments: tuple[Tensor], output: Tensor) -> Tensor:
            whole = output.new_zeros(inputs.shape[0] * inputs.shape[1], output.shape[1])
            # index_copy would keep its source for the backward pass
            return whole.index_put((rows,), output).view(*inputs.shape[:2], -1)

        with mlp.register_forward_pre_hook(select), mlp.register_forward_hook(put_back):
            return self.hidden(inputs).flatten(0, 1).index_select(0, rows)


@contextmanager
def attending(model: Any, attention: str) -> Generator[None]:
    """In this context, the model's layers use the attention that is registered in transformers
    under this name."""
    usual = model.config._attn_implementation
    model.config._attn_implementation = attention
    try:
        yield
    finally:
        model.config._attn_implementation = usual


def autocast_to_weights(language: Any) -> torch.autocast:
    """Return a context in which a language model multiplies matrices in the type of its weights.
    The sums between its blocks stay in the type of its input embeddings, so float32 embeddings
    reach every block unrounded."""
    return torch.autocast(
        language.device.type, dtype=language.dtype, enabled=language.dtype.itemsize < 4
    )
