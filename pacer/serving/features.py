"""States of images and previous reports as a feature store would give them, made when they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from pacer.core.io import hash_bytes
from pacer.features.encoder import ImageEncoder, TextEncoder
from pacer.features.store import DTYPES, as_stored


class CaseFeatures:
    """What :class:`pacer.model.pacer.FeatureSource` asks for, of prepared images in memory.

    An image and a text are each encoded alone, so a report is the same to the last bit in whatever company its case
    comes, and rounded as the store rounds that the model was trained on.

    Args:
        dtype: type of the stored states (``features.dtype``).
    """

    def __init__(self, images: ImageEncoder, texts: TextEncoder, dtype: str):
        self.images, self.texts, self.dtype = images, texts, DTYPES[dtype]
        self._levels: dict[str, Tensor] = {}
        # the two views and the previous report of one case, which its contexts share
        self._image, self._text = lru_cache(2)(self._encoded_image), lru_cache(1)(self._encoded_text)

    def show(self, *levels: Tensor | None) -> list[str | None]:
        """Make prepared images [1 or 3, H, W] uint8, and no others, known by the ids that are returned."""
        ids = [None if image is None else hash_bytes(image.numpy().tobytes()) for image in levels]
        self._levels = {name: image for name, image in zip(ids, levels, strict=True) if name and image is not None}
        return ids

    def depth_states(self, image_ids: Sequence[str]) -> Tensor:
        """[B, K, N, d_v] on the CPU."""
        return torch.cat([self._image(name) for name in image_ids])

    def prior_states(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """[B, L, d_text] and the mask [B, L], on the CPU."""
        states, masks = zip(*map(self._text, texts), strict=True)
        return torch.cat(states), torch.cat(masks)

    def _encoded_image(self, name: str) -> Tensor:
        return as_stored(self.images.encode_levels(self._levels[name].unsqueeze(0)), self.dtype, ["the image"]).cpu()

    def _encoded_text(self, text: str) -> tuple[Tensor, Tensor]:
        states, mask = self.texts.encode([text])
        return as_stored(states, self.dtype, ["the previous report"]).cpu(), mask.cpu()
