"""Phases on several processes: the same training as one process."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load

from tests.support import drive
from tests.support.several import CASES, UPDATES, Setting, recorded, setting, task_name

__all__ = ["setting"]


@pytest.mark.parametrize(("phase", "mix"), CASES)
def test_two_processes_train_as_one(phase: str, mix: bool, setting: Setting) -> None:
    alone, together = (tasks[task_name(phase, mix)] for tasks in (setting.alone, setting.together))
    curves = [drive.logged(task) for task in (alone, together)]
    assert [step for step, _ in curves[0]] == [step for step, _ in curves[1]] == [*range(1, UPDATES + 1)]
    assert "validation/mean" in curves[1][-1][1]
    for (step, one), (_, two) in zip(*curves):
        assert two == pytest.approx(one, rel=1e-5, abs=1e-6), step
    for update, (one, two) in enumerate(zip(*(recorded(task)["gradients"] for task in (alone, together)), strict=True)):
        assert torch.linalg.vector_norm(two - one) <= 1e-5 * torch.linalg.vector_norm(one), update
    stepped = [recorded(task)["stepped"] for task in (alone, together)]
    assert stepped[0] == stepped[1] == recorded(together, 1)["stepped"]
    assert phase == "calibrate" or not all(map(all, stepped[0])), "an update without laterals skips their parameters"
    one, two = (load(drive.weights(task)) for task in (alone, together))
    assert one.keys() == two.keys()
    for name in one:
        torch.testing.assert_close(two[name], one[name], rtol=1e-4, atol=1e-5, msg=name)
