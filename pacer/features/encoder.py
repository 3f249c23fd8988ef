"""The frozen encoders: images to hidden states at the tapped depths, previous reports to text
states.

Images are prepared bit-equal to the values of the encoder's own processor, usually in far less
time. A radiograph is grey, and most processors treat its three equal channels alike. So only one
plane is resized and cropped here. The remaining steps depend only on a pixel's level, so they are
replaced by a table of 256 values per channel, which the processor computes. A processor that works
differently is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageChops
from torch import Tensor
from transformers import AutoImageProcessor, ViTImageProcessorPil

from pacer.backbones.families import load_text, load_vision, patch_grid, prefix_tokens
from pacer.backbones.pointers import fingerprint, from_files, resolve
from pacer.core.errors import BackboneError, DataError
from pacer.core.io import read_json
from pacer.features.store import DTYPES, FeatureStore, as_stored

#: Increased by every change that may give other values for a file; part of each image's key.
PREPARATION_VERSION = 2  # 2: an EXIF orientation is applied
#: Processors that need torchvision, and the ones that do the same steps with Pillow. DINOv3's
#: resizes floats; using 8 bits changes a level by less than 1.
_WITH_PILLOW = {"DINOv3ViTImageProcessor": ViTImageProcessorPil}


class Preparation:
    """Process an image as the image processor in an encoder's directory processes the RGB image.

    All settings are the processor's, which may only resize and crop, then map each level of a
    channel to a value. Raises a BackboneError if the processor refuses images, or does anything
    else.

    Args:
        directory: Hugging Face directory with the processor's ``preprocessor_config.json``.
    """

    def __init__(self, directory: Path):
        self.processor = _read_processor(directory)
        wide = np.random.default_rng(0).integers(0, 256, (40, 67, 3), dtype=np.uint8)
        tall = np.random.default_rng(0).integers(0, 256, (67, 40, 3), dtype=np.uint8)
        noise = [Image.fromarray(wide), Image.fromarray(tall)]
        try:
            expected = [
                self.processor(images=image, return_tensors="pt")["pixel_values"][0]
                for image in noise
            ]
            self._table = _table(self.processor)
            same = all(
                torch.equal(self.values(self.levels(image)), values)
                for image, values in zip(noise, expected)
            )
        except (AttributeError, IndexError, RuntimeError, TypeError, ValueError) as error:
            raise BackboneError(
                f"the image processor in {directory} cannot be reproduced: {error}"
            ) from None
        first, second = expected
        if not same or first.shape != second.shape or not first.is_floating_point():
            raise BackboneError(
                f"the image processor in {directory} cannot be reproduced: it must resize or crop "
                "images to one size, then rescale or normalise them, and do nothing else"
            )
        #: Height and width of a prepared image.
        self.size = (first.shape[1], first.shape[2])
        #: Their product.
        self.pixels = self.size[0] * self.size[1]

    def __str__(self) -> str:
        return f"{type(self.processor).__name__}, {self.size[0]} x {self.size[1]}, followed exactly"

    def levels(self, image: Image.Image) -> Tensor:
        """Resize and crop a decoded image of mode "L" or "RGB": [1, H, W] uint8 if its channels are
        equal, else [3, H, W].

        Scaling during JPEG decoding (Pillow's ``draft``) would be faster, but gives other levels.
        """
        if image.mode == "RGB":  # files often store grey pictures as RGB
            red, green, blue = image.split()
            # Pillow resizes channels independently, in integers, so a single plane gives the same
            # result as each of three
            if all(ImageChops.difference(red, other).getbbox() is None for other in (green, blue)):
                image = red
        if self.processor.do_resize:
            image = image.resize(self._resized(*image.size), resample=self.processor.resample)
        planes = np.atleast_3d(np.asarray(image)).transpose(2, 0, 1)
        if self.processor.do_center_crop:
            planes = self.processor.center_crop(planes, self.processor.crop_size)
        return torch.from_numpy(planes.copy())  # contiguous, in separate memory

    def values(self, levels: Tensor) -> Tensor:
        """Rescale and normalise levels: [..., 1 or 3, H, W] uint8 on any device -> [..., 3, H, W]
        float32, bit-equal to the processor's ``pixel_values``."""
        table = self._table.to(levels.device)
        if levels.shape[-3] == 1 and torch.equal(self._table, self._table[:1].expand(3, -1)):
            return _looked_up(table[0], levels).expand(*levels.shape[:-3], 3, -1, -1).contiguous()
        planes = levels.expand(*levels.shape[:-3], 3, -1, -1).unbind(-3)
        return torch.stack([_looked_up(row, plane) for row, plane in zip(table, planes)], dim=-3)

    def _resized(self, width: int, height: int) -> tuple[int, int]:
        """Return width and height after resizing, before cropping."""
        size = self.processor.size
        if size.height and size.width:
            return size.width, size.height
        if size.longest_edge or size.max_height:
            raise ValueError(f"size is {dict(size)}; expected shortest_edge, or height and width")
        longest = int(size.shortest_edge * max(width, height) / min(width, height))
        return (size.shortest_edge, longest) if width <= height else (longest, size.shortest_edge)


def _read_processor(directory: Path) -> Any:
    """Read the image processor of a directory in its Pillow version."""
    path = directory / "preprocessor_config.json"
    settings = read_json(path) if path.is_file() else {}
    name = str(settings.get("image_processor_type")).removesuffix("Fast")
    if name in _WITH_PILLOW:
        return from_files(_WITH_PILLOW[name], directory)
    return from_files(AutoImageProcessor, directory, backend="pil")


def _looked_up(row: Tensor, plane: Tensor) -> Tensor:
    return row.index_select(0, plane.reshape(-1).int()).view(plane.shape)


def _table(processor: Any) -> Tensor:
    """Return the processor's value for each level in each channel: [3, 256] float32."""
    levels = np.broadcast_to(np.arange(256, dtype=np.uint8), (3, 1, 256))
    rgb = Image.fromarray(np.ascontiguousarray(np.moveaxis(levels, 0, -1)))
    output = processor(images=rgb, do_resize=False, do_center_crop=False, return_tensors="pt")
    return output["pixel_values"][0, :, 0]


class ImageEncoder:
    """Patch states of a frozen encoder at selected depths.

    Depths are counted in blocks: depth k is the output of block k, before the final LayerNorm
    (``hidden_states[k]`` of transformers, whose entry 0 is the embedding). The class token and
    registers, as the family and configuration define them, are dropped; patches stay in row-major
    order. Raises a BackboneError as :class:`Preparation` does, or if the encoder's family is
    unknown or does not take images of the prepared size.

    Args:
        directory: Hugging Face directory of the encoder and its image processor.
        depths: ascending, ending with the last block, from which the endpoint is computed (it is
            never stored).
        precision: of the arithmetic. ``float32``, or ``bfloat16`` for matrix products only
            (autocast).
    """

    def __init__(
        self,
        directory: Path,
        depths: Sequence[int],
        device: torch.device | str = "cpu",
        precision: str = "float32",
    ):
        self.preparation = Preparation(directory)
        self.model = load_vision(directory).eval().requires_grad_(False).to(device)
        #: Rows and columns of the patches.
        self.grid = patch_grid(self.model.config, *self.preparation.size)
        self.depths = list(depths)
        self.device = torch.device(device)
        self.precision = precision
        # else the convolution that cuts patches would be the only float32 product in TF32
        torch.backends.cudnn.allow_tf32 = False

    def encode_levels(self, levels: Tensor) -> Tensor:
        """Encode prepared images [B, 1 or 3, H, W] uint8, as :meth:`encode` does their values."""
        return self.encode(self.preparation.values(levels.to(self.device)))

    @torch.no_grad()
    def encode(self, pixels: Tensor) -> Tensor:
        """Encode pixels: [B, 3, H, W] -> [B, K, N, d_v] float32 on the encoder's device."""
        with _arithmetic(self.device, self.precision):
            states = self.model(
                pixel_values=pixels.to(self.device), output_hidden_states=True
            ).hidden_states
        before = prefix_tokens(self.model.config)
        return torch.stack([states[depth][:, before:].float() for depth in self.depths], dim=1)


class TextEncoder:
    """States of all ``tokens`` positions of a frozen text encoder, padding included (upstream
    attends to it), and mask. Raises a BackboneError if the directory lacks some of the encoder's
    weights."""

    def __init__(
        self,
        directory: Path,
        tokens: int,
        device: torch.device | str = "cpu",
        precision: str = "float32",
    ):
        model, self.tokenizer = load_text(directory)
        self.model: Any = model.eval().requires_grad_(False).to(device)
        self.tokens = tokens
        self.device = torch.device(device)
        self.precision = precision

    @torch.no_grad()
    def encode(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Encode texts: B texts -> [B, L, d_text] float32 and mask [B, L] bool, on the encoder's
        device."""
        inputs = self.tokenizer(
            list(texts),
            padding="max_length",
            truncation=True,
            max_length=self.tokens,
            return_tensors="pt",
        ).to(self.device)
        with _arithmetic(self.device, self.precision):
            states = self.model(**inputs).last_hidden_state
        return states.float(), inputs["attention_mask"].bool()


def _arithmetic(device: torch.device, precision: str) -> torch.autocast:
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bfloat16")


#: Images encoded at a time.
_AT_ONCE = 32


def open_features(
    directory: Path, backbones: Path, device: torch.device | str
) -> FeatureStore | OnlineStates:
    """Open the features in ``directory``. Raises a DataError as
    :class:`pacer.features.store.FeatureStore` does, or if the store was made with other encoders.

    Args:
        backbones: frozen models; a store of pixels needs their image encoder.
        device: where the encoder runs.
    """
    store = FeatureStore(directory)
    for name, made_for in store.encoding.encoders.items():
        if made_for != fingerprint(backbones / name):
            raise DataError(
                f"{directory} was computed with an encoder other than {backbones / name}; rerun "
                "the `features` stage, which reuses what does not depend on that encoder"
            )
    if store.encoding.mode == "states":
        return store
    vision = resolve(backbones / "vision")
    encoder = ImageEncoder(vision, store.encoding.depths, device, store.encoding.precision)
    return OnlineStates(store, encoder)


class OnlineStates:
    """The states of a store of pixels, computed on demand by the frozen encoder.

    They are rounded as in a store of states, so both give the same tensors, except where the
    encoder's results depend on the batch or the device. Threads may share an instance; it cannot be
    sent to other processes.
    """

    def __init__(self, store: FeatureStore, encoder: ImageEncoder):
        self.store = store
        self.encoder = encoder
        # threads encoding at the same time would only slow each other down
        self._one_at_a_time = Lock()

    def depth_states(self, image_ids: Sequence[str]) -> Tensor:
        """Return states [B, K, N, d] of several images on the CPU, in the stored type; repeats
        allowed."""
        distinct = list(dict.fromkeys(image_ids))
        parts = [distinct[start : start + _AT_ONCE] for start in range(0, len(distinct), _AT_ONCE)]
        dtype = DTYPES[self.store.encoding.dtype]
        encoded = []
        for part in parts:
            levels = self.store.pixels(part)
            names = [f"image {name}" for name in part]
            with self._one_at_a_time:
                states = self.encoder.encode_levels(levels)
                encoded.append(as_stored(states, dtype, names))
        return torch.cat(encoded).cpu()[[distinct.index(image_id) for image_id in image_ids]]

    def prior_states(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """As :meth:`pacer.features.store.FeatureStore.prior_states`."""
        return self.store.prior_states(texts)
