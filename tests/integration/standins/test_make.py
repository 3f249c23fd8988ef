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
from tests.support.profiles import profile

_TEXTS = {"heads": 2, "vocabulary": 600, "texts": 200, "steps": 4}
SMALL = Backbones.model_validate(
    profile("phantom").backbones.model_dump()
    | {role: {"provider": "standin"} for role in ROLES}
    | {
        "vision_standin": {
            "width": 24,
            "image_size": 56,
            "patch_size": 14,
            "heads": 2,
            "images": 64,
            "steps": 4,
        }
        | {"batch_size": 16, "learning_rate": 1.5e-3},
        "language_standin": {
            "width": 32,
            "layers": 2,
            "slots": 4,
            "batch_size": 8,
            "learning_rate": 3e-3,
        }
        | _TEXTS,
        "text_standin": {"width": 24, "layers": 2, "batch_size": 8, "learning_rate": 1e-3} | _TEXTS,
        "chexbert_standin": {"width": 32, "layers": 3, "batch_size": 8, "learning_rate": 1e-3}
        | _TEXTS,
    }
)
NOTHING = pl.DataFrame(schema={"split": pl.String})


def make(out: Path, **settings) -> dict[str, str]:
    make_standins(SMALL.model_copy(update=settings), NOTHING, NOTHING, instruction, out)
    return {
        str(file.relative_to(out)): hash_file(file)
        for file in sorted(out.rglob("*"))
        if file.is_file()
    }


def test_the_first_error_ends_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})
    # forks of one process that has imported the models; the next test starts a new one
    imported = ["tests.support.building", "pacer.standins.language"]
    multiprocessing.set_forkserver_preload([*imported, "pacer.standins.bert"])
    forked = partial(start_processes, start_method="forkserver")
    monkeypatch.setattr(making, "spawn", forked)
    changes = {role: Backbone(provider="bundled") for role in ("vision", "chexbert")}
    changes |= {"language_standin": SMALL.language_standin.model_copy(update={"steps": 10**9})}
    changes |= {"text_standin": SMALL.text_standin.model_copy(update={"texts": 1})}
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
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0})
    monkeypatch.setattr(making, "_train_share", killed)
    with pytest.raises(
        BackboneError, match=r"a stand-in could not be trained: .* terminated with signal SIGKILL"
    ):
        make(tmp_path)


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
    longer = getattr(SMALL, f"{role}_standin").model_copy(update={"steps": 12})
    config, steps, advance = (
        SMALL.model_copy(update={f"{role}_standin": longer}),
        count(1),
        training.Ticker.advance,
    )
    arguments = [[role]], config, load_data(config, NOTHING, NOTHING), instruction

    def interrupted(ticker: training.Ticker, **told: str) -> None:
        advance(ticker, **told)
        if "stand-in" in ticker.desc and next(steps) == stop:
            raise KeyboardInterrupt

    monkeypatch.setattr(training.Ticker, "advance", interrupted)
    with pytest.raises(KeyboardInterrupt):
        making._train_share(0, *arguments, tmp_path / "again")
    assert {file.suffix for file in (tmp_path / "again" / role).iterdir()} == {training.UNFINISHED}
    for out in ("again", "whole"):
        making._train_share(0, *arguments, tmp_path / out)
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
