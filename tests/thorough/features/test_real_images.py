"""Every real image at hand goes through the stage, in both modes; damaged copies are refused by
name."""

from pathlib import Path

import polars as pl
import pytest
import torch
from PIL import Image, ImageOps

from pacer.core.io import read_json
from pacer.features import encode as build
from pacer.features.encoder import Preparation, open_features
from pacer.features.store import MANIFEST, FeatureStore
from pacer.images.radiographs import open_image
from tests.integration.features.test_build import assert_prepared, processed, rad_dino
from tests.support.building import CONFIG
from tests.support.real import DATA, real


@pytest.mark.parametrize(
    ("corpus", "count"), [("openi/images", 6087), ("covid", 229), ("dicom", 2)]
)
def test_all_images_pass(backbones: Path, tmp_path: Path, corpus: str, count: int) -> None:
    paths = sorted(
        str(path)
        for path in real(corpus).rglob("*")
        if path.suffix in (".jpg", ".jpeg", ".png", ".dcm")
    )
    images = pl.DataFrame(
        {"image_id": [str(Path(path).relative_to(real(corpus))) for path in paths], "path": paths}
    )
    assert len(images) == count
    for mode in ("states", "pixels"):
        config = CONFIG.model_copy(
            update={"mode": mode, "batch_size": 64, "shard_size": 512, "workers": 2}
        )
        build.build_store(config, images, [], backbones, tmp_path / mode)
        assert read_json(tmp_path / mode / MANIFEST)["images"] == count
    states, online = (
        open_features(tmp_path / mode, backbones, "cpu") for mode in ("states", "pixels")
    )
    ids = images["image_id"].to_list()
    for start in range(0, count, 512):
        assert states.depth_states(ids[start : start + 512]).isfinite().all()
    some = ids[:: max(count // 20, 1)]
    one, other = states.depth_states(some).float(), online.depth_states(some).float()
    assert float((one - other).norm() / one.norm()) < 5e-3
    assert isinstance(states, FeatureStore)


__all__ = ["rad_dino"]


def chosen(folder: Path, pattern: str, count: int) -> list[Path]:
    files = sorted(folder.rglob(pattern))
    return files[:: max(len(files) // count, 1)][:count]


def test_real_images(rad_dino: Path) -> None:
    paths = chosen(real("openi/images"), "*.*", 30) + chosen(DATA / "covid" / "images", "*.jpg", 10)
    assert len(paths) == 40
    preparation = Preparation(rad_dino)
    for path in paths:
        with Image.open(path) as plain:
            assert torch.equal(
                preparation.values(preparation.levels(open_image(path))),
                processed(rad_dino, ImageOps.exif_transpose(plain)),
            ), path
    for path in sorted((DATA / "dicom").glob("*.dcm")):
        assert_prepared(rad_dino, path)
