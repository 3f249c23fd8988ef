"""States of images and previous reports as a feature store would return them, but computed on request."""

from collections.abc import Sequence

import torch
from torch import Tensor

from pacer.features.encoder import ImageEncoder, TextEncoder
from pacer.features.store import DTYPES, as_stored


class CaseFeatures:
    """A :class:`pacer.model.batch.FeatureSource` for prepared images in memory.

    Each image and each text is encoded by itself, so other cases do not change a single bit of a report. States are
    rounded as in the store that the model was trained on.

    Args:
        dtype: type of the stored states (``features.dtype``).

    Attributes:
        levels: the prepared images [1 or 3, H, W] uint8 of the cases that are not done, by image id.
    """

    def __init__(self, images: ImageEncoder, texts: TextEncoder, dtype: str):
        self.images, self.texts, self.dtype = images, texts, DTYPES[dtype]
        self.levels: dict[str, Tensor] = {}

    def depth_states(self, image_ids: Sequence[str]) -> Tensor:
        """Return the states of images [B, K, N, d_v], on the CPU."""
        states = [self.images.encode_levels(self.levels[name].unsqueeze(0)) for name in image_ids]
        return as_stored(torch.cat(states), self.dtype, image_ids).cpu()

    def prior_states(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Return the states of previous reports [B, L, d_text] and the mask [B, L], on the CPU."""
        states, masks = zip(*(self.texts.encode([text]) for text in texts), strict=True)
        stored = as_stored(torch.cat(states), self.dtype, ["the previous report"] * len(texts))
        return stored.cpu(), torch.cat(masks).cpu()
