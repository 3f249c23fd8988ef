"""Images are prepared to the bits of the encoder's own processor, from every kind of file, or refused by name."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch import Tensor
from transformers import BitImageProcessorPil

from pacer.core.errors import BackboneError
from pacer.data.radiographs import image_header, open_image
from pacer.features.encoder import Preparation
from tests.support.cases import listed_cases
from tests.support.families import ENCODERS, write_encoder

#: The published configuration of microsoft/rad-dino, and what makes it small, with channels that differ.
(RAD_DINO,), (SMALL,) = (param.values for param in listed_cases(__file__, "processors"))
RNG = np.random.default_rng(0)


def write_config(directory: Path, **changes: Any) -> Path:
    """RAD-DINO's configuration with these changes."""
    directory.mkdir(exist_ok=True)
    (directory / "preprocessor_config.json").write_text(json.dumps(RAD_DINO | changes))
    return directory


@pytest.fixture(scope="module")
def rad_dino(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_config(tmp_path_factory.mktemp("rad-dino"))


def small(directory: Path, **changes: Any) -> Path:
    """The same at a size that takes no time."""
    return write_config(directory, **SMALL | changes)


def processed(directory: Path, image: Image.Image) -> Tensor:
    """What the processor makes of the RGB image."""
    processor = BitImageProcessorPil.from_pretrained(directory)
    return processor(images=image.convert("RGB"), return_tensors="pt")["pixel_values"][0]


def assert_prepared(directory: Path, path: Path, image: Image.Image | None = None) -> Tensor:
    """The file is prepared as the processor does with ``image`` (left out: with the decoded file)."""
    preparation = Preparation(directory)
    found = preparation.values(preparation.levels(open_image(path)))
    expected = processed(directory, image or open_image(path))
    assert found.dtype == torch.float32 and found.is_contiguous()
    assert torch.equal(found, expected)
    return found


def noise(width: int, height: int, channels: int = 1) -> Image.Image:
    shape = (height, width) if channels == 1 else (height, width, channels)
    return Image.fromarray(RNG.integers(0, 256, shape, dtype=np.uint8))


def tinted() -> Image.Image:
    """Grey but for one level of one pixel."""
    levels = np.array(noise(300, 200).convert("RGB"))
    levels[199, 299, 2] ^= 1
    return Image.fromarray(levels)


#: Images, how they are saved, whether at RAD-DINO's size, and the planes of their levels.
FILES = [
    *(
        (noise(*size), {"format": "JPEG", "quality": quality}, True, 1)
        for size in ((518, 518), (256, 256), (700, 600), (519, 1037), (40, 530))
        for quality in (30, 95)
    ),
    (tinted(), {"format": "PNG"}, True, 3),
    *(  # damaged blocks, which turn nothing
        (noise(60, 90), {"format": "JPEG", "exif": block}, True, 1)
        for block in (b"Exif\0\0rubbish", b"Exif\0\0II*\0\xff\xff\xff\xff", b"Exif\0\0")
    ),
    *(
        (noise(*size, planes), {"format": "PNG"}, False, planes)
        for size in ((14, 14), (14, 15), (15, 14), (1400, 14), (14, 1400), (4000, 40))
        for planes in (1, 3)
    ),
]


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
@pytest.mark.parametrize(("image", "saved", "published", "planes"), FILES)
def test_files(rad_dino: Path, tmp_path: Path, image: Image.Image, saved: dict, published: bool, planes: int) -> None:
    directory, path = rad_dino if published else small(tmp_path), tmp_path / "file"
    image.save(path, **saved)
    with Image.open(path) as plain:
        values = assert_prepared(directory, path, plain)
    assert values.isfinite().all() and image_header(path)[:2] == image.size
    assert Preparation(directory).levels(open_image(path)).shape == (planes, *values.shape[1:])


FORMATS = dict.fromkeys(("1", "L", "LA", "P", "RGB", "RGBA", "grey RGB", "grey P"), "png")
FORMATS |= dict.fromkeys(("I;16", "CMYK", "F", "grey CMYK"), "tif")
SWITCHES = [{}, *({f"do_{step}": False} for step in ("rescale", "normalize", "resize", "convert_rgb"))]
SWITCHES += [{"rescale_factor": 1 / 127.5}]


@given(
    width=st.integers(14, 100),
    height=st.integers(14, 100),
    mode=st.sampled_from(sorted(FORMATS)),
    seed=st.integers(0, 99),
    resample=st.sampled_from([0, 1, 2, 3, 4, 5]),
    crop=st.tuples(*[st.integers(1, 33)] * 2),
    size=st.one_of(
        st.integers(1, 33).map(lambda edge: {"shortest_edge": edge}),
        st.tuples(*[st.integers(1, 33)] * 2).map(lambda s: {"height": s[0], "width": s[1]}),
    ),
    switches=st.sampled_from(SWITCHES),
)
def test_any_size_mode_and_configuration(
    tmp_path_factory: pytest.TempPathFactory, width: int, height: int, mode: str, seed: int, resample: int,
    crop: tuple[int, int], size: dict[str, int], switches: dict[str, Any],
) -> None:  # fmt: skip
    folder = tmp_path_factory.mktemp("any")
    directory = small(folder, size=size, resample=resample, crop_size={"height": crop[0], "width": crop[1]}, **switches)
    rng = np.random.default_rng(seed)
    if mode in ("I;16", "F"):
        image = Image.fromarray((rng.random((height, width)) * 9999).astype(np.uint16 if mode == "I;16" else "f4"))
    else:
        image = Image.fromarray(rng.integers(0, 256, (height, width, 4), dtype=np.uint8), "RGBA")
        if mode not in ("RGBA", "LA"):
            image = image.convert("RGB")
        if mode.startswith("grey"):
            image = image.convert("L")
        image = image.convert(mode.removeprefix("grey "))
    path = folder / f"a.{FORMATS[mode]}"
    image.save(path)
    assert assert_prepared(directory, path).shape == (3, *crop)
    colours = np.array(open_image(path).convert("RGB"))
    assert len(Preparation(directory).levels(open_image(path))) == (1 if (colours == colours[..., :1]).all() else 3)


def test_batches_of_levels_and_one_by_one(tmp_path: Path) -> None:
    preparation = Preparation(small(tmp_path))
    for channels in (1, 3):
        batch = torch.randint(0, 256, (2, 4, channels, 5, 6), dtype=torch.uint8)
        values = preparation.values(batch)
        assert values.shape == (2, 4, 3, 5, 6)
        assert torch.equal(values[1, 2], preparation.values(batch[1, 2]))


@pytest.mark.parametrize("changes", listed_cases(__file__, "refused"))
def test_a_processor_that_does_anything_else_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(BackboneError, match=rf"the image processor in {tmp_path} cannot be reproduced: "):
        Preparation(small(tmp_path, **changes))


def test_processors_of_all_families_are_followed(tmp_path: Path) -> None:
    noise(300, 200, 3).save(tmp_path / "a.png")
    for family in ENCODERS:
        preparation = Preparation(write_encoder(family, tmp_path / family))
        image = open_image(tmp_path / "a.png")
        expected = preparation.processor(images=image, return_tensors="pt")["pixel_values"][0]
        assert torch.equal(preparation.values(preparation.levels(image)), expected)


def test_dinov3_is_prepared_in_8_bits(tmp_path: Path) -> None:
    """Its own processor, which needs torchvision, resizes fractions: no level is one grey level away."""
    preparation = Preparation(write_encoder("dinov3_vit", tmp_path))
    image = noise(300, 200, 3)
    fractions = torch.from_numpy(np.array(image)).permute(2, 0, 1)[None] / 255
    own = torch.nn.functional.interpolate(fractions, preparation.size, mode="bilinear", antialias=True)[0]
    assert (preparation.levels(image) - 255 * own).abs().max() < 1
