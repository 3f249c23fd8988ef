"""Stand-ins side by side: what is made does not depend on who ends first, and a failure is one clear error."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path

import polars as pl
import pytest

from pacer.backbones.make_backbones import MODELS, make_standins, side_by_side
from pacer.config.backbones import Backbones
from pacer.config.profiles import load_profile
from pacer.core.errors import BackboneError, DataError
from pacer.core.io import hash_file
from pacer.model.prompt import instruction

_TEXTS = {"heads": 2, "vocabulary": 600, "texts": 200, "steps": 4}
SMALL = Backbones.model_validate(
    load_profile("configs/phantom.yaml").backbones.model_dump()
    | {role: {"provider": "standin"} for role in MODELS}
    | {
        "vision_standin": {"width": 24, "image_size": 56, "patch_size": 14, "heads": 2, "images": 64, "steps": 4}
        | {"batch_size": 16, "learning_rate": 1.5e-3},
        "language_standin": {"width": 32, "layers": 2, "slots": 4, "batch_size": 8, "learning_rate": 3e-3} | _TEXTS,
        "text_standin": {"width": 24, "layers": 2, "batch_size": 8, "learning_rate": 1e-3} | _TEXTS,
        "chexbert_standin": {"width": 32, "layers": 3, "batch_size": 8, "learning_rate": 1e-3} | _TEXTS,
    }
)
NOTHING = pl.DataFrame(schema={"split": pl.String})


def wait_for(there: Path) -> None:
    while not there.exists():
        time.sleep(0.02)


def fail() -> None:
    raise DataError("record sn-3 is not usable")


def make(out: Path, **settings) -> dict[str, str]:
    config = SMALL.model_copy(update=settings)
    make_standins(config, NOTHING, NOTHING, instruction, out)
    return {str(file.relative_to(out)): hash_file(file) for file in sorted(out.rglob("*")) if file.is_file()}


def test_the_error_of_one_ends_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})
    with pytest.raises(DataError, match="record sn-3 is not usable"):
        side_by_side([partial(wait_for, tmp_path / "never"), fail])


def test_a_killed_process_is_one_clear_error() -> None:
    with pytest.raises(BackboneError, match="that trained a stand-in was killed"):
        side_by_side([partial(os._exit, 9)])


def test_a_corpus_without_train_records_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="needs train records"):
        make(tmp_path, train_on="corpus")
