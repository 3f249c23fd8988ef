"""A tiny trained parent on disk, and what a training stage reads beside it."""

from pathlib import Path

import pytest

from pacer.config import Params
from pacer.config.baselines import BaselineParams, load_baseline_params
from pacer.config.params import load_profile
from tests.support.models import moved_model, save_model, specification

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def parent(tmp_path_factory: pytest.TempPathFactory, backbones: Path) -> Path:
    """A checkpoint of the parent phase with every trained weight off its initial value."""
    out = tmp_path_factory.mktemp("models") / "parent"
    described = specification("parent")
    save_model(out, moved_model(backbones, described), backbones, described)
    return out


@pytest.fixture
def micro() -> BaselineParams:
    return load_baseline_params(ROOT / "baselines" / "micro.yaml")


@pytest.fixture
def params() -> Params:
    values = load_profile(ROOT / "configs" / "micro.yaml").model_dump()
    values["backbones"]["vision"] = {"provider": "local", "path": "elsewhere"}
    values["train"] |= {"state_interval": 1, "validation_interval": 4, "log_interval": 1}
    return Params.model_validate(values)
