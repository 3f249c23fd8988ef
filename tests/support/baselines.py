"""A tiny trained parent on disk, and what a training stage reads beside it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from torch import Tensor

from pacer.config import Params
from pacer.config.baselines import BaselineParams, load_baseline_params
from pacer.config.profiles import load_profile
from pacer.core.io import write_json
from pacer.data.schemas import RECORD_SCHEMA, write_table
from pacer.decoding import run as decoding
from pacer.features.store import IMAGES, MANIFEST, PRIORS
from pacer.model.pacer import Pacer, SourceStates
from pacer.training import run as training
from tests.support.models import moved_model, save_model, specification

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def parent(tmp_path_factory: pytest.TempPathFactory, backbones: Path) -> Path:
    """A checkpoint of the parent phase with every trained weight off its initial value."""
    out = tmp_path_factory.mktemp("models") / "parent"
    own = specification("parent")
    save_model(out, moved_model(backbones, own), backbones, own)
    return out


def compressed_by(model: Pacer, sources: SourceStates) -> Tensor:
    """The compressed sources [B, 3, Q, d_v]."""
    return model.interface.compress(**vars(model.refine_sources(sources)[0]))


@pytest.fixture
def own() -> BaselineParams:
    return load_baseline_params(ROOT / "baselines" / "micro.yaml")


@pytest.fixture
def params() -> Params:
    values = load_profile(ROOT / "configs" / "micro.yaml").model_dump()
    values["backbones"]["vision"] = {"provider": "local", "path": "elsewhere"}
    values["train"] |= {"state_interval": 1, "validation_interval": 4, "log_interval": 1}
    return Params.model_validate(values)


@pytest.fixture
def inputs(
    tmp_path: Path, records: pl.DataFrame, anchors: pl.DataFrame, backbones: Path, features, monkeypatch
) -> dict[str, Path]:
    """Directories of a corpus with stored states, as stages pass them."""
    (tmp_path / "corpus").mkdir()
    write_table(tmp_path / "corpus" / "records.parquet", records, RECORD_SCHEMA)
    anchors.write_parquet(tmp_path / "anchors.parquet")
    store = tmp_path / "features"
    store.mkdir()
    for index in (IMAGES, PRIORS):
        (store / index).touch()
    write_json(store / MANIFEST, {})
    for room in (training, decoding):
        monkeypatch.setattr(room, "open_features", lambda directory, backbones, device: features)
    return {
        "corpus": tmp_path / "corpus",
        "emphasis": tmp_path / "corpus" / "records.parquet",  # has the same two columns
        "anchors": tmp_path / "anchors.parquet",
        "features": store,
        "backbones": backbones,
    }


@pytest.fixture
def log() -> Callable[[list], Any]:
    """``open_log`` that appends to a list."""
    return lambda logged: lambda scratch: nullcontext(lambda values, step: logged.append((step, values)))
