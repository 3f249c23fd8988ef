"""Phases on several processes, started as a user starts them: beside the same phases in one process.

The processes are real, on the CPU with gloo. `accelerate launch` starts several processes on CPUs only as it does for
GPUs (``--multi_gpu``, or ``distributed_type: MULTI_GPU``) and with ACCELERATE_USE_CPU in their environment; with
``--cpu`` it starts one, whatever ``--num_processes`` says.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support import drive
from tests.support.models import MODEL

#: Dropout is drawn per process, so what depends on it differs with their number.
STILL = MODEL | {group: MODEL[group] | {"dropout": 0.0} for group in ("interface", "lora", "calibrate")}
UPDATES, STATE_INTERVAL = 6, 2
CASES = [("parent", False), ("calibrate", True)]  # phase, and whether its batches mix contexts


def task_name(phase: str, mix: bool) -> str:
    return f"{phase}-mixed" if mix else phase


@dataclass
class Setting:
    """Inputs of the phases, each phase done by one process, and what several processes made of it."""

    folder: Path
    backbones: Path
    inputs: dict[str, str] = field(default_factory=dict)
    alone: dict[str, dict] = field(default_factory=dict)
    together: dict[str, dict] = field(default_factory=dict)

    def task(self, phase: str, mix: bool, what: str, **train: Any) -> dict[str, Any]:
        name = f"{task_name(phase, mix)}-{what}"
        # three records to a micro-batch, so that two processes get unequal shares, and two of these to an update; the
        # paper's learning rate, as AdamW's first steps amplify rounding
        own = {"accumulation": 2, "learning_rate": 3e-4}
        params = drive.parameters(STILL, **{"batches": {"mix": mix}, "train": train, phase: own})
        return drive.job(phase, params, self.inputs, self.folder / name, record=str(self.folder / name))


@pytest.fixture(scope="module")
def setting(backbones: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    setting = Setting(tmp_path_factory.mktemp("several"), backbones)
    params = drive.parameters(STILL)
    setting.inputs = drive.write_inputs(setting.folder, backbones, params)
    with drive.Server(setting.folder) as server:
        for phase in ("warmup", "parent"):
            server.finish(drive.job(phase, params, setting.inputs, setting.folder / phase))
        for phase, mix in CASES:
            setting.alone[task_name(phase, mix)] = task = setting.task(phase, mix, "alone")
            server.finish(task)
    tasks = [setting.task(phase, mix, "together") for phase, mix in CASES]
    setting.together = {task_name(*case): task for case, task in zip(CASES, tasks)}
    code, output = drive.ended(drive.launch([drive.write_job(task) for task in tasks], drive.TWO_PROCESSES))
    assert code == 0, output
    yield setting


def recorded(task: dict[str, Any], rank: int = 0) -> dict[str, Any]:
    return torch.load(f"{task['record']}.{rank}.pt")
