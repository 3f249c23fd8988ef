"""Images as the frozen encoder expects them: the values of its own processor, bit for bit, in far less time.

A radiograph is grey, and the processor treats its three equal channels alike. So one plane is resized and cropped here.
What follows is a function of a pixel's level alone: a table of 256 values a channel, which the processor makes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageChops
from torch import Tensor
from transformers import AutoImageProcessor

from pacer.backbones.pointers import from_files
from pacer.core.errors import BackboneError
from pacer.data.radiographs import open_image

#: Counts the changes after which a file may give other values; part of each image's key.
VERSION = 2  # 2: an EXIF orientation is applied


class Preparation:
    """Decode an image and process it as the image processor of an encoder's directory does with the RGB image.

    Every setting is the processor's own. A processor that cannot be followed bit for bit is refused and not called in
    place of this: features would take up to three times as long without notice, and the levels could not be kept alone.

    Args:
        directory: Hugging Face directory with the processor's ``preprocessor_config.json``.

    Attributes:
        pixels: of a prepared image.

    Raises:
        BackboneError: the processor does something else than resize and crop images to one size and give each level of
            a channel a value.
    """

    def __init__(self, directory: Path):
        self.processor: Any = from_files(AutoImageProcessor, directory, backend="pil")
        try:
            self._table = _table(self.processor)
            wide, high = (self._follows(width, height) for width, height in ((67, 40), (40, 67)))
        except (AttributeError, RuntimeError, TypeError, ValueError) as error:
            raise BackboneError(f"the image processor of {directory} refuses an image: {error}") from None
        if not self._table.is_floating_point() or wide is None or wide != high:
            raise BackboneError(
                f"the image processor of {directory} cannot be followed exactly: it must resize or crop images to one "
                "size, then rescale or normalise them, without padding, as BitImageProcessor does"
            )
        self.pixels = wide.numel()

    def _follows(self, width: int, height: int) -> torch.Size | None:
        """Height and width of an image of noise as the processor gives it; None where this gives other values."""
        noise = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
        expected = self.processor(images=Image.fromarray(noise), return_tensors="pt")["pixel_values"][0]
        same = torch.equal(self.values(self.levels_of(Image.fromarray(noise))), expected)
        return expected.shape[1:] if same else None

    def __call__(self, path: str | Path) -> Tensor:
        """One image file -> [3, H, W] float32, bit-equal to the processor's ``pixel_values``; as :meth:`levels`."""
        return self.values(self.levels(path))

    def levels(self, path: str | Path) -> Tensor:
        """One image file, resized and cropped: [1, H, W] uint8 where its channels are equal, else [3, H, W].

        Raises:
            ImageError: the file cannot be used (see :func:`pacer.data.radiographs.open_image`).
        """
        return self.levels_of(open_image(path))

    def levels_of(self, image: Image.Image) -> Tensor:
        """A decoded image of mode "L" or "RGB", resized and cropped: [1, H, W] uint8 if grey, else [3, H, W].

        JPEG's own scaling while decoding (Pillow's ``draft``) is faster, but gives other levels.
        """
        # Pillow resizes each channel by itself, in integers: a plane alone comes out as it does among three
        image = _one_plane(image)
        if self.processor.do_resize:
            image = image.resize(self._resized(*image.size), resample=self.processor.resample)
        planes = np.atleast_3d(np.asarray(image)).transpose(2, 0, 1)
        if self.processor.do_center_crop:
            planes = self.processor.center_crop(planes, self.processor.crop_size)
        return torch.from_numpy(planes.copy())  # its own memory, in order

    def values(self, levels: Tensor) -> Tensor:
        """[..., 1 or 3, H, W] uint8 on any device -> [..., 3, H, W] float32, rescaled and normalised."""
        table = self._table.to(levels.device)
        if levels.shape[-3] == 1 and torch.equal(self._table, self._table[:1].expand(3, -1)):
            return _looked_up(table[0], levels).expand(*levels.shape[:-3], 3, -1, -1).contiguous()
        planes = levels.expand(*levels.shape[:-3], 3, -1, -1).unbind(-3)
        return torch.stack([_looked_up(row, plane) for row, plane in zip(table, planes)], dim=-3)

    def _resized(self, width: int, height: int) -> tuple[int, int]:
        """Width and height after resizing, before cropping."""
        size = self.processor.size
        if size.height and size.width:
            return size.width, size.height
        if size.longest_edge or size.max_height:
            raise ValueError(f"size is {dict(size)}, not shortest_edge, nor height and width")
        longest = int(size.shortest_edge * max(width, height) / min(width, height))
        return (size.shortest_edge, longest) if width <= height else (longest, size.shortest_edge)


def _looked_up(row: Tensor, plane: Tensor) -> Tensor:
    return row.index_select(0, plane.reshape(-1).int()).view(plane.shape)


def _one_plane(image: Image.Image) -> Image.Image:
    """An RGB image whose channels are equal as mode "L": files often hold a grey picture that way."""
    if image.mode == "L":
        return image
    red, green, blue = image.split()
    same = all(ImageChops.difference(red, other).getbbox() is None for other in (green, blue))
    return red if same else image


def _table(processor: Any) -> Tensor:
    """What the processor makes of each level in each channel: [3, 256] float32."""
    levels = np.broadcast_to(np.arange(256, dtype=np.uint8), (3, 1, 256))
    rgb = Image.fromarray(np.ascontiguousarray(np.moveaxis(levels, 0, -1)))
    values = processor(images=rgb, do_resize=False, do_center_crop=False, return_tensors="pt")["pixel_values"]
    return values[0, :, 0]
