"""One flipped bit, a cut tail or a block of zeros in what a stage left: its reader finds it in one line, or what it
reads is the same. Never used silently."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pacer.core.seal import read_sealed

from pacer.core.errors import PacerError
from pacer.features.store import FeatureStore
from pacer.model.checkpoint import load_weights
from pacer.records.columns import batches
from pacer.records.schemas import read_images, read_records
from pacer.reporting.cases import predictions_by_id
from pacer.reporting.routing import read_routing
from tests.serving.world import World

pytestmark = pytest.mark.slow


def states(root: Path) -> list[torch.Tensor]:
    store = FeatureStore(root / "features")
    images = read_images(root / "corpus" / "images.parquet")["image_id"].sort().to_list()
    return [store.depth_states(images), *store.prior_states(["clear ."])]


def weights(root: Path) -> list[Any]:
    record, found = load_weights(root / "calibrate")
    return [record, *(found[name] for name in sorted(found))]


def predictions(root: Path) -> list[Any]:
    folder = root / "predictions"
    return [read_sealed(folder / "manifest.json"), predictions_by_id(folder), sorted(read_routing(folder))]


def corpus(root: Path) -> list[Any]:
    folder = root / "corpus"
    tables = read_records(folder / "records.parquet"), read_images(folder / "images.parquet")
    priors = list(batches(folder / "priors.parquet"))
    return [read_sealed(folder / "audit.json"), *(table.to_dicts() for table in (*tables, *priors))]


READERS: dict[str, Callable[[Path], list[Any]]] = {
    "features": states,
    "calibrate": weights,
    "parent": weights,
    "predictions": predictions,
    "corpus": corpus,
}


def same(one: Any, other: Any) -> bool:
    return torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other


def damaged(content: bytes, rng: np.random.Generator) -> Iterator[bytes]:
    for _ in range(12):
        changed = bytearray(content)
        changed[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
        yield bytes(changed)
    for _ in range(3):
        yield content[: rng.integers(len(content))]
        block = 512 * int(rng.integers((len(content) + 511) // 512))
        yield content[:block] + bytes(len(content[block : block + 512])) + content[block + 512 :]


@pytest.mark.parametrize("folder", READERS)
def test_damaged_bytes(world: World, tmp_path: Path, folder: str) -> None:
    root = tmp_path / "world"
    for name in ("features", "calibrate", "parent", "predictions", "corpus"):
        shutil.copytree(world.root / name, root / name)
    read, rng = READERS[folder], np.random.default_rng(5)
    texts = world.records()["prior_report"].drop_nulls()
    assert "clear ." in set(texts)
    whole = read(root)
    # a list for people, which no step reads
    files = sorted(path for path in (root / folder).rglob("*") if path.is_file() and path.suffix != ".csv")
    found = 0
    for path in files:
        content = path.read_bytes()
        for changed in damaged(content, rng):
            path.write_bytes(changed)
            try:
                now = read(root)
            except PacerError as error:
                found += 1
                assert "\n" not in str(error)
            else:
                assert len(now) == len(whole) and all(map(same, now, whole)), f"{path} is used silently"
        path.write_bytes(content)
    assert found > 9 * len(files)
