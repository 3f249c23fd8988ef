"""dvc.yaml against the training stages, whose phase is named on the command line: parameters and files of each."""

import getpass
import os
import runpy
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ruamel.yaml import YAML

from pacer.model.checkpoint import specification_of
from pacer.training.run import Inputs
from tests.support.profiles import profile

ROOT = Path(__file__).parents[3]
STAGES = YAML(typ="safe").load(ROOT / "dvc.yaml")["stages"]
BASELINES = YAML(typ="safe").load(ROOT / "baselines" / "stages.yaml")["stages"]
PHASES = ("warmup", "parent", "calibrate")


@pytest.mark.parametrize("phase", PHASES)
def test_the_parameters_of_a_training_stage_are_those_that_its_phase_is_made_of(phase: str) -> None:
    """The groups that the checkpoint's record names, the phase's own, and those of the training itself."""
    made_of = {phase, "train", "batches", *specification_of(phase, profile("micro")).written()}
    assert {parameter.partition(".")[0] for parameter in STAGES[phase]["params"]} == made_of


def read_by(script: str, name: str, trainers: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The files that a script gives to what trains, without the last paths and what logs."""
    given: list[Path] = []

    def note(settings: Any, params: Any, inputs: Inputs, *paths: Any) -> None:
        *read, _out, _open_log = paths
        given.extend(path for path in (*vars(inputs).values(), *read) if path is not None)

    monkeypatch.setattr("sys.argv", [script, name])
    monkeypatch.setitem(sys.modules, "curves", SimpleNamespace(dvclive_log=nullcontext))
    monkeypatch.setattr("pacer.config.load_params", lambda: profile("micro"))
    monkeypatch.setattr("pacer.config.baselines.load_baseline_params", lambda: SimpleNamespace(simmlm=None, ragpt=None))
    for trainer in trainers:
        monkeypatch.setattr(trainer, note)
    runpy.run_path(str(ROOT / "stages" / script))["main"]()
    return set(map(str, given))


@pytest.mark.parametrize("phase", PHASES)
def test_a_training_stage_declares_the_files_that_its_phase_reads(phase: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read = read_by("train.py", phase, ("pacer.training.run.run_phase",), monkeypatch)
    assert len(read) >= 4 and read <= set(STAGES[phase]["deps"])


def test_curves_of_a_user_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that is started with the number of a user."""
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "")
    monkeypatch.setattr("pwd.getpwuid", lambda number: {}[number])
    runpy.run_path(str(ROOT / "stages" / "curves.py"))["name_user"]()
    monkeypatch.setenv("LOGNAME", os.environ["LOGNAME"])  # taken back after the test
    assert getpass.getuser() == f"user-{os.getuid()}"


@pytest.mark.parametrize("baseline", ["simmlm", "ragpt"])
def test_a_baseline_declares_the_files_that_its_training_reads(baseline: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trainers = tuple(f"pacer.baselines.{name}.train_{name}" for name in ("simmlm", "ragpt"))
    read = read_by("baseline_train.py", baseline, trainers, monkeypatch)
    assert len(read) == 6 + (baseline == "ragpt") and read <= set(BASELINES[baseline]["deps"])
