"""The frozen models that the pipeline can use, judged by their configuration, and the differences
between families.

An image encoder needs a row in :data:`VISION`. A language model needs blocks and a head like
Llama's, and an attention that decoding supports (:data:`LANGUAGE`). The text encoder is a BERT.
"""

from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, BertModel, BertTokenizer
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

from pacer.backbones.pointers import from_files, load_frozen, read_pieces
from pacer.core.errors import BackboneError, ConfigError


class VisionFamily(NamedTuple):
    """Facts about an encoder that its configuration does not contain.

    Attributes:
        norm: attribute of the model with the LayerNorm that maps the last block's state to
            ``last_hidden_state``.
        class_token: whether a class token comes before the registers and patches.
        any_size: whether the encoder takes images of sizes other than ``image_size``.
    """

    norm: str
    class_token: bool
    any_size: bool


#: By ``model_type``. CONTRIBUTING.md has the diff that adds a family.
VISION = {
    "dinov2": VisionFamily("layernorm", class_token=True, any_size=True),
    "dinov2_with_registers": VisionFamily("layernorm", class_token=True, any_size=True),
    "dinov3_vit": VisionFamily("norm", class_token=True, any_size=True),
    "vit": VisionFamily("layernorm", class_token=True, any_size=False),
    "siglip_vision_model": VisionFamily("post_layernorm", class_token=False, any_size=False),
}
#: Families of language models, by ``model_type``, that decoding supports: their layers attend to
#: all earlier positions, or to a sliding window that can be longer than prompt and report.
LANGUAGE = ("llama", "mistral", "qwen2", "qwen3", "gemma3_text")
#: What to do with a model such as MedGemma.
_DIVIDE = "see docs/training.md for how to split it in two"
#: Heads of encoders, which are not used, so checkpoints may lack their weights.
_HEADS = ("pooler.", "head.")
#: Configuration names for changes that a language model makes to its logits after ``lm_head``; 1
#: means no change.
_LOGITS = ("final_logit_softcapping", "logits_scaling", "logit_scale")


def read_config(directory: Path) -> Any:
    """Read the configuration of a transformers model. Raises a BackboneError if it cannot be read,
    or transformers does not know its family."""
    return from_files(AutoConfig, directory)


def vision_config(directory: Path) -> Any:
    """Read the configuration of an image encoder; for a pair of encoders like SigLIP, that of its
    vision tower. Raises a BackboneError if it cannot be read, its family has no row in
    :data:`VISION`, or the model also writes text."""
    config = read_config(directory)
    if config.model_type in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES:
        raise BackboneError(
            f"{directory} is a {config.model_type} model, which combines an encoder and a language "
            f"model; {_DIVIDE}"
        )
    config = getattr(config, "vision_config", config)
    if config.model_type not in VISION:
        raise BackboneError(
            f"{directory} is an image encoder of the unsupported family {config.model_type}; "
            f"choose one of {', '.join(VISION)} (CONTRIBUTING.md says how to add a family)"
        )
    return config


def load_vision(directory: Path) -> Any:
    """Load the image encoder in float32, without a text tower."""
    return load_frozen(
        AutoModel, directory, _HEADS, config=vision_config(directory), dtype=torch.float32
    )


def prefix_tokens(config: Any) -> int:
    """Return the number of states before those of the patches: class token and registers."""
    registers = getattr(config, "num_register_tokens", 0)
    return registers + 1 if VISION[config.model_type].class_token else registers


def final_norm(model: Any) -> nn.LayerNorm:
    """Return the norm that maps the last block's state to the endpoint."""
    return getattr(model, VISION[model.config.model_type].norm)


def patch_grid(config: Any, height: int, width: int) -> tuple[int, int]:
    """Return the rows and columns of patches in a prepared image. Raises a BackboneError if the
    encoder does not take images of this size."""
    if isinstance(config.image_size, int):
        sides = (config.image_size, config.image_size)
    else:
        sides = tuple(config.image_size)
    if (height, width) != sides and not VISION[config.model_type].any_size:
        raise BackboneError(
            f"the image processor produces {height} x {width} pixels, but the {config.model_type} "
            f"encoder takes only {sides[0]} x {sides[1]}; set that size in preprocessor_config.json"
        )
    return height // config.patch_size, width // config.patch_size


def load_text(directory: Path) -> tuple[Any, Any]:
    """Load the model, in float32, and the tokenizer of a text encoder. CXR-BERT's own classes are
    remote code, but its encoder is a plain BERT whose weights load by name. Raises a BackboneError
    if the directory lacks some of its weights."""
    model = load_frozen(BertModel, directory, add_pooling_layer=False, dtype=torch.float32)
    return model, read_pieces(BertTokenizer, directory)


def check_attention(config: Any) -> None:
    """Raise a BackboneError if decoding does not support a language model's attention."""
    if config.model_type not in LANGUAGE:
        raise BackboneError(
            f"decoding does not support language models of the family {config.model_type}; choose "
            f"one of {', '.join(LANGUAGE)} (CONTRIBUTING.md says how to add a family)"
        )


def check_language(directory: Path) -> dict[str, tuple[int, ...]]:
    """Refuse a language model that training or decoding cannot use, without reading weights; return
    the shapes of the weights according to its configuration. Raises a BackboneError if it is not a
    causal language model, or not built like Llama; the message names the difference."""
    config = read_config(directory)
    try:
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config, trust_remote_code=False)
    except Exception as error:  # a configuration can break the construction of a model in any way
        raise BackboneError(
            f"{directory} is a {config.model_type} model, but transformers has no causal language "
            f"model for it ({type(error).__name__}); choose another model"
        ) from None
    if reason := _unlike_llama(model):
        raise BackboneError(
            f"the language model in {directory} ({config.model_type}) cannot be used: {reason}"
        )
    check_attention(config)
    return {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}


def lora_targets(language: Any, targets: list[str] | None) -> list[str]:
    """Return the linear layers that get LoRA: ``targets``, or PEFT's defaults for the model. Raises
    a ConfigError if a target is not a linear layer of the model's blocks, or PEFT has no defaults
    for the model. The head is refused, because the loss reads its weight without calling it, so its
    LoRA would stay zero.

    Args:
        language: a causal language model, possibly on the meta device.
    """
    if targets is None:
        from peft.utils.constants import TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING

        family = language.config.model_type
        defaults = TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING.get(family)
        if not isinstance(defaults, list):
            raise ConfigError(
                f"lora.targets = null uses PEFT's defaults, but PEFT has none for {family}; list "
                "the layers, for example [q_proj, v_proj]"
            )
        targets = defaults
    linear = [
        f".{name}" for name, module in language.named_modules() if isinstance(module, nn.Linear)
    ]
    inside = [name for name in linear if name.startswith(f".{language.base_model_prefix}.")]
    for target in targets:
        if not any(name.endswith(f".{target}") for name in inside):
            known = ", ".join(sorted({name.rsplit(".", 1)[-1] for name in inside}))
            head = any(name.endswith(f".{target}") for name in linear)
            reason = "LoRA gets no gradient in this layer" if head else "there is no such layer"
            raise ConfigError(f"lora.targets: {target}: {reason}; choose from {known}")
    return targets


def check_lora_targets(directory: Path, targets: list[str] | None) -> None:
    """Raise the errors of :func:`lora_targets`, without reading weights."""
    with torch.device("meta"):
        lora_targets(AutoModelForCausalLM.from_config(read_config(directory)), targets)


def _unlike_llama(model: Any) -> str | None:
    """Return the reason why a causal language model cannot be used, with the requirement; None if
    it can be used."""
    config = model.config
    layers = getattr(getattr(model, "model", None), "layers", ())
    usable = [hasattr(layer, "self_attn") and hasattr(layer, "mlp") for layer in layers]
    if not len(layers) or not all(usable):
        writes_text = config.model_type in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
        remedy = f"; {_DIVIDE}" if writes_text else ""
        return f"it must have blocks with attention and an MLP in `model.layers`{remedy}"
    if any("expert" in name or "router" in name for name, _ in layers[-1].mlp.named_modules()):
        return "it is a mixture of experts; use a dense model"
    if not isinstance(getattr(model, "lm_head", None), nn.Linear) or model.lm_head.bias is not None:
        return "its logits must come from a linear `lm_head` without bias"
    changed = [name for name in _LOGITS if getattr(config, name, None) not in (None, 1, 1.0)]
    if changed:
        return f"it transforms its logits ({changed[0]}), which the losses do not support"
    return None
