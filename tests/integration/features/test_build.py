"""The making of a feature store: whole files, damage repaired, kills survived, processes that agree."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import polars as pl
import pytest
import safetensors.torch
import torch

from pacer.core.errors import DataError
from pacer.core.io import read_json, write_json
from pacer.data.radiographs import NOT_AN_IMAGE
from pacer.features import build_store as build
from pacer.features.encoder import ImageEncoder
from pacer.features.shards import write_tensors
from pacer.features.store import MANIFEST, FeatureStore
from tests.support.building import CONFIG, IMAGES, SHARD, TEXTS, Setting, content, cut, make_images, setting, shard_of

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
    for names in (["states"], ["states", "mask"]):
        whole = {name: tensors[name] for name in names}
        batches = ({name: tensor[i : i + 3] for name, tensor in whole.items()} for i in (0, 3, 6))
        shard = write_tensors(tmp_path / "shard", 7, batches)
        expected = safetensors.torch.save(whole)
        assert (tmp_path / "shard").read_bytes() == expected
        assert shard == (len(expected), 7)
    with pytest.raises(ValueError, match="would have 7 rows, not 8"):
        write_tensors(tmp_path / "shard", 8, iter([tensors]))


def test_the_manifest_tells_what_each_file_is(backbones: Path, images: pl.DataFrame, tmp_path: Path) -> None:
    out = tmp_path / "out"
    build.build_store(CONFIG, images, TEXTS, backbones, out)
    manifest, files = read_json(out / MANIFEST), content(out)
    assert files.keys() == {MANIFEST, "images.parquet", "priors.parquet", *manifest["shards"]}
    for name, shard in manifest["shards"].items():
        states = safetensors.torch.load(files[name])["states"]
        assert shard == {"bytes": len(files[name]), "rows": len(states)}
    assert sorted(shard["rows"] for shard in manifest["shards"].values()) == [1, 2, 3, 3, 3, 3]


# -- damage ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("harm", "why"),
    [(cut, r"it has \d+ bytes instead of \d+"), (Path.unlink, r"it cannot be read \(No such file or directory\)")],
)
def test_a_damaged_shard_is_named_and_it_alone_is_made_again(
    backbones: Path, images: pl.DataFrame, tmp_path: Path, encoded: list[int], capsys: pytest.CaptureFixture, harm, why
) -> None:
    out = tmp_path / "out"
    build.build_store(CONFIG, images, TEXTS, backbones, out)
    before, shard = content(out), shard_of(out, "img4")
    harm(shard)
    encoded.clear()
    capsys.readouterr()
    build.build_store(CONFIG, images, TEXTS, backbones, out)
    output = capsys.readouterr().out
    assert re.search(f"{shard.name} is damaged: {why}; its 3 images are encoded again", output), output
    assert output.count(" is damaged: ") == 1 and "features: 3 images (" in output and "previous reports" not in output
    assert sum(encoded) == SHARD and content(out) == before


@pytest.mark.parametrize("harm", ["index", "manifest", "shards"])
def test_a_store_that_cannot_be_judged_is_made_again(
    backbones: Path, images: pl.DataFrame, tmp_path: Path, encoded: list[int], capsys: pytest.CaptureFixture, harm: str
) -> None:
    out = tmp_path / "out"
    build.build_store(CONFIG, images, TEXTS, backbones, out)
    before, manifest = content(out), read_json(out / MANIFEST)
    if harm == "index":
        cut(out / "images.parquet")
    elif harm == "manifest":
        cut(out / MANIFEST), cut(out / MANIFEST)
    else:
        write_json(out / MANIFEST, {key: value for key, value in manifest.items() if key != "shards"})
    encoded.clear()
    build.build_store(CONFIG, images, TEXTS, backbones, out)
    assert "nothing of it is used, all is encoded again" in capsys.readouterr().out
    assert sum(encoded) == IMAGES and content(out) == before


def test_a_damaged_shard_of_a_stopped_run_is_named_and_made_again(
    backbones: Path,
    images: pl.DataFrame,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
) -> None:
    out = tmp_path / "out"
    build.build_store(CONFIG, images, TEXTS, backbones, tmp_path / "whole")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(build, "_write_index", interrupted)
        build.build_store(CONFIG, images, TEXTS, backbones, out)
    scratch = Path(f"{out}.scratch")
    cut(sorted(scratch.rglob("images-*.safetensors"))[0])
    note = sorted(scratch.rglob("priors-*.json"))[0]
    note.write_bytes(note.read_bytes()[:-9])
    capsys.readouterr()
    build.build_store(CONFIG, images, TEXTS, backbones, out)
    told = capsys.readouterr().out
    assert told.count(" is damaged: it has ") == 1
    assert content(out) == content(tmp_path / "whole")


def interrupted(*arguments: object) -> None:
    raise KeyboardInterrupt


# -- plan and unreadable images -------------------------------------------------------------------------------------


def test_the_plan_is_announced(
    backbones: Path, images: pl.DataFrame, tmp_path: Path, encoded: list[int], capsys: pytest.CaptureFixture
) -> None:
    out = tmp_path / "out"
    build.build_store(CONFIG, images, TEXTS, backbones, out)
    assert encoded == [2, 1, 2, 1, 2, 1, 1]
    states, priors, pixels = IMAGES * 2 * 16 * 16 * 2, 5 * (12 * 20 * 2 + 12), IMAGES * 56 * 56
    sizes = [states, priors, states + priors, pixels + priors]
    told = re.search(
        r"features: 10 images \(([\d.e-]+) MB\) and 5 previous reports \(([\d.e-]+) MB\) to encode; ([\d.e-]+) MB "
        r"of [\d.,]+ GB free\nfeatures: with features.mode: pixels it would be ([\d.e-]+) MB\n",
        capsys.readouterr().out,
    )
    assert told and [float(size) * 1e6 for size in told.groups()] == pytest.approx(sizes, rel=0.01)
    build.build_store(CONFIG, images, TEXTS, backbones, out)
    assert "to encode" not in capsys.readouterr().out


def test_unreadable_images_are_listed_and_the_rest_is_kept(
    backbones: Path, images: pl.DataFrame, tmp_path: Path, encoded: list[int]
) -> None:
    build.build_store(CONFIG, images, TEXTS, backbones, tmp_path / "whole")
    paths = dict(images.iter_rows())
    good = {name: Path(paths[name]).read_bytes() for name in ("img1", "img8")}
    Path(paths["img1"]).write_bytes(b"not an image")
    Path(paths["img8"]).unlink()
    encoded.clear()
    listing = tmp_path / "out.unreadable.csv"
    with pytest.raises(
        DataError,
        match=r"^2 images cannot be read: img1 \(the file is not an image .*\); img8 \(the file "
        r"does not exist\)\. .*out\.unreadable\.csv lists all",
    ):
        build.build_store(CONFIG, images, TEXTS, backbones, tmp_path / "out")
    with open(listing, newline="") as file:
        assert list(csv.reader(file)) == [
            ["image_id", "path", "problem"],
            ["img1", paths["img1"], NOT_AN_IMAGE],
            ["img8", paths["img8"], "the file does not exist"],
        ]
    assert not (tmp_path / "out").exists() and sum(encoded) == 6  # the shards of img1 and img8 were not made
    for name, data in good.items():
        Path(paths[name]).write_bytes(data)
    encoded.clear()
    build.build_store(CONFIG, images, TEXTS, backbones, tmp_path / "out")
    assert sum(encoded) == 4  # both images, and what shared a shard with the one that was met late
    assert not listing.exists() and not Path(f"{tmp_path / 'out'}.scratch").exists()
    ids = images["image_id"].to_list()
    one, other = (FeatureStore(tmp_path / name).depth_states(ids) for name in ("whole", "out"))
    torch.testing.assert_close(one, other, rtol=0.02, atol=0.02)  # in other batches


def test_twenty_unreadable_images_are_shown(backbones: Path, images: pl.DataFrame, tmp_path: Path) -> None:
    table = pl.DataFrame({"image_id": [f"gone{i}" for i in range(23)], "path": [f"nowhere{i}" for i in range(23)]})
    with pytest.raises(DataError, match=r"23 images cannot be read: .* gone19 \(the file does not exist\); and 3 more"):
        build.build_store(CONFIG, pl.concat([images, table]), [], backbones, tmp_path / "out")
    assert len((tmp_path / "out.unreadable.csv").read_text().splitlines()) == 24


def test_a_killed_run_repeats_one_shard_at_most(setting: Setting) -> None:
    """`tests/thorough` kills it at every point."""
    setting.survive([("encode images", 3), ("os.replace out", 0)], "killed", IMAGES + SHARD)
