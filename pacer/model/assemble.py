"""Build the model from backbone directories and parameters, or from a checkpoint."""

from pathlib import Path

import torch
from torch import nn
from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerBase

from pacer.backbones.families import final_norm, load_vision
from pacer.backbones.pointers import fingerprint, load_frozen, resolve
from pacer.backbones.tokenizer import read_tokenizer
from pacer.core.errors import ConfigError
from pacer.core.io import read_json
from pacer.model.calibrate import PrefixCalibrator
from pacer.model.checkpoint import (
    CheckpointRecord,
    ModelSpecification,
    check_frozen,
    load_strictly,
    load_weights,
)
from pacer.model.interface import SourceInterface
from pacer.model.pacer import Pacer
from pacer.model.refine import build_router

FROZEN = ("vision", "language", "text")


def load_tokenizer(backbones: str | Path) -> PreTrainedTokenizerBase:
    """Read the language model's tokenizer with
    :func:`~pacer.backbones.tokenizer.read_tokenizer`."""
    return read_tokenizer(resolve(Path(backbones) / "language"))


def load_endpoint_norm(vision: Path) -> nn.LayerNorm:
    """Read the vision encoder's final LayerNorm. Raises a BackboneError as
    :func:`~pacer.backbones.families.load_vision` does."""
    # transformers initialises an unused head that the files lack at random, which must not change
    # the random numbers that the trained parts start from
    with torch.random.fork_rng(devices=[]):
        return final_norm(load_vision(vision))


def frozen_fingerprints(backbones: str | Path) -> dict[str, str]:
    """Return the fingerprint of each frozen model that the trained weights depend on."""
    return {name: fingerprint(Path(backbones) / name) for name in FROZEN}


def build_model(
    backbones: str | Path, specification: ModelSpecification, dtype: torch.dtype = torch.float32
) -> Pacer:
    """Build a model with newly initialised trainable parts around the frozen ones.

    Args:
        backbones: the output directory of the ``backbones`` stage.
        dtype: of the frozen language model, which is mapped from its files. If they have this type,
            processes on one machine share its pages. Trainable parts are float32.
    """
    backbones = Path(backbones)
    vision, text = (resolve(backbones / name) for name in ("vision", "text"))
    language = load_frozen(AutoModelForCausalLM, resolve(backbones / "language"), dtype=dtype)
    d_text = read_json(text / "config.json")["hidden_size"]
    return from_modules(language, load_endpoint_norm(vision), d_text, specification)


def from_modules(
    language: PreTrainedModel,
    endpoint_norm: nn.LayerNorm,
    d_text: int,
    specification: ModelSpecification,
) -> Pacer:
    """Build new trainable parts around frozen modules, as :func:`build_model`. The meta device
    allocates nothing. Raises a ConfigError if ``interface.num_heads`` or ``lora.targets`` do not
    fit the frozen models."""
    d_model = language.config.hidden_size
    d_vision = endpoint_norm.normalized_shape[0]
    if d_vision % specification.interface.num_heads:
        heads = specification.interface.num_heads
        raise ConfigError(
            f"interface.num_heads ({heads}) must divide the width of the vision encoder "
            f"({d_vision})"
        )
    depths = specification.features.depths
    router = build_router(
        num_depths=len(depths), d_vision=d_vision, **specification.refine.model_dump()
    )
    interface = SourceInterface(d_vision, d_text, d_model, **specification.interface.model_dump())
    calibrator = None
    if specification.calibrate is not None and specification.calibrate.gate_inputs != "none":
        calibrator = PrefixCalibrator(d_model, **specification.calibrate.model_dump())
    pacer = Pacer(language, endpoint_norm, router, interface, calibrator)
    if specification.lora is not None:
        pacer.add_lora(**specification.lora.model_dump())
    return pacer


def load_model(
    checkpoint: str | Path, backbones: str | Path, dtype: torch.dtype | None = None
) -> tuple[Pacer, CheckpointRecord]:
    """Load a trained model for inference: in eval mode, LoRA merged. Raises a CheckpointError if
    weights do not fit, or the frozen models are not those the checkpoint was trained on.

    Args:
        dtype: of the frozen language model; None: as in training.
    """
    record, weights = load_weights(checkpoint)
    check_frozen(record, frozen_fingerprints(backbones), checkpoint)
    model = build_model(backbones, record.model, dtype or getattr(torch, record.precision))
    load_strictly(model, weights, checkpoint)
    model.eval().requires_grad_(False)
    model.merge_lora()
    return model, record
