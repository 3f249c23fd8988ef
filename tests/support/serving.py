"""One small world for all tests of the room; nothing in it is changed by a test."""

import shutil
from pathlib import Path

import pytest

from pacer.core.io import read_json, write_json
from pacer.model.checkpoint import RECORD
from pacer.serving.package import export_model
from pacer.serving.reporter import Reporter
from tests.support.models import save_reader
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


#: The findings whose sides the model of :func:`described` reads.
READ = ("lung opacity", "pleural effusion", "pneumonia")


@pytest.fixture(scope="session")
def described(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a model whose lists have sides, beside the stages' outs that it is made
    of."""
    root = tmp_path_factory.mktemp("describing")
    for name in ("parent", "calibrate"):
        shutil.copytree(world.root / name, root / name)
        record = read_json(root / name / RECORD)
        record["model"]["commit"]["attributes"] = ["side"]
        write_json(root / name / RECORD, record)
    save_reader(root / "lists", root / "parent", READ)
    own = {"model": root / "calibrate", "findings": root / "lists"}
    export_model(
        root / "model",
        world.decode.model_copy(update={"max_new_tokens": 60}),
        **world.inputs | own,
    )
    return root / "model"


@pytest.fixture(scope="session")
def describing(described: Path) -> Reporter:
    return Reporter(described, device="cpu")


@pytest.fixture
def folder(exported: Path, tmp_path: Path) -> Path:
    """A copy of the model directory, for a test that changes it."""
    return Path(shutil.copytree(exported, tmp_path / "model"))
