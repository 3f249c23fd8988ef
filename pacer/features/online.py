"""Features as training and decoding use them, whether a store keeps states or pixels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Lock

import torch
from torch import Tensor

from pacer.backbones.pointers import fingerprint, resolve
from pacer.core.errors import DataError
from pacer.features.encoder import ImageEncoder
from pacer.features.store import DTYPES, FeatureStore, as_stored

#: Images that are encoded at a time.
_AT_ONCE = 32


def open_features(directory: Path, backbones: Path, device: torch.device | str) -> FeatureStore | OnlineStates:
    """The features in ``directory``.

    Args:
        backbones: frozen models; a store of pixels needs its image encoder. device: where that runs.

    Raises:
        DataError: as :class:`pacer.features.store.FeatureStore`; or the encoders are not those of the store.
    """
    store = FeatureStore(directory)
    for name, made_for in store.encoding.encoders.items():
        if made_for != fingerprint(backbones / name):
            raise DataError(
                f"{directory} was made with an encoder other than {backbones / name}; run the features stage again, "
                "which reuses what does not depend on it, or name a new folder with `pacer decode --features`"
            )
    if store.encoding.mode == "states":
        return store
    return OnlineStates(
        store, ImageEncoder(resolve(backbones / "vision"), store.encoding.depths, device, store.encoding.precision)
    )


class OnlineStates:
    """The states of a store of pixels, made by the frozen encoder when they are asked for.

    They are rounded as a store of states would have them, so both give the same tensors, but for what the encoder
    computes in another way in other batches or on another device. Threads may ask at once; it does not go to other
    processes.
    """

    def __init__(self, store: FeatureStore, encoder: ImageEncoder):
        self.store, self.encoder = store, encoder
        self._one_at_a_time = Lock()  # threads that make batches would only slow each other down

    def depth_states(self, image_ids: Sequence[str]) -> Tensor:
        """States [B, K, N, d] of several images on the CPU, typed as those of a store of states; repeats allowed."""
        distinct = list(dict.fromkeys(image_ids))
        parts = [distinct[start : start + _AT_ONCE] for start in range(0, len(distinct), _AT_ONCE)]
        states = torch.cat([self._encoded(part) for part in parts]).cpu()
        return states[[distinct.index(image_id) for image_id in image_ids]]

    def prior_states(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """As :meth:`pacer.features.store.FeatureStore.prior_states`."""
        return self.store.prior_states(texts)

    def _encoded(self, image_ids: list[str]) -> Tensor:
        levels, dtype = self.store.pixels(image_ids), DTYPES[self.store.encoding.dtype]
        with self._one_at_a_time:
            return as_stored(self.encoder.encode_levels(levels), dtype, [f"image {name}" for name in image_ids])
