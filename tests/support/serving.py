"""One small world for all tests of the room; nothing in it is changed by a test."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pacer.serving.export import export_model
from pacer.serving.reporter import Reporter
from tests.support.world import World, make_world


@pytest.fixture(scope="session")
def world(backbones: Path, tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"), backbones)


@pytest.fixture(scope="session")
def exported(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model directory with its frozen models copied in."""
    out = tmp_path_factory.mktemp("exported") / "model"
    export_model(out, world.decode, with_backbones=True, **world.inputs)
    return out


@pytest.fixture(scope="session")
def reporter(exported: Path) -> Reporter:
    return Reporter(exported, device="cpu")


@pytest.fixture
def folder(exported: Path, tmp_path: Path) -> Path:
    """A copy of the model directory, for a test that changes it."""
    return Path(shutil.copytree(exported, tmp_path / "model"))
