"""A phase on tiny models, as its parts meet in the training stages."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState

from pacer.config import Params, validated
from pacer.core.contexts import context_of
from pacer.core.io import write_json
from pacer.core.schemas import RECORD_SCHEMA, write_table
from pacer.decoding import run as decoding
from pacer.features.store import IMAGES, MANIFEST, PRIORS
from pacer.model.assemble import build_model, load_tokenizer
from pacer.model.pacer import Pacer
from pacer.training import loop
from pacer.training import run as training
from pacer.training.examples import Examples, RecordTable
from pacer.training.phases import phase_of
from tests.support.models import specification
from tests.support.profiles import profile

ROOT = Path(__file__).parents[2]


def parameters(**groups: dict) -> Params:
    """The micro profile with six updates of four records, and what ``groups`` change."""
    values = profile("micro").model_dump()
    phase = {"updates": 6, "batch_size": 4, "warmup_updates": 2}
    changes = {
        "warmup": phase,
        "parent": phase,
        "calibrate": phase,
        "train": {
            "state_interval": 2,
            "validation_interval": 3,
            "validation_records": None,
            "log_interval": 1,
        },
    }
    for group, changed in (*changes.items(), *groups.items()):
        values[group] |= changed
    return validated(values, "params", Params)


def record_table(records: pl.DataFrame, anchors: pl.DataFrame | None = None) -> RecordTable:
    """The table of ``records``, which have their emphasis, and of ``anchors`` in the same order."""
    return RecordTable(records if anchors is None else records.hstack(anchors.drop("record_id")))


def stepped(
    monkeypatch: pytest.MonkeyPatch, blocks: list[tuple[str, tuple, set[str]]]
) -> list[list[tuple[set[str], bool]]]:
    """Watch blocks of parameters in runs to come: for each, the contexts of every update and
    whether the update moved it. All of its weights, moments and counts of steps move, or all stay
    to the bit."""
    taken: list[list[tuple[set[str], bool]]] = [[] for _ in blocks]
    update = loop._Run.update

    def state(
        own: Any, name: str, index: tuple, contexts: set[str]
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        [block] = [block for block, used in own.optimizer.blocks[name] if set(used) == contexts]
        moments = [value.clone() for value in own.optimizer.adamw.state.get(block, {}).values()]
        return own.parameters[name][index].detach().clone(), moments

    def watched(own: Any, stream: Iterator) -> None:
        before = [state(own, *block) for block in blocks]
        micros = [next(stream) for _ in range(own.phase.schedule.accumulation)]
        present = {context_of(*row) for _, batch in micros for row in batch.availability.tolist()}
        update(own, iter(micros))
        for block, (weights, moments), results in zip(blocks, before, taken, strict=True):
            after, later = state(own, *block)
            moved = not torch.equal(weights, after)
            same = len(moments) == len(later) and all(map(torch.equal, moments, later))
            assert moved != same, block
            results.append((present, moved))

    monkeypatch.setattr(loop._Run, "update", watched)
    return taken


@pytest.fixture
def accelerator() -> Accelerator:
    return Accelerator(cpu=True)


@pytest.fixture
def device_accelerator(device: torch.device) -> Iterator[Callable[..., Accelerator]]:
    """Makes an accelerator on the device, instead of any before it."""

    def make(**named: Any) -> Accelerator:
        AcceleratorState._reset_state(reset_partial_state=True)
        return Accelerator(cpu=device.type == "cpu", **named)

    yield make
    AcceleratorState._reset_state(reset_partial_state=True)


@pytest.fixture
def setting(
    records: pl.DataFrame, anchors: pl.DataFrame, backbones: Path, features
) -> Callable[..., tuple[Pacer, Examples]]:
    """Model and examples of a phase; ``dropout`` of all parts, and what ``groups`` change in the
    model's settings."""

    def make(phase: str, dropout: float = 0.1, **groups: dict) -> tuple[Pacer, Examples]:
        torch.manual_seed(5)
        parts = {group: {"dropout": dropout} for group in ("interface", "lora", "calibrate")}
        own = specification(
            phase, **groups | {group: parts[group] | groups.get(group, {}) for group in parts}
        )
        model = build_model(backbones, own)
        direct = phase == "warmup"
        rows = records.filter(pl.col("context") == "sn") if direct else records
        examples = Examples(
            record_table(rows, None if direct else anchors),
            load_tokenizer(backbones),
            features,
            own,
        )
        return model, examples

    return make


@pytest.fixture
def run(setting, accelerator, tmp_path: Path) -> Callable[..., tuple[dict, list]]:
    """Trains a phase in a folder, and returns its weights and what it logged."""

    def train(
        name: str, made: tuple[Pacer, Examples] | None = None, folder: str = "run", **groups: dict
    ) -> tuple:
        (tmp_path / folder).mkdir(exist_ok=True)
        logged: list[tuple[int, dict[str, float]]] = []
        model, examples = made or setting(name)
        phase = phase_of(name, parameters(**groups))
        weights = loop.train(
            model,
            examples,
            phase,
            accelerator,
            tmp_path / folder,
            lambda v, s: logged.append((s, v)),
        )
        return weights, logged

    return train


@pytest.fixture
def inputs(
    tmp_path: Path,
    records: pl.DataFrame,
    anchors: pl.DataFrame,
    backbones: Path,
    features,
    monkeypatch,
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
    return lambda logged: (
        lambda scratch: nullcontext(lambda values, step: logged.append((step, values)))
    )
