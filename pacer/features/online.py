"""Features for training and decoding, from a store of either states or pixels."""

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

#: Images encoded at a time.
_AT_ONCE = 32


def open_features(directory: Path, backbones: Path, device: torch.device | str) -> FeatureStore | OnlineStates:
    """Open the features in ``directory``.

    Args:
        backbones: frozen models; a store of pixels needs their image encoder. device: where the encoder runs.

    Raises:
        DataError: as :class:`pacer.features.store.FeatureStore`; or the store was made with other encoders.
    """
    store = FeatureStore(directory)
    for name, made_for in store.encoding.encoders.items():
        if made_for != fingerprint(backbones / name):
            raise DataError(
                f"{directory} was computed with an encoder other than {backbones / name}; rerun the `features` stage, "
                "which reuses what does not depend on that encoder"
            )
    if store.encoding.mode == "states":
        return store
    return OnlineStates(
        store, ImageEncoder(resolve(backbones / "vision"), store.encoding.depths, device, store.encoding.precision)
    )


class OnlineStates:
    """The states of a store of pixels, computed on demand by the frozen encoder.

    They are rounded as in a store of states. So both give the same tensors, except where the encoder computes
    differently in other batches or on another device. Threads may share an instance; it cannot be sent to other
    processes.
    """

    def __init__(self, store: FeatureStore, encoder: ImageEncoder):
        self.store, self.encoder = store, encoder
        self._one_at_a_time = Lock()  # threads encoding at the same time would only slow each other down

    def depth_states(self, image_ids: Sequence[str]) -> Tensor:
        """Return states [B, K, N, d] of several images on the CPU, in the stored type; repeats allowed."""
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
