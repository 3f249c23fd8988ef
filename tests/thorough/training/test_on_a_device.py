"""Phases on the CPU and on a GPU, in processes of their own: killed and started again, and divided
between two.

On a GPU they use deterministic algorithms: else two runs differ in their last bits, killed or not.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load

from tests.support import drive
from tests.support.models import MODEL

#: In bfloat16 the shares of two processes would be rounded otherwise than the whole.
EXACT = {"parent": {"learning_rate": 3e-4}, "train": {"precision": "float32"}}


@dataclass
class Setting:
    """Inputs of the phases, and the device that they are trained on."""

    folder: Path
    device: str
    inputs: dict[str, str]

    def task(
        self, phase: str, name: str, model: dict = MODEL, groups: dict | None = None, **more: Any
    ) -> dict:
        """A phase, from the reference run's checkpoint to a checkpoint of this name."""
        return drive.job(
            phase,
            drive.parameters(model, **(groups or {})),
            self.inputs,
            self.folder / name,
            **more,
        )

    def finish(self, *tasks: dict) -> None:
        """Do tasks one after another in one process; all must succeed."""
        code, output = drive.ended(
            drive.launch([drive.write_job(task) for task in tasks], device=self.device)
        )
        assert code == 0, output


@pytest.fixture(scope="module")
def setting(
    backbones: Path, device: torch.device, tmp_path_factory: pytest.TempPathFactory
) -> Setting:
    """With the phases trained without a stop."""
    folder = tmp_path_factory.mktemp("device")
    setting = Setting(
        folder, device.type, drive.write_inputs(folder, backbones, drive.parameters(MODEL))
    )
    alone = setting.task("parent", "alone", drive.STILL, EXACT)
    setting.finish(*(setting.task(phase, phase) for phase in ("warmup", "parent", "calibrate")))
    setting.finish(
        alone
    )  # a process has one precision, and on a GPU that of the others is bfloat16
    return setting


def test_killed_and_started_again_a_phase_ends_with_the_same_bits(setting: Setting) -> None:
    tasks = {phase: setting.task(phase, f"{phase}-killed") for phase in ("parent", "calibrate")}
    stop = {"point": "AdamW.step", "number": 3}
    killed = [
        drive.launch([drive.write_job(task | {"stop": stop})], device=setting.device)
        for task in tasks.values()
    ]
    for process in killed:
        code, output = drive.ended(process)
        assert code == drive.KILLED, output
    assert all((Path(f"{task['out']}.scratch")).exists() for task in tasks.values())
    setting.finish(*tasks.values())
    for phase, task in tasks.items():
        reference = setting.task(phase, phase)
        assert drive.weights(task) == drive.weights(reference), phase
        assert drive.logged(task) == drive.logged(reference), phase


@pytest.mark.parametrize("backend", ["gloo", "nccl"])
def test_two_processes_train_as_one(backend: str, setting: Setting) -> None:
    """With gloo two nodes that share one device, with NCCL two processes on a device each."""
    task = setting.task("parent", backend, drive.STILL, EXACT)
    if backend == "gloo":
        task["backend"] = (
            backend  # for a GPU accelerate takes NCCL, which refuses two processes on one
        )
        launches = drive.launch_nodes([drive.write_job(task)], setting.device)
    elif setting.device == "cuda" and torch.cuda.device_count() > 1:
        launches = [drive.launch([drive.write_job(task)], drive.TWO_PROCESSES, setting.device)]
    else:
        pytest.skip("NCCL needs two CUDA devices")
    for code, output in [drive.ended(process) for process in launches]:
        assert code == 0, output
    alone = setting.task("parent", "alone", drive.STILL, EXACT)
    for (step, one), (_, two) in zip(drive.logged(alone), drive.logged(task), strict=True):
        assert two == pytest.approx(one, rel=1e-4, abs=1e-5), step
    one, two = (load(drive.weights(run)) for run in (alone, task))
    assert one.keys() == two.keys()
    for name in one:
        torch.testing.assert_close(two[name], one[name], rtol=1e-3, atol=1e-4, msg=name)
