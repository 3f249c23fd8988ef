"""Stand-ins side by side: a failure is one clear error, and what was finished is not trained
again."""

import multiprocessing
import os
import signal
from functools import partial
from itertools import count
from pathlib import Path

import polars as pl
import pytest
from torch.multiprocessing.spawn import start_processes

from pacer.backbones.pointers import PROVENANCE
from pacer.config import Backbone
from pacer.config.backbones import ROLES, Backbones
from pacer.core.errors import BackboneError, DataError
from pacer.core.instruction import instruction
from pacer.core.io import hash_file, write_json
from pacer.standins import make as making
from pacer.standins import training
from pacer.standins.data import load_data
from pacer.standins.make import make_standins
from pacer.standins.recipes import RECIPES
from tests.support.profiles import profile

TINY = Backbones.model_validate(
    profile("micro").backbones.model_dump() | {role: {"provider": "standin"} for role in ROLES}
)
NOTHING = pl.DataFrame(schema={"split": pl.String})


def make(out: Path, **settings) -> dict[str, str]:
    make_standins(TINY.model_copy(update=settings), NOTHING, NOTHING, instruction, out)
    return {
        str(file.relative_to(out)): hash_file(file)
        for file in sorted(out.rglob("*"))
        if file.is_file()
    }


def test_the_first_error_ends_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # forks of one process that has imported the models; the next test starts a new one
    imported = ["tests.support.building", "pacer.standins.language"]
    multiprocessing.set_forkserver_preload([*imported, "pacer.standins.bert"])
    forked = partial(start_processes, start_method="forkserver")
    monkeypatch.setattr(making, "spawn", forked)
    changes = {role: Backbone(provider="bundled") for role in ("vision", "chexbert")}
    tiny = RECIPES["tiny"]
    endless = {"language": tiny["language"]._replace(steps=10**9)}
    monkeypatch.setitem(RECIPES, "tiny", endless | {"text": tiny["text"]._replace(examples=1)})
    with pytest.raises(
        BackboneError, match=r"could not be trained: .*DataError: .* at least 2 texts .*, got 1"
    ):
        make(tmp_path, **changes)
    for role in ("language", "text"):
        write_json(tmp_path / role / PROVENANCE, {})
    make(tmp_path, **changes)  # what was finished is not trained again


def test_a_killed_process_is_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "_train_one", killed)
    with pytest.raises(
        BackboneError, match=r"a stand-in could not be trained: .* terminated with signal SIGKILL"
    ):
        make(tmp_path, **dict.fromkeys(ROLES[1:], Backbone(provider="bundled")))


def killed(number: int, *arguments: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(("role", "stop"), [("vision", 17), ("language", 6)])
def test_an_interrupted_training_continues(
    role: str, stop: int, tmp_path: Path, monkeypatch
) -> None:
    """``stop``: steps until then; of vision, 5 are the second training's. The model is the same to
    the byte."""
    handlers: list[tuple] = []
    monkeypatch.setattr(signal, "signal", lambda *what: handlers.append(what))
    monkeypatch.setattr(training, "_SAVED_EVERY", 4)
    smaller = {"width": 24, "heads": 2, "examples": 64, "batch_size": 8, "steps": 12}
    recipes = {role: RECIPES["tiny"][role]._replace(**smaller)}
    steps, advance = count(1), training.Ticker.advance
    data = load_data(TINY, NOTHING, NOTHING)
    arguments = [role], recipes, TINY.seed, data, instruction

    def interrupted(ticker: training.Ticker, **told: str) -> None:
        advance(ticker, **told)
        if "stand-in" in ticker.desc and next(steps) == stop:
            raise KeyboardInterrupt

    monkeypatch.setattr(training.Ticker, "advance", interrupted)
    with pytest.raises(KeyboardInterrupt):
        making._train_one(0, *arguments, tmp_path / "again")
    assert {file.suffix for file in (tmp_path / "again" / role).iterdir()} == {training.UNFINISHED}
    for out in ("again", "whole"):
        making._train_one(0, *arguments, tmp_path / out)
    hashes = [
        {f.name: hash_file(f) for f in (tmp_path / out / role).iterdir()}
        for out in ("again", "whole")
    ]
    assert hashes[0] == hashes[1]
    assert (
        signal.SIGINT,
        signal.SIG_DFL,
    ) in handlers  # torch takes Python's handler for a normal end


def test_a_corpus_without_train_records_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="needs training records"):
        make(tmp_path, train_on="corpus")
