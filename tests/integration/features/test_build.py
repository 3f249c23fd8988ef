"""The making of a feature store: whole files, damage repaired, kills survived, processes that agree."""

import json
import os
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import safetensors.torch
import torch
from PIL import Image

from pacer.core.errors import DataError
from pacer.data.greyscale import NOT_AN_IMAGE
from pacer.features import encode as build
from pacer.features.encode import Look, picture_checks, read_looks, write_looks
from pacer.features.encoder import ImageEncoder
from pacer.features.shards import Entry, take_over, write_shard
from pacer.features.store import IMAGES as IMAGES_INDEX
from pacer.features.store import PRIORS as PRIORS_INDEX
from pacer.features.store import FeatureStore
from tests.support.building import CONFIG, IMAGES, SHARD, TEXTS, Setting, cut, make_images, setting, shard_of
from tests.support.cases import listed_cases
from tests.support.drive import contents

__all__ = ["setting"]


@pytest.fixture
def images(tmp_path: Path) -> pl.DataFrame:
    return make_images(tmp_path)


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Images of each batch that is encoded."""
    batches: list[int] = []
    encode = ImageEncoder.encode
    monkeypatch.setattr(ImageEncoder, "encode", lambda self, x: batches.append(len(x)) or encode(self, x))
    return batches


# -- files ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_shards_are_the_bytes_that_safetensors_writes(tmp_path: Path, dtype: torch.dtype) -> None:
    tensors = {"states": torch.randn(7, 2, 3, 5).to(dtype), "mask": torch.randint(0, 2, (7, 3)).to(torch.uint8)}
    entries = [Entry(f"img{i}", f"key {i}") for i in range(7)]
    for names in (["states"], ["states", "mask"]):
        whole = {name: tensors[name] for name in names}
        batches = ({name: tensor[i : i + 3] for name, tensor in whole.items()} for i in (0, 3, 6))
        write_shard(tmp_path / "shard", entries, batches)
        metadata = {"entries": json.dumps(entries)}
        assert (tmp_path / "shard").read_bytes() == safetensors.torch.save(whole, metadata=metadata)


# -- damage ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("harm", [cut, Path.unlink])
def test_a_damaged_shard_is_named_and_it_alone_is_made_again(
    backbones: Path, images: pl.DataFrame, tmp_path: Path, encoded: list[int], capsys: pytest.CaptureFixture, harm
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


def test_what_is_taken_over_is_linked(backbones: Path, images: pl.DataFrame, tmp_path: Path) -> None:
    """A store of 1.7 TB would not fit on its disk twice."""
    out = tmp_path / "out"
    build.build_store(CONFIG, images, TEXTS, backbones, out)
    before = {path.name: path.stat().st_ino for path in out.glob("*.safetensors")}
    build.build_store(CONFIG, images, [*TEXTS, "new ."], backbones, out)
    after = {path.name: path.stat().st_ino for path in out.glob("*.safetensors")}
    assert len(after) == len(before) + 1 and before.items() <= after.items()


def test_a_shard_that_dvc_linked_is_copied(backbones: Path, images: pl.DataFrame, tmp_path: Path) -> None:
    """Its permissions are those of DVC's cache, and publishing sets those of the store."""
    out = tmp_path / "out"
    build.build_store(CONFIG, images, TEXTS, backbones, out)
    shard, cached = shard_of(out, "img4"), tmp_path / "cached"
    os.link(shard, cached)
    cached.chmod(0o444)
    build.build_store(CONFIG, images, [*TEXTS, "new ."], backbones, out)
    assert cached.stat().st_mode & 0o777 == 0o444 and cached.read_bytes() == shard.read_bytes()


@pytest.mark.parametrize("entries", ['[["img0", "key 0"]]', "5", "[1, 2]", "{", None])
def test_a_shard_that_does_not_say_what_its_rows_are_is_damaged(tmp_path: Path, capsys, entries: str | None) -> None:
    out, scratch = tmp_path / "out", tmp_path / "scratch"
    out.mkdir(), scratch.mkdir()
    metadata = None if entries is None else {"entries": entries}
    safetensors.torch.save_file({"states": torch.zeros(2, 3)}, out / "images-0.safetensors", metadata)
    assert take_over(out, scratch, {"images": {"img0": "key 0"}}) == {"images": {}}
    assert "images-0.safetensors is damaged: " in capsys.readouterr().out


# -- plan and unreadable images -------------------------------------------------------------------------------------


def test_the_plan_is_announced(
    backbones: Path, images: pl.DataFrame, tmp_path: Path, encoded: list[int], capsys: pytest.CaptureFixture
) -> None:
    out = tmp_path / "out"
    build.build_store(CONFIG, images, TEXTS, backbones, out)
    assert encoded == [2, 1, 2, 1, 2, 1, 1]
    size = IMAGES * 2 * 16 * 16 * 2 + 5 * (12 * 20 * 2 + 12)
    told = re.search(
        r"10 images and 5 priors to encode; they need ([\d.]+) kB, [\d.,]+ .B are free", capsys.readouterr().out
    )
    assert told and float(told[1]) * 1e3 == pytest.approx(size, rel=0.01)
    build.build_store(CONFIG, images, TEXTS, backbones, out)
    assert "to encode" not in capsys.readouterr().out


@pytest.mark.parametrize(("changes", "again"), listed_cases(__file__, "settings"))
def test_which_settings_encode_again(
    backbones: Path, images: pl.DataFrame, tmp_path: Path, encoded: list[int], changes: dict, again: list[str]
) -> None:
    """The tables of the store name the keys by which entries are taken over."""
    out, settings = tmp_path / "out", CONFIG.model_copy(update=changes)
    assert settings != CONFIG
    build.build_store(CONFIG, images, TEXTS, backbones, out)
    before = {index: pl.read_parquet(out / index)["key"].to_list() for index in (IMAGES_INDEX, PRIORS_INDEX)}
    encoded.clear()
    build.build_store(settings, images, TEXTS, backbones, out)
    assert [index for index, keys in before.items() if pl.read_parquet(out / index)["key"].to_list() != keys] == again
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


def test_what_decoding_tells_joins_the_audit(backbones: Path, images: pl.DataFrame, tmp_path: Path) -> None:
    """One picture in other bytes, and few levels of grey; a second run keeps what the first has seen."""
    paths, out = dict(images.iter_rows()), tmp_path / "out"
    Image.open(paths["img0"]).convert("RGB").save(paths["img7"], compress_level=1)
    Image.fromarray(np.indices((70, 64)).sum(0).astype(np.uint8) % 2 * 9).save(paths["img2"])
    patients = pl.Series([f"p{number // 2}" for number in range(IMAGES)])
    splits = pl.Series(["train"] * 6 + ["test"] * 4)
    records = images.select(frontal="image_id", study_id="image_id", lateral=None, subject_id=patients, split=splits)
    looks: dict[str, Look] = {}
    build.build_store(CONFIG, images, TEXTS, backbones, out, looks)
    pictures, index = tmp_path / "pictures.parquet", out / IMAGES_INDEX
    write_looks(pictures, looks)
    expected = [
        ("Decoded images that need a check", "1 × it has at most 31 levels of grey (first: img2)"),
        (
            "Pictures in several files with other bytes",
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
