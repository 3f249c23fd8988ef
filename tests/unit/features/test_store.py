"""Feature stores of states and of prepared pixels: what is encoded comes back, in little memory,
and both agree."""

import json
import os
import random
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import safetensors.torch
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import BertForMaskedLM, BertModel, BertTokenizerFast

from pacer.core.errors import BackboneError, ConfigError, DataError, PacerError
from pacer.core.io import read_json, write_json
from pacer.features import encode as build
from pacer.features.encoder import ImageEncoder, OnlineStates, TextEncoder, open_features
from pacer.features.store import (
    DTYPES,
    IMAGES,
    MANIFEST,
    PRIORS,
    FeatureStore,
    as_stored,
    content_hash,
    text_key,
)
from pacer.images.radiographs import open_image
from tests.support import building
from tests.support.cases import listed_cases

SHARD, SHAPE = 5, (2, 3, 4)
ENCODING = {
    "mode": "states",
    "encoders": {},
    "depths": [1, 3],
    "dtype": "float32",
    "precision": "float32",
}
ENCODING |= {"rounding": 1}


def write_store(directory: Path, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    """A store of 23 images and 7 previous reports; returns the states of each image and text, and
    each text's mask."""
    rows: dict[str, Tensor] = {}
    generator = torch.Generator().manual_seed(3)
    directory.mkdir()
    for name, column, kind, keys, shape in (
        (IMAGES, "image_id", "images", [f"p{i}/view {i}.jpg" for i in range(23)], SHAPE),
        (PRIORS, "text_key", "priors", [f"report {i} ." for i in range(7)], SHAPE[1:]),
    ):
        entries = []
        for start in range(0, len(keys), SHARD):
            part, shard = keys[start : start + SHARD], f"{kind}-{start}.safetensors"
            tensors = {"states": torch.randn(len(part), *shape, generator=generator).to(dtype)}
            if kind == "priors":
                tensors["mask"] = torch.randint(
                    0, 2, (len(part), shape[0]), generator=generator, dtype=torch.uint8
                )
            save_file(tensors, directory / shard, metadata={"format": "pt"})
            stored = load_file(directory / shard)
            for row, key in enumerate(part):
                entries.append((text_key(key) if kind == "priors" else key, shard, row))
                rows[key] = stored["states"][row]
                if kind == "priors":
                    rows[f"mask of {key}"] = stored["mask"][row].bool()
        schema = {column: pl.String, "shard": pl.String, "row": pl.Int64}
        pl.DataFrame(entries, schema=schema, orient="row").write_parquet(directory / name)
    write_json(directory / MANIFEST, {"encoding": ENCODING})
    return rows


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_rows_are_those_of_the_shards(tmp_path: Path, dtype: torch.dtype) -> None:
    rows = write_store(tmp_path / "store", dtype)
    store = FeatureStore(tmp_path / "store")
    images = [key for key in rows if key.endswith(".jpg")]
    reports = [key for key in rows if key.startswith("report")]
    chosen = random.Random(0)
    for count in (1, 4, 40):  # 40: repeats
        ids, texts = chosen.choices(images, k=count), chosen.choices(reports, k=count)
        states = store.depth_states(ids)
        assert states.dtype == dtype and states.shape == (count, *SHAPE) and states.is_contiguous()
        assert torch.equal(states, torch.stack([rows[i] for i in ids]))
        states, mask = store.prior_states(texts)
        assert states.dtype == dtype and torch.equal(states, torch.stack([rows[t] for t in texts]))
        assert mask.dtype == torch.bool and torch.equal(
            mask, torch.stack([rows[f"mask of {t}"] for t in texts])
        )
    for image_id in images:
        assert torch.equal(store.depth_states([image_id])[0], rows[image_id])


def test_what_is_not_there_is_named_among_what_is(tmp_path: Path) -> None:
    write_store(tmp_path / "store")
    store = FeatureStore(tmp_path / "store")
    with pytest.raises(
        DataError, match="has no image nobody; run the `features` stage on this corpus"
    ):
        store.depth_states(["p1/view 1.jpg", "nobody", "nobody else"])
    with pytest.raises(DataError, match=f"has no previous report {text_key('unheard of .')}"):
        store.prior_states(["report 1 .", "unheard of ."])


@pytest.mark.parametrize(
    ("change", "why"), listed_cases(__file__, "a_store_of_another_kind_is_refused")
)
def test_a_store_of_another_kind_is_refused(tmp_path: Path, change: dict, why: str) -> None:
    """States with scales of their own, as an earlier version could store them, would be read as
    wrong numbers."""
    write_store(tmp_path / "store")
    write_json(tmp_path / "store" / MANIFEST, {"encoding": ENCODING | change})
    with pytest.raises(ConfigError, match=rf"manifest\.json, encoding: {why}"):
        FeatureStore(tmp_path / "store")


@pytest.mark.parametrize(
    ("tensors", "why"),
    [
        (None, "No such file"),
        ({}, "metadata, file not fully covered"),
        (b"\xff" * 100, "header too large"),
        ({"other": torch.zeros(5, *SHAPE)}, "KeyError: 'states'"),
        ({"states": torch.zeros(4, *SHAPE)}, "IndexError"),
    ],
)
def test_a_shard_that_is_not_whole_is_named(
    tmp_path: Path, tensors: dict[str, Tensor] | bytes | None, why: str
) -> None:
    write_store(tmp_path / "store")
    shard = tmp_path / "store" / "images-0.safetensors"
    if tensors is None:
        shard.unlink()
    elif isinstance(tensors, bytes):
        shard.write_bytes(tensors)
    elif tensors:
        save_file(tensors, shard)
    else:
        shard.write_bytes(shard.read_bytes()[:-1])
    store = FeatureStore(tmp_path / "store")
    with pytest.raises(
        DataError,
        match=rf"images-0\.safetensors cannot be read, or does not match the index .*{why}",
    ):
        store.depth_states(["p5/view 5.jpg", "p4/view 4.jpg"])
    store.depth_states(["p5/view 5.jpg"])
    os.truncate(tmp_path / "store" / "images-5.safetensors", 300)
    with pytest.raises(
        DataError, match=r"images-5\.safetensors cannot be read, .*the file is truncated"
    ):
        store.depth_states(["p5/view 5.jpg", "p9/view 9.jpg"])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists a process's files and maps")
def test_a_store_keeps_no_file_open_and_maps_none(tmp_path: Path) -> None:
    """A large store has more shards than a process may open files; maps may fail where memory is
    not overcommitted."""
    write_store(tmp_path / "store")
    store = FeatureStore(tmp_path / "store")
    store.depth_states(["p3/view 3.jpg"])
    used = [os.path.realpath(f"/proc/self/fd/{file}") for file in os.listdir("/proc/self/fd")]
    assert str(tmp_path) not in "\n".join([*used, Path("/proc/self/maps").read_text()])


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (float("nan"), "bfloat16"),
        (float("inf"), "float32"),
        (float("nan"), "float32"),
        (70_000.0, "float16"),
    ],
)
def test_what_a_type_has_no_number_for_is_refused(value: float, dtype: str) -> None:
    states = torch.zeros(3, 2, 5, 4)
    states[2, 1, 3, 0] = value
    with pytest.raises(
        DataError, match=r"the states of image c are not finite in the stored type; choose another"
    ):
        as_stored(states, DTYPES[dtype], ["image a", "image b", "image c"])


CONFIG = building.CONFIG.model_copy(update={"dtype": "float32"})
TEXTS = ["no effusion .", "edema .", "no effusion ."]


def test_cxr_bert_loads_as_the_plain_bert_that_it_is(backbones: Path, tmp_path: Path) -> None:
    """Its published config names a type and classes that are remote code; its weights are a
    BertForMaskedLM's."""
    plain = BertModel.from_pretrained(backbones / "text")
    published = BertForMaskedLM(plain.config)
    published.bert.load_state_dict(
        {k: v for k, v in plain.state_dict().items() if not k.startswith("pooler")}
    )
    published.save_pretrained(tmp_path)
    shutil.copy(backbones / "text" / "vocab.txt", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config |= {
        "model_type": "cxr-bert",
        "architectures": ["CXRBertModel"],
        "auto_map": {"AutoModel": "modeling_cxrbert.CXRBertModel"},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    states, mask = TextEncoder(tmp_path, 12).encode(TEXTS)
    tokenizer = BertTokenizerFast.from_pretrained(backbones / "text")
    inputs = tokenizer(
        TEXTS, padding="max_length", truncation=True, max_length=12, return_tensors="pt"
    )
    with torch.no_grad():
        expected = plain.eval()(**inputs).last_hidden_state
    torch.testing.assert_close(states, expected)
    assert torch.equal(mask, inputs["attention_mask"].bool()) and not mask.all()


def test_every_image_and_distinct_text_comes_back(backbones: Path, tmp_path: Path) -> None:
    images = building.make_images(tmp_path)
    build.build_store(CONFIG, images, TEXTS, backbones, tmp_path / "out")
    manifest = read_json(tmp_path / "out" / MANIFEST)
    assert (manifest["images"], manifest["priors"]) == (len(images), 2)
    store, encoder = FeatureStore(tmp_path / "out"), ImageEncoder(backbones / "vision", [1, 3])
    for image_id, path in images.iter_rows():
        expected = encoder.encode_levels(encoder.preparation.levels(open_image(path))[None])[0]
        torch.testing.assert_close(store.depth_states([image_id])[0], expected, rtol=0, atol=1e-5)
    states, mask = store.prior_states(TEXTS)
    expected_states, expected_mask = TextEncoder(backbones / "text", 12).encode(TEXTS)
    torch.testing.assert_close(states, expected_states, rtol=0, atol=1e-5)
    assert states.shape[1] == 12 and torch.equal(mask, expected_mask)
    assert not Path(f"{tmp_path / 'out'}.scratch").exists()


COLOURED = "img4"


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> pl.DataFrame:
    images = building.make_images(tmp_path_factory.mktemp("images"))
    colours = np.random.default_rng(1).integers(0, 255, (70, 64, 3), dtype=np.uint8)
    Image.fromarray(colours).save(dict(images.iter_rows())[COLOURED])
    return images


def both(
    backbones: Path, images: pl.DataFrame, folder: Path, **changes
) -> tuple[FeatureStore, OnlineStates]:
    for mode in ("states", "pixels"):
        build.build_store(
            CONFIG.model_copy(update={"mode": mode, **changes}),
            images,
            TEXTS,
            backbones,
            folder / mode,
        )
    states, online = (
        open_features(folder / mode, backbones, "cpu") for mode in ("states", "pixels")
    )
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
    """Repeats and another order included; other batches compute with other rounding. Pixels are
    what the processor makes, and only shards with colours have three planes."""
    states, online, folder = stores
    ids = [f"img{i}" for i in (3, 4, 0, 3, 6)]
    torch.testing.assert_close(
        online.depth_states(ids), states.depth_states(ids), rtol=0, atol=1e-5
    )
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
        assert all(
            torch.equal(found, expected)
            for found in pool.map(online.depth_states, [["img0", "img1"]] * 6)
        )


def test_the_same_batches_give_the_same_bits(
    backbones: Path, images: pl.DataFrame, tmp_path: Path
) -> None:
    states, online = both(backbones, images, tmp_path, dtype=building.CONFIG.dtype)
    stored = states.depth_states(["img0", "img1"])
    assert stored.dtype == torch.bfloat16 and torch.equal(
        online.depth_states(["img0", "img1"]), stored
    )


def test_pixels_outlive_a_new_encoder_but_are_not_read_with_it(
    backbones: Path,
    other_backbones: Path,
    images: pl.DataFrame,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
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
            DataError,
            match=r"computed with an encoder other than .*vision; rerun the `features` stage",
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
        with pytest.raises(
            error, match=r"preprocessor_config\.json|cannot be read as AutoImageProcessor"
        ):
            build.build_store(
                config.model_copy(update={"mode": mode}), images, TEXTS, other, tmp_path / "out"
            )


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
    """As float32 states take 20,480 bytes and as pixels 31,360 (here: the encoder's images are
    tiny)."""
    monkeypatch.setattr(
        build.shutil, "disk_usage", lambda path: type("Usage", (), {"free": free})()
    )
    with pytest.raises(
        PacerError,
        match=rf"the features need another [\d.]+ kB, but .* has \d\d\.0 kB free; {remedy}",
    ):
        build.build_store(
            CONFIG.model_copy(update={"mode": mode}), images, [], backbones, tmp_path / "out"
        )
    assert not (tmp_path / "out").exists() and not list(tmp_path.rglob("*.safetensors"))


def test_states_that_are_not_finite_name_the_image(
    backbones: Path, images: pl.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    half, encode = CONFIG.model_copy(update={"dtype": "float16"}), ImageEncoder.encode
    monkeypatch.setattr(ImageEncoder, "encode", lambda self, pixels: encode(self, pixels) * 1e9)
    told = "the states of image img{} are not finite in the stored type; choose another"
    with pytest.raises(PacerError, match=told.format(0)):
        build.build_store(half, images, TEXTS, backbones, tmp_path / "out")
    build.build_store(
        half.model_copy(update={"mode": "pixels"}), images, TEXTS, backbones, tmp_path / "pixels"
    )
    with pytest.raises(DataError, match=told.format(2)):
        open_features(tmp_path / "pixels", backbones, "cpu").depth_states(["img2", "img4"])
