"""A store of prepared pixels: the states that it gives are those of a store of states."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import safetensors.torch
import torch
from PIL import Image

from pacer.core.errors import BackboneError, DataError, PacerError
from pacer.data.radiographs import open_image
from pacer.features import encode as build
from pacer.features.encoder import ImageEncoder, OnlineStates, open_features
from pacer.features.store import FeatureStore, content_hash
from tests.support.building import CONFIG as HALF
from tests.support.building import make_images
from tests.support.cases import listed_cases

CONFIG = HALF.model_copy(update={"dtype": "float32"})
TEXTS = ["no effusion .", "edema ."]
COLOURED = "img4"


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> pl.DataFrame:
    images = make_images(tmp_path_factory.mktemp("images"))
    colours = np.random.default_rng(1).integers(0, 255, (70, 64, 3), dtype=np.uint8)
    Image.fromarray(colours).save(dict(images.iter_rows())[COLOURED])
    return images


def both(backbones: Path, images: pl.DataFrame, folder: Path, **changes) -> tuple[FeatureStore, OnlineStates]:
    for mode in ("states", "pixels"):
        build.build_store(CONFIG.model_copy(update={"mode": mode, **changes}), images, TEXTS, backbones, folder / mode)
    states, online = (open_features(folder / mode, backbones, "cpu") for mode in ("states", "pixels"))
    assert isinstance(states, FeatureStore) and isinstance(online, OnlineStates)
    return states, online


@pytest.fixture(scope="module")
def stores(
    backbones: Path, images: pl.DataFrame, tmp_path_factory: pytest.TempPathFactory
) -> tuple[FeatureStore, OnlineStates, Path]:
    """Both stores in float32, and the folder that they lie in."""
    folder = tmp_path_factory.mktemp("stores")
    return *both(backbones, images, folder), folder


def test_both_modes_give_the_same_tensors(backbones: Path, images: pl.DataFrame, stores) -> None:
    """Repeats and another order included; other batches compute with other rounding. Pixels are what the processor
    makes, and only shards with colours have three planes."""
    states, online, folder = stores
    ids = [f"img{i}" for i in (3, 4, 0, 3, 6)]
    torch.testing.assert_close(online.depth_states(ids), states.depth_states(ids), rtol=0, atol=1e-5)
    assert all(map(torch.equal, states.prior_states(TEXTS), online.prior_states(TEXTS)))
    preparation = ImageEncoder(backbones / "vision", [1, 3]).preparation
    for image_id, path in images.iter_rows():
        values = preparation.values(preparation.levels(open_image(path)))
        assert torch.equal(preparation.values(online.store.pixels([image_id]))[0], values)
    assert [online.store.pixels(["img0", other]).shape[1] for other in ("img6", COLOURED)] == [1, 3]
    shards = map(safetensors.torch.load_file, (folder / "pixels").glob("images-*"))
    assert sorted(shard["pixels"].shape[:2] for shard in shards) == [(1, 1), (3, 1), (3, 1), (3, 3)]
    expected = online.depth_states(["img0", "img1"])
    with ThreadPoolExecutor(3) as pool:  # threads may ask at once
        assert all(torch.equal(found, expected) for found in pool.map(online.depth_states, [["img0", "img1"]] * 6))


def test_the_same_batches_give_the_same_bits(backbones: Path, images: pl.DataFrame, tmp_path: Path) -> None:
    states, online = both(backbones, images, tmp_path, dtype=HALF.dtype)
    stored = states.depth_states(["img0", "img1"])
    assert stored.dtype == torch.bfloat16 and torch.equal(online.depth_states(["img0", "img1"]), stored)


def test_pixels_outlive_a_new_encoder_but_are_not_read_with_it(
    backbones: Path, other_backbones: Path, images: pl.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, other = CONFIG.model_copy(update={"mode": "pixels"}), other_backbones
    build.build_store(config, images, TEXTS, backbones, tmp_path / "out")
    before = content_hash(tmp_path / "out")
    weights = safetensors.torch.load_file(other / "vision" / "model.safetensors")
    safetensors.torch.save_file(
        {name: tensor * 1.01 for name, tensor in weights.items()},
        other / "vision" / "model.safetensors",
        metadata={"format": "pt"},
    )
    build.build_store(CONFIG, images, TEXTS, backbones, tmp_path / "states")
    for store in ("out", "states"):
        with pytest.raises(
            DataError, match=r"computed with an encoder other than .*vision; rerun the `features` stage"
        ):
            open_features(tmp_path / store, other, "cpu")
    monkeypatch.setattr(build, "open_image", lambda *a: pytest.fail("an image was prepared again"))
    build.build_store(config, images, TEXTS, other, tmp_path / "out")
    assert content_hash(tmp_path / "out") != before
    open_features(tmp_path / "out", other, "cpu").depth_states(["img0"])


def test_another_processor_prepares_again(
    backbones: Path, other_backbones: Path, images: pl.DataFrame, tmp_path: Path
) -> None:
    config, other = CONFIG.model_copy(update={"mode": "pixels"}), other_backbones
    build.build_store(config, images, TEXTS, backbones, tmp_path / "out")
    path = other / "vision" / "preprocessor_config.json"
    settings = json.loads(path.read_text())
    path.write_text(json.dumps(settings | {"resample": 2 if settings["resample"] != 2 else 3}))
    before = FeatureStore(tmp_path / "out").pixels(["img0"])
    build.build_store(config, images, TEXTS, other, tmp_path / "out")
    assert not torch.equal(FeatureStore(tmp_path / "out").pixels(["img0"]), before)
    path.unlink()
    for mode, error in (("pixels", FileNotFoundError), ("states", BackboneError)):
        with pytest.raises(error, match=r"preprocessor_config\.json|cannot be read as AutoImageProcessor"):
            build.build_store(config.model_copy(update={"mode": mode}), images, TEXTS, other, tmp_path / "out")


@pytest.mark.parametrize(("mode", "free", "remedy"), listed_cases(__file__, "plans"))
def test_a_plan_that_does_not_fit_names_the_setting_that_does(
    backbones: Path,
    images: pl.DataFrame,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
    free: int,
    remedy: str,
) -> None:
    """As float32 states take 20,480 bytes and as pixels 31,360 (here: the encoder's images are tiny)."""
    monkeypatch.setattr(build.shutil, "disk_usage", lambda path: type("Usage", (), {"free": free})())
    with pytest.raises(PacerError, match=rf"the features need another [\d.]+ kB, but .* has \d\d\.0 kB free; {remedy}"):
        build.build_store(CONFIG.model_copy(update={"mode": mode}), images, [], backbones, tmp_path / "out")
    assert not (tmp_path / "out").exists() and not list(tmp_path.rglob("*.safetensors"))


def test_states_that_are_not_finite_name_the_image(
    backbones: Path, images: pl.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    half, encode = CONFIG.model_copy(update={"dtype": "float16"}), ImageEncoder.encode
    monkeypatch.setattr(ImageEncoder, "encode", lambda self, pixels: encode(self, pixels) * 1e9)
    told = "the states of image img{} are not finite in the stored type; choose another"
    with pytest.raises(PacerError, match=told.format(0)):
        build.build_store(half, images, TEXTS, backbones, tmp_path / "out")
    build.build_store(half.model_copy(update={"mode": "pixels"}), images, TEXTS, backbones, tmp_path / "pixels")
    with pytest.raises(DataError, match=told.format(2)):
        open_features(tmp_path / "pixels", backbones, "cpu").depth_states(["img2", "img4"])
