"""Stand-ins trained one at a time and side by side."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from pacer.backbones import make_backbones
from pacer.backbones.make_backbones import MODELS, make_standins
from pacer.core.io import hash_file
from pacer.model.prompt.instruction import instruction
from pacer.params import Backbone
from pacer.params.backbones import Backbones
from pacer.params.profiles import load_profile
from pacer.pretrained.pointers import provenance

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


def make(out: Path, **settings) -> dict[str, str]:
    config = SMALL.model_copy(update=settings)
    make_standins(config, NOTHING, NOTHING, instruction, out)
    return {str(file.relative_to(out)): hash_file(file) for file in sorted(out.rglob("*")) if file.is_file()}


def test_one_at_a_time_makes_the_same_as_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vision = {"vision": Backbone(provider="local", path=".")}  # no stand-in
    monkeypatch.setattr(make_backbones, "_cores", lambda: 3)
    beside = make(tmp_path / "beside", **vision)
    monkeypatch.setattr(make_backbones, "_cores", lambda: 1)
    assert make(tmp_path / "alone", **vision) == beside
    assert {file.split("/")[0] for file in beside} == {*MODELS} - {"vision"}
    assert all(provenance(tmp_path / "alone" / name)["data"] == "phantom world 1000014" for name in MODELS[1:])
    assert all(provenance(tmp_path / "alone" / name)["provider"] == "standin" for name in MODELS[1:])
