"""Tiny frozen models with the real architectures, untrained: what the model, training and decoding
rooms stand on."""

import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import polars as pl
import pytest
import torch
from filelock import FileLock
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    BertTokenizerFast,
    BitImageProcessorPil,
    PreTrainedTokenizerFast,
)

from pacer.core.io import write_json, yaml_beside
from pacer.decoding.lists.maps import ListPredictor, SidePredictor
from pacer.model.assemble import build_model, frozen_fingerprints, load_tokenizer
from pacer.model.checkpoint import (
    WEIGHTS,
    CheckpointRecord,
    ModelSpecification,
    checkpoint_hash,
    parent_reference,
    read_record,
    read_weights,
    save_checkpoint,
)
from pacer.model.pacer import Pacer
from pacer.phantom.tokenizer import phantom_tokenizer
from pacer.training.examples import Examples, RecordTable
from tests.support.made_records import commitments_of, few_records

#: Settings of the tiny model, as in ``params.yaml``, and the configurations of its frozen parts.
MODEL: dict[str, dict[str, Any]] = yaml_beside(__file__, "model.yaml")
FROZEN: dict[str, dict[str, Any]] = MODEL.pop("frozen")
WIDTH, GRID = 16, 4
QUERIES: int = MODEL["interface"]["num_queries"]
DEPTHS: list[int] = MODEL["features"]["depths"]


def specification(phase: str = "calibrate", **groups: dict) -> ModelSpecification:
    """The tiny model of a phase, with what ``groups`` change."""
    later = {"warmup": {"lora", "prompt", "commit", "calibrate"}, "parent": {"calibrate"}}.get(
        phase, set()
    )
    own = {
        name: values | groups.get(name, {}) for name, values in MODEL.items() if name not in later
    }
    return ModelSpecification.model_validate(own)


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Small tensors gain nothing from threads, and results do not depend on their number."""
    torch.set_num_threads(1)


#: Where the body of a test runs: on the CPU, and with `pytest -m gpu` on a GPU.
DEVICES = ("cpu", pytest.param("cuda", marks=pytest.mark.gpu))


@pytest.fixture(scope="session", params=DEVICES)
def device(request: pytest.FixtureRequest) -> torch.device:
    """Each of :data:`DEVICES`."""
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return torch.device(request.param)


@pytest.fixture(scope="session")
def backbones(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """vision (3 blocks, 4 x 4 patches), language (2 blocks) and text (1 block), each in Hugging
    Face format.

    Made by the first worker that asks for them, because the tokenizer is learnt; tests leave them
    as they are.
    """
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "backbones"
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            unfinished = folder.with_name("backbones.unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            write_backbones(unfinished)
            unfinished.rename(folder)
    return folder


def write_backbones(root: Path) -> None:
    torch.manual_seed(0)
    made = {"vision": AutoModel, "language": AutoModelForCausalLM, "text": AutoModel}
    tokenizer = phantom_tokenizer(600)
    for role, kind in made.items():
        config = AutoConfig.for_model(**FROZEN[role])
        model = kind.from_config(config)
        if role == "vision":
            torch.nn.init.normal_(model.layernorm.weight, 1.0, 0.3)
        model.save_pretrained(root / role)
        write_json(root / role / "provenance.json", {"provider": "standin"})
    edges = {"height": 56, "width": 56}
    BitImageProcessorPil(size={"shortest_edge": 56}, crop_size=edges).save_pretrained(
        root / "vision"
    )
    special = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(
        root / "language"
    )
    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        ".",
        *ascii_lowercase,
        *(f"##{c}" for c in ascii_lowercase),
    ]
    (root / "text" / "vocab.txt").write_text("\n".join(words))
    BertTokenizerFast(vocab=str(root / "text" / "vocab.txt")).save_pretrained(root / "text")


@pytest.fixture
def other_backbones(backbones: Path, tmp_path: Path) -> Path:
    """A copy, for a test that changes it."""
    return Path(shutil.copytree(backbones, tmp_path / "backbones"))


class RandomFeatures:
    """A feature store whose states follow from the id alone."""

    def depth_states(self, image_ids):
        return torch.stack([self._draw(i, len(DEPTHS), GRID * GRID, WIDTH) for i in image_ids])

    def prior_states(self, texts):
        return torch.stack([self._draw(t, 7, 20) for t in texts]), torch.ones(
            len(texts), 7, dtype=torch.bool
        )

    def _draw(self, key: str, *shape: int) -> torch.Tensor:
        seed = sum(ord(c) * 31**i for i, c in enumerate(key)) % 2**31
        return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def features() -> RandomFeatures:
    return RandomFeatures()


@pytest.fixture
def records() -> pl.DataFrame:
    """Six train and two val records for each context, of eight patients."""
    return few_records(".jpg")


@pytest.fixture
def anchors(records: pl.DataFrame) -> pl.DataFrame:
    return commitments_of(records)


@pytest.fixture
def examples(
    records: pl.DataFrame, anchors: pl.DataFrame, backbones: Path, features: RandomFeatures
) -> Examples:
    table = RecordTable(records.hstack(anchors.drop("record_id")))
    return Examples(table, load_tokenizer(backbones), features, specification())


def moved(module: Any, by: float = 0.2, seed: int | None = None) -> Any:
    """The module with no trained parameter where its initialisation put it."""
    if seed is not None:
        torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter) * by)
    return module


def moved_model(backbones: Path, own: ModelSpecification | None = None, seed: int = 3) -> Pacer:
    """A model in eval mode that :func:`moved`."""
    torch.manual_seed(seed)
    return moved(build_model(backbones, own or specification()).eval())


def save_model(
    folder: Path, model: Pacer, backbones: Path, own: ModelSpecification, parent: Path | None = None
) -> None:
    """Write the checkpoint of the phase of ``own``: a parent's has no calibrator, one on a
    ``parent`` nothing else."""
    phase = "parent" if own.calibrate is None else "calibrate"
    trained = {
        name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad
    }
    if phase == "parent" or parent is not None:
        calibrates = phase == "calibrate"
        trained = {
            name: value
            for name, value in trained.items()
            if name.startswith("calibrator.") == calibrates
        }
    reference = None if parent is None else parent_reference(folder, parent)
    frozen = frozen_fingerprints(backbones)
    record = CheckpointRecord(
        phase=phase, step=7, model=own, frozen=frozen, parent=reference, versions={}
    )
    save_checkpoint(folder, trained, record)


def save_reader(folder: Path, parent: Path, sided: Sequence[str] = ()) -> None:
    """A list predictor, also of the sides of these findings, with random weights, in the place of
    the stage ``lists``."""
    width = len(read_weights(parent / WEIGHTS)["interface.fusion_norm.weight"])
    draw = torch.Generator().manual_seed(8)
    predictor = ListPredictor(
        torch.randn(2 * width, 39, generator=draw), torch.randn(39, generator=draw)
    )
    if sided:
        states = len(read_record(parent).model.features.depths) + 1
        maps = {
            finding: (
                torch.randn(GRID**2 * states * WIDTH, 3, generator=draw),
                torch.randn(3, generator=draw),
            )
            for finding in sided
        }
        predictor = replace(predictor, sides=SidePredictor(maps, 0.3, GRID))
    predictor.save(folder, {"weights": checkpoint_hash(parent)})


def save_calibrated(folder: Path, backbones: Path) -> None:
    """A checkpoint of Calibrate without a parent, no trained parameter of which is where its
    initialisation put it."""
    save_model(folder, moved_model(backbones, seed=5), backbones, specification())
