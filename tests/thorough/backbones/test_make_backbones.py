"""Stand-ins trained one at a time and side by side."""

import os
from pathlib import Path

import pytest

from pacer.backbones.make_backbones import MODELS
from pacer.config import Backbone
from pacer.core.pointers import provenance
from tests.integration.backbones.test_make_backbones import make


def test_one_at_a_time_makes_the_same_as_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vision = {"vision": Backbone(provider="local", path=".")}  # no stand-in
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2})
    beside = make(tmp_path / "beside", **vision)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0})
    assert make(tmp_path / "alone", **vision) == beside
    assert {file.split("/")[0] for file in beside} == {*MODELS} - {"vision"}
    assert all(provenance(tmp_path / "alone" / name)["data"] == "phantom world 1000014" for name in MODELS[1:])
    assert all(provenance(tmp_path / "alone" / name)["provider"] == "standin" for name in MODELS[1:])
