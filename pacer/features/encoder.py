"""The frozen encoders: images to hidden states at the tapped depths, previous reports to text states."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pacer.backbones.families import load_text, load_vision, patch_grid, prefix_tokens
from pacer.features.prepare import Preparation


class ImageEncoder:
    """Patch states of a frozen encoder at selected depths.

    Depths are counted in blocks: depth k is the output of block k, before the final LayerNorm (``hidden_states[k]``
    of transformers, whose entry 0 is the embedding). The class token and registers, as the family and configuration
    define them, are dropped; patches stay in row-major order.

    Args:
        directory: Hugging Face directory of the encoder and its image processor.
        depths: ascending, ending with the last block, from which the endpoint is computed (it is never stored).
        precision: of the arithmetic. ``float32``, or ``bfloat16`` for matrix products only (autocast).

    Raises:
        BackboneError: as :class:`pacer.features.prepare.Preparation`; or the encoder's family is unknown or does not
            take images of the prepared size.

    Attributes:
        grid: rows and columns of the patches.
    """

    def __init__(
        self, directory: Path, depths: Sequence[int], device: torch.device | str = "cpu", precision: str = "float32"
    ):
        self.preparation = Preparation(directory)
        self.model = load_vision(directory).eval().requires_grad_(False).to(device)
        self.grid = patch_grid(self.model.config, *self.preparation.size)
        self.depths, self.device, self.precision = list(depths), torch.device(device), precision
        # else the convolution that cuts patches would be the only float32 product in TF32
        torch.backends.cudnn.allow_tf32 = False

    def encode_levels(self, levels: Tensor) -> Tensor:
        """Encode prepared images [B, 1 or 3, H, W] uint8, as :meth:`encode` does their values."""
        return self.encode(self.preparation.values(levels.to(self.device)))

    @torch.no_grad()
    def encode(self, pixels: Tensor) -> Tensor:
        """Encode pixels: [B, 3, H, W] -> [B, K, N, d_v] float32 on the encoder's device."""
        with _arithmetic(self.device, self.precision):
            states = self.model(pixel_values=pixels.to(self.device), output_hidden_states=True).hidden_states
        before = prefix_tokens(self.model.config)
        return torch.stack([states[depth][:, before:].float() for depth in self.depths], dim=1)


class TextEncoder:
    """States of all ``tokens`` positions of a frozen text encoder, padding included (upstream attends to it), and mask.

    Raises:
        BackboneError: the directory lacks some of the encoder's weights.
    """

    def __init__(self, directory: Path, tokens: int, device: torch.device | str = "cpu", precision: str = "float32"):
        model, self.tokenizer = load_text(directory)
        self.model: Any = model.eval().requires_grad_(False).to(device)
        self.tokens, self.device, self.precision = tokens, torch.device(device), precision

    @torch.no_grad()
    def encode(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Encode texts: B texts -> [B, L, d_text] float32 and mask [B, L] bool, on the encoder's device."""
        inputs = self.tokenizer(
            list(texts), padding="max_length", truncation=True, max_length=self.tokens, return_tensors="pt"
        ).to(self.device)
        with _arithmetic(self.device, self.precision):
            states = self.model(**inputs).last_hidden_state
        return states.float(), inputs["attention_mask"].bool()


def _arithmetic(device: torch.device, precision: str) -> torch.autocast:
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bfloat16")
