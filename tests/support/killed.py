"""Phases of training in processes that are killed (SIGKILL) at a chosen moment and started
again."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pacer.config import Params
from pacer.core.io import read_json
from tests.support import drive
from tests.support.models import MODEL

PHASES = ("parent", "calibrate")
UPDATES = 6
#: The updates after which a run can be started again: every second, and before each validation.
SAVED = (0, 2, 3, 4, 6)
HALF_STATE, STATE_RENAMED = "half of torch.save .state.pt.tmp", "os.replace state.pt"
STEP = "AdamW.step"
#: A point of the log is a mean over updates before and after a state.
PARAMETERS = drive.parameters(MODEL, train={"log_interval": 5})


@dataclass
class Reference:
    """A run that nobody stopped: weights, log, and the points it passed."""

    weights: bytes
    log: list
    points: list[tuple[str, int]]

    def left(self, index: int) -> set[int]:
        """Updates that are still to do after a kill at this point; while the scratch is removed
        that is open."""
        before = [point for point, _ in self.points[:index]]
        return (
            {0, UPDATES}
            if "os.replace out" in before
            else {UPDATES - SAVED[before.count(STATE_RENAMED)]}
        )


@dataclass
class Setting:
    """Inputs of the phases and a server of processes."""

    folder: Path
    server: drive.Server
    inputs: dict[str, str]
    references: dict[str, Reference] = field(default_factory=dict)

    def task(
        self, name: str, phase: str, params: Params | None = None, **more: Any
    ) -> dict[str, Any]:
        """A job with an output of its own, and a watch on it."""
        watch = str(self.folder / f"{name}.watch.json")
        return drive.job(
            phase, params or PARAMETERS, self.inputs, self.folder / name, watch=watch, **more
        )

    def reference(self, phase: str) -> Reference:
        """The uninterrupted run of a phase, which replaces an older checkpoint."""
        if phase not in self.references:
            task = self.task(f"{phase}-reference", phase)
            put_older(task)
            self.server.finish(task)
            self.references[phase] = Reference(
                drive.weights(task), drive.logged(task), read_json(task["watch"])
            )
        return self.references[phase]

    def kill(self, *runs: tuple[dict[str, Any], str, int]) -> None:
        """Do tasks at the same time, each until its process kills itself at a point, met for that
        time."""
        stops = [
            task | {"stop": {"point": point, "number": number}} for task, point, number in runs
        ]
        for (_, point, number), (code, output) in zip(runs, self.server.run(*stops)):
            assert code == drive.KILLED, f"not killed at {point} {number}: {output}"

    def start_and_stop(self, task: dict[str, Any], point: str, number: int) -> int:
        """Start a process that halts at a point, and wait until it has."""
        pid = self.server.start(
            task | {"stop": {"point": point, "number": number, "signal": "SIGSTOP"}}
        )
        assert self.server.until_still(pid), self.server.output(pid)
        return pid


@pytest.fixture(scope="module")
def setting(backbones: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    folder = tmp_path_factory.mktemp("killed")
    with drive.Server(folder) as server:
        inputs = drive.write_inputs(folder, backbones, PARAMETERS)
        for phase in ("warmup", "parent"):
            server.finish(drive.job(phase, PARAMETERS, inputs, folder / phase))
        yield Setting(folder, server, inputs)


def stopped(task: dict[str, Any], point: str, number: int, **more: Any) -> dict[str, Any]:
    """The task with a signal at a point: SIGTERM, unless ``more`` names another."""
    return task | {"stop": {"point": point, "number": number, "signal": "SIGTERM", **more}}


def scratch(task: dict[str, Any]) -> Path:
    return Path(f"{task['out']}.scratch")


def put_older(task: dict[str, Any]) -> None:
    """Put an older checkpoint where the task's will be."""
    shutil.rmtree(task["out"], ignore_errors=True)
    Path(task["out"]).mkdir()
    for name in ("model.safetensors", "config.json"):
        (Path(task["out"]) / name).write_text("older")


def steps(task: dict[str, Any]) -> int:
    """Updates of the last run of a task that ended."""
    return sum(point == STEP for point, _ in read_json(task["watch"]))


def assert_like(task: dict[str, Any], reference: Reference) -> None:
    """The task has ended as the reference run did, to the bit, and left nothing else."""
    assert drive.weights(task) == reference.weights
    assert drive.logged(task) == reference.log
    assert not scratch(task).exists()
