"""Images are prepared to the bits of the encoder's own processor; stores of them survive damage,
kills and company."""

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch import Tensor
from transformers import BitImageProcessorPil

from pacer.core.errors import BackboneError, DataError
from pacer.features import encode as build
from pacer.features.encode import Look, picture_checks, read_looks, write_looks
from pacer.features.encoder import ImageEncoder, Preparation
from pacer.features.shards import Entry, take_over, write_shard
from pacer.features.store import IMAGES as IMAGES_INDEX
from pacer.features.store import PRIORS as PRIORS_INDEX
from pacer.features.store import FeatureStore
from pacer.images.greyscale import NOT_AN_IMAGE
from pacer.images.radiographs import image_header, open_image
from tests.support.building import (
    CONFIG,
    IMAGES,
    SHARD,
    TEXTS,
    Setting,
    cut,
    make_images,
    setting,
    shard_of,
)
from tests.support.cases import listed_cases
from tests.support.drive import contents
from tests.support.families import ENCODERS, write_encoder

pytestmark = pytest.mark.usefixtures("messages")

__all__ = ["setting"]


@pytest.fixture
def images(tmp_path: Path) -> pl.DataFrame:
    return make_images(tmp_path)


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Images of each batch that is encoded."""
    batches: list[int] = []
    encode = ImageEncoder.encode
    monkeypatch.setattr(
        ImageEncoder, "encode", lambda self, x: batches.append(len(x)) or encode(self, x)
    )
    return batches


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_shards_are_the_bytes_that_safetensors_writes(tmp_path: Path, dtype: torch.dtype) -> None:
    tensors = {
        "states": torch.randn(7, 2, 3, 5).to(dtype),
        "mask": torch.randint(0, 2, (7, 3)).to(torch.uint8),
    }
    entries = [Entry(f"img{i}", f"key {i}") for i in range(7)]
    for names in (["states"], ["states", "mask"]):
        whole = {name: tensors[name] for name in names}
        batches = ({name: tensor[i : i + 3] for name, tensor in whole.items()} for i in (0, 3, 6))
        write_shard(tmp_path / "shard", entries, batches)
        metadata = {"entries": json.dumps(entries)}
        assert (tmp_path / "shard").read_bytes() == safetensors.torch.save(whole, metadata=metadata)


@pytest.mark.parametrize("harm", [cut, Path.unlink])
def test_a_damaged_shard_is_named_and_it_alone_is_made_again(
    backbones: Path,
    images: pl.DataFrame,
    tmp_path: Path,
    encoded: list[int],
    capsys: pytest.CaptureFixture,
    harm,
) -> None:
    out = tmp_path / "out"
    build.build_store(CONFIG, images, TEXTS, backbones, out)
    before, shard = contents(out), shard_of(out, "img4")
    harm(shard)
    encoded.clear()
    capsys.readouterr()
    build.build_store(CONFIG, images, TEXTS, backbones, out)
    output = capsys.readouterr().out
    assert (f"{shard.name} is damaged: Error while deserializing header" in output) == (harm is cut)
    assert "features: 3 images to encode" in output and "priors" not in output
    assert sum(encoded) == SHARD and contents(out) == before


def test_a_damaged_index_is_made_again(
    backbones: Path, images: pl.DataFrame, tmp_path: Path, encoded: list[int]
) -> None:
    out = tmp_path / "out"
    build.build_store(CONFIG, images, TEXTS, backbones, out)
    before = contents(out)
    cut(out / "images.parquet")
    with pytest.raises(DataError, match=r"images\.parquet is missing or damaged"):
        FeatureStore(out)
    encoded.clear()
    build.build_store(CONFIG, images, TEXTS, backbones, out)
    assert encoded == [] and contents(out) == before


def test_what_is_taken_over_is_linked(
    backbones: Path, images: pl.DataFrame, tmp_path: Path
) -> None:
    """A store of 1.7 TB would not fit on its disk twice."""
    out = tmp_path / "out"
    build.build_store(CONFIG, images, TEXTS, backbones, out)
    before = {path.name: path.stat().st_ino for path in out.glob("*.safetensors")}
    build.build_store(CONFIG, images, [*TEXTS, "new ."], backbones, out)
    after = {path.name: path.stat().st_ino for path in out.glob("*.safetensors")}
    assert len(after) == len(before) + 1 and before.items() <= after.items()


def test_a_shard_that_dvc_linked_is_copied(
    backbones: Path, images: pl.DataFrame, tmp_path: Path
) -> None:
    """Its permissions are those of DVC's cache, and publishing sets those of the store."""
    out = tmp_path / "out"
    build.build_store(CONFIG, images, TEXTS, backbones, out)
    shard, cached = shard_of(out, "img4"), tmp_path / "cached"
    os.link(shard, cached)
    cached.chmod(0o444)
    build.build_store(CONFIG, images, [*TEXTS, "new ."], backbones, out)
    assert cached.stat().st_mode & 0o777 == 0o444 and cached.read_bytes() == shard.read_bytes()


@pytest.mark.parametrize("entries", ['[["img0", "key 0"]]', "5", "[1, 2]", "{", None])
def test_a_shard_that_does_not_say_what_its_rows_are_is_damaged(
    tmp_path: Path, capsys, entries: str | None
) -> None:
    out, scratch = tmp_path / "out", tmp_path / "scratch"
    out.mkdir(), scratch.mkdir()
    metadata = None if entries is None else {"entries": entries}
    safetensors.torch.save_file(
        {"states": torch.zeros(2, 3)}, out / "images-0.safetensors", metadata
    )
    assert take_over(out, scratch, {"images": {"img0": "key 0"}}) == {"images": {}}
    assert "images-0.safetensors is damaged: " in capsys.readouterr().out


def test_the_plan_is_announced(
    backbones: Path,
    images: pl.DataFrame,
    tmp_path: Path,
    encoded: list[int],
    capsys: pytest.CaptureFixture,
) -> None:
    out = tmp_path / "out"
    build.build_store(CONFIG, images, TEXTS, backbones, out)
    assert encoded == [2, 1, 2, 1, 2, 1, 1]
    size = IMAGES * 2 * 16 * 16 * 2 + 5 * (12 * 20 * 2 + 12)
    told = re.search(
        r"10 images and 5 priors to encode; they need ([\d.]+) kB, and [\d.,]+ .B is free",
        capsys.readouterr().out,
    )
    assert told and float(told[1]) * 1e3 == pytest.approx(size, rel=0.01)
    build.build_store(CONFIG, images, TEXTS, backbones, out)
    assert "to encode" not in capsys.readouterr().out


@pytest.mark.parametrize(("changes", "again"), listed_cases(__file__, "settings"))
def test_which_settings_encode_again(
    backbones: Path,
    images: pl.DataFrame,
    tmp_path: Path,
    encoded: list[int],
    changes: dict,
    again: list[str],
) -> None:
    """The tables of the store name the keys by which entries are taken over."""
    out, settings = tmp_path / "out", CONFIG.model_copy(update=changes)
    assert settings != CONFIG
    build.build_store(CONFIG, images, TEXTS, backbones, out)
    before = {
        index: pl.read_parquet(out / index)["key"].to_list()
        for index in (IMAGES_INDEX, PRIORS_INDEX)
    }
    encoded.clear()
    build.build_store(settings, images, TEXTS, backbones, out)
    assert [
        index
        for index, keys in before.items()
        if pl.read_parquet(out / index)["key"].to_list() != keys
    ] == again
    assert IMAGES_INDEX in again or not encoded


def test_unreadable_images_are_listed_and_the_rest_is_kept(
    backbones: Path, images: pl.DataFrame, tmp_path: Path, encoded: list[int]
) -> None:
    build.build_store(CONFIG, images, TEXTS, backbones, tmp_path / "whole")
    paths = dict(images.iter_rows())
    good = {name: Path(paths[name]).read_bytes() for name in ("img1", "img8")}
    Path(paths["img1"]).write_bytes(b"not an image")
    Path(paths["img8"]).unlink()
    encoded.clear()
    with pytest.raises(DataError, match=r"^2 images cannot be read") as refused:
        build.build_store(CONFIG, images, TEXTS, backbones, tmp_path / "out")
    assert str(refused.value).endswith(f"\n  img1: {NOT_AN_IMAGE}\n  img8: the file does not exist")
    assert not (tmp_path / "out").exists() and sum(encoded) == IMAGES - 2
    for name, data in good.items():
        Path(paths[name]).write_bytes(data)
    encoded.clear()
    build.build_store(CONFIG, images, TEXTS, backbones, tmp_path / "out")
    assert encoded == [2]  # the repaired images alone
    assert not Path(f"{tmp_path / 'out'}.scratch").exists()
    same_states(tmp_path / "out", tmp_path / "whole")


def test_what_decoding_tells_joins_the_audit(
    backbones: Path, images: pl.DataFrame, tmp_path: Path
) -> None:
    """One picture in other bytes, and few levels of grey; a second run keeps what the first has
    seen."""
    paths, out = dict(images.iter_rows()), tmp_path / "out"
    Image.open(paths["img0"]).convert("RGB").save(paths["img7"], compress_level=1)
    Image.fromarray(np.indices((70, 64)).sum(0).astype(np.uint8) % 2 * 9).save(paths["img2"])
    patients = pl.Series([f"p{number // 2}" for number in range(IMAGES)])
    splits = pl.Series(["train"] * 6 + ["test"] * 4)
    records = images.select(
        frontal="image_id", study_id="image_id", lateral=None, subject_id=patients, split=splits
    )
    looks: dict[str, Look] = {}
    build.build_store(CONFIG, images, TEXTS, backbones, out, looks)
    pictures, index = tmp_path / "pictures.parquet", out / IMAGES_INDEX
    write_looks(pictures, looks)
    expected = [
        ("Decoded images that need checking", "1 × it has at most 31 levels of grey (first: img2)"),
        (
            "The same picture in several files",
            "1 in two patients, 1 in two splits, 1 in two studies (first: img0 and img7)",
        ),
    ]
    assert [check[:2] for check in picture_checks(pictures, index, records)] == expected
    again = read_looks(pictures)
    build.build_store(CONFIG, images, TEXTS, backbones, out, again)
    assert again == looks
    write_looks(pictures, {})
    unseen, *_ = picture_checks(pictures, index, records)
    assert unseen[:2] == ("Images reused from an earlier run, not checked by this version", "10")


def same_states(out: Path, expected: Path) -> None:
    names = [f"img{number}" for number in range(IMAGES)]
    stores = [FeatureStore(folder) for folder in (out, expected)]
    assert torch.equal(*(store.depth_states(names) for store in stores))
    assert all(map(torch.equal, *(store.prior_states(TEXTS) for store in stores)))


def test_a_killed_run_repeats_one_shard_at_most(setting: Setting) -> None:
    """`tests/thorough` kills it at every point."""
    setting.survive([("encode images", 3), ("os.replace out", 0)], "killed", IMAGES + SHARD)


def test_a_store_that_is_there_needs_no_space_again(
    backbones: Path, images: pl.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    build.build_store(CONFIG, images, TEXTS, backbones, out)
    before = contents(out)
    monkeypatch.setattr(build.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 0})())
    build.build_store(CONFIG, images, TEXTS, backbones, out)
    assert contents(out) == before


#: The published configuration of microsoft/rad-dino, and what makes it small, with channels that
#: differ.
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
    """The file is prepared as the processor does with ``image`` (left out: with the decoded
    file)."""
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
def test_files(
    rad_dino: Path, tmp_path: Path, image: Image.Image, saved: dict, published: bool, planes: int
) -> None:
    directory, path = rad_dino if published else small(tmp_path), tmp_path / "file"
    image.save(path, **saved)
    with Image.open(path) as plain:
        values = assert_prepared(directory, path, plain)
    assert values.isfinite().all() and image_header(path)[:2] == image.size
    assert Preparation(directory).levels(open_image(path)).shape == (planes, *values.shape[1:])


FORMATS = dict.fromkeys(("1", "L", "LA", "P", "RGB", "RGBA", "grey RGB", "grey P"), "png")
FORMATS |= dict.fromkeys(("I;16", "CMYK", "F", "grey CMYK"), "tif")
SWITCHES = [
    {},
    *({f"do_{step}": False} for step in ("rescale", "normalize", "resize", "convert_rgb")),
]
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
    tmp_path_factory: pytest.TempPathFactory,
    width: int,
    height: int,
    mode: str,
    seed: int,
    resample: int,
    crop: tuple[int, int],
    size: dict[str, int],
    switches: dict[str, Any],
) -> None:
    folder = tmp_path_factory.mktemp("any")
    directory = small(
        folder,
        size=size,
        resample=resample,
        crop_size={"height": crop[0], "width": crop[1]},
        **switches,
    )
    rng = np.random.default_rng(seed)
    if mode in ("I;16", "F"):
        image = Image.fromarray(
            (rng.random((height, width)) * 9999).astype(np.uint16 if mode == "I;16" else "f4")
        )
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
    assert len(Preparation(directory).levels(open_image(path))) == (
        1 if (colours == colours[..., :1]).all() else 3
    )


def test_batches_of_levels_and_one_by_one(tmp_path: Path) -> None:
    preparation = Preparation(small(tmp_path))
    for channels in (1, 3):
        batch = torch.randint(0, 256, (2, 4, channels, 5, 6), dtype=torch.uint8)
        values = preparation.values(batch)
        assert values.shape == (2, 4, 3, 5, 6)
        assert torch.equal(values[1, 2], preparation.values(batch[1, 2]))


@pytest.mark.parametrize("changes", listed_cases(__file__, "refused"))
def test_a_processor_that_does_anything_else_is_refused(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    with pytest.raises(
        BackboneError, match=rf"the image processor in {tmp_path} cannot be reproduced: "
    ):
        Preparation(small(tmp_path, **changes))


def test_processors_of_all_families_are_followed(tmp_path: Path) -> None:
    noise(300, 200, 3).save(tmp_path / "a.png")
    for family in ENCODERS:
        preparation = Preparation(write_encoder(family, tmp_path / family))
        image = open_image(tmp_path / "a.png")
        expected = preparation.processor(images=image, return_tensors="pt")["pixel_values"][0]
        assert torch.equal(preparation.values(preparation.levels(image)), expected)


def test_dinov3_is_prepared_in_8_bits(tmp_path: Path) -> None:
    """Its own processor, which needs torchvision, resizes fractions: no level is one grey level
    away."""
    preparation = Preparation(write_encoder("dinov3_vit", tmp_path))
    image = noise(300, 200, 3)
    fractions = torch.from_numpy(np.array(image)).permute(2, 0, 1)[None] / 255
    own = torch.nn.functional.interpolate(
        fractions, preparation.size, mode="bilinear", antialias=True
    )[0]
    assert (preparation.levels(image) - 255 * own).abs().max() < 1
