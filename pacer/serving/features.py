"""States of images and previous reports as a feature store would give them, computed when they are asked for."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pacer.features.encoder import ImageEncoder, TextEncoder
from pacer.features.store import DTYPES, as_stored


class CaseFeatures:
    """What :class:`pacer.model.pacer.FeatureSource` asks for, of prepared images in memory.

    An image and a text are each encoded alone, so a report is the same to the last bit in whatever company its case
    comes, and rounded as the store rounds that the model was trained on.

    Args:
        dtype: type of the stored states (``features.dtype``).

    Attributes:
        levels: the prepared images [1 or 3, H, W] uint8 of the case in hand by image id.
    """

    def __init__(self, images: ImageEncoder, texts: TextEncoder, dtype: str):
        self.images, self.texts, self.dtype = images, texts, DTYPES[dtype]
        self.levels: dict[str, Tensor] = {}

    def depth_states(self, image_ids: Sequence[str]) -> Tensor:
        """[B, K, N, d_v] on the CPU."""
        states = [self.images.encode_levels(self.levels[name].unsqueeze(0)) for name in image_ids]
        return as_stored(torch.cat(states), self.dtype, image_ids).cpu()

    def prior_states(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """[B, L, d_text] and the mask [B, L], on the CPU."""
        states, masks = zip(*(self.texts.encode([text]) for text in texts), strict=True)
        stored = as_stored(torch.cat(states), self.dtype, ["the previous report"] * len(texts))
        return stored.cpu(), torch.cat(masks).cpu()
