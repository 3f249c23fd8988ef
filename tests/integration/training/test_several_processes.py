"""Phases on several processes, started as a user starts them: the same training as one process, and the same again
after one of the processes was killed.

The processes are real, on the CPU with gloo. `accelerate launch` starts several processes on CPUs only as it does for
GPUs (``--multi_gpu``, or ``distributed_type: MULTI_GPU``) and with ACCELERATE_USE_CPU in their environment; with
``--cpu`` it starts one, whatever ``--num_processes`` says.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load

from tests.support import drive
from tests.support.models import MODEL

#: Dropout is drawn per process, so what depends on it differs with their number.
STILL = MODEL | {group: MODEL[group] | {"dropout": 0.0} for group in ("interface", "lora", "calibrate")}
START = {"parent": "warmup", "calibrate": "parent"}
UPDATES, STATE_INTERVAL = 6, 2
CASES = [(phase, mix) for phase in START for mix in (False, True)]
#: Bytes that cost a collective no more than its latency.
SMALL = 4096


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
        return drive.job(
            phase,
            params,
            self.inputs,
            self.folder / name,
            start=str(self.folder / START[phase]),
            record=str(self.folder / name),
        )


@pytest.fixture(scope="module")
def setting(backbones: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    setting = Setting(tmp_path_factory.mktemp("several"), backbones)
    params = drive.parameters(STILL)
    setting.inputs = drive.write_inputs(setting.folder, backbones, params)
    with drive.Server(setting.folder) as server:
        for phase, start in (("warmup", None), ("parent", str(setting.folder / "warmup"))):
            server.finish(drive.job(phase, params, setting.inputs, setting.folder / phase, start=start))
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


@pytest.mark.parametrize(("phase", "mix"), CASES)
def test_two_processes_train_as_one(phase: str, mix: bool, setting: Setting) -> None:
    alone, together = (tasks[task_name(phase, mix)] for tasks in (setting.alone, setting.together))
    curves = [drive.logged(task) for task in (alone, together)]
    assert [step for step, _ in curves[0]] == [step for step, _ in curves[1]] == [*range(UPDATES + 1)]
    assert "validation/mean" in curves[1][-1][1]
    for (step, one), (_, two) in zip(*curves):
        assert two == pytest.approx(one, rel=1e-5, abs=1e-6), step
    for update, (one, two) in enumerate(zip(*(recorded(task)["gradients"] for task in (alone, together)), strict=True)):
        assert torch.linalg.vector_norm(two - one) <= 1e-5 * torch.linalg.vector_norm(one), update
    one, two = (load(drive.weights(task)) for task in (alone, together))
    assert one.keys() == two.keys()
    for name in one:
        torch.testing.assert_close(two[name], one[name], rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.parametrize(("phase", "mix"), CASES)
def test_the_processes_hold_the_same_weights(phase: str, mix: bool, setting: Setting) -> None:
    first, second = (recorded(setting.together[task_name(phase, mix)], rank)["digests"] for rank in (0, 1))
    assert len(first) == UPDATES and first == second


@pytest.mark.parametrize(("phase", "mix"), CASES)
def test_an_update_sends_the_gradients_once_and_little_else(phase: str, mix: bool, setting: Setting) -> None:
    task = setting.together[task_name(phase, mix)]
    for rank in (0, 1):
        record = recorded(task, rank)
        own = record["gradients"][0].nbytes
        assert own > SMALL
        # sent between one step of the optimiser and the next, the validation after a step included
        for update in range(UPDATES):
            sent = record["collectives"][update]
            large = [(name, size) for name, size in sent if size >= SMALL]
            assert [name for name, _ in large] == ["all_reduce"] and large[0][1] >= own, (update, sent)
    assert recorded(setting.alone[task_name(phase, mix)])["collectives"] == [[]] * (UPDATES + 1)


@dataclass
class Outcome:
    """Exit code and output of launches, in order, and whether the checkpoint was there when each had ended."""

    codes: list[int] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    published: list[bool] = field(default_factory=list)

    def add(self, task: dict[str, Any], *launches: subprocess.Popen) -> None:
        for code, output in [drive.ended(process) for process in launches]:
            self.codes.append(code)
            self.outputs.append(output)
            self.published.append(Path(task["out"]).exists())


@pytest.fixture(scope="module")
def killed(setting: Setting) -> tuple[dict[str, Any], Outcome]:
    """A phase whose second process was killed, and that was started again and had its main process killed."""
    task, outcome = setting.task("parent", False, "killed", workers=1), Outcome()
    for rank, number in ((1, 3), (0, 1)):  # in the fourth update, then in the second after the resume
        stop = {"point": "AdamW.step", "number": number, "rank": rank}
        outcome.add(task, drive.launch([drive.write_job(task | {"stop": stop})], drive.TWO_PROCESSES))
    return task, outcome


@pytest.fixture(scope="module")
def nodes(setting: Setting, killed: tuple[dict[str, Any], Outcome]) -> tuple[dict[str, Any], Outcome]:
    """Two nodes, each with a configuration of its own, that do one phase and then what was killed."""
    task, outcome = setting.task("calibrate", True, "nodes"), Outcome()
    jobs = [drive.write_job(task), drive.write_job(killed[0])]
    outcome.add(task, *drive.launch_nodes(jobs))
    return task, outcome


def test_a_killed_process_ends_the_launch(killed: tuple[dict[str, Any], Outcome]) -> None:
    _, outcome = killed
    for code, output, published in zip(outcome.codes, outcome.outputs, outcome.published):
        assert code != 0 and signal.SIGKILL.name in output and not published, output


def test_two_nodes_train_as_one(setting: Setting, nodes: tuple[dict[str, Any], Outcome]) -> None:
    task, outcome = nodes
    assert outcome.published[0], outcome.outputs
    # who sits where makes no difference: the same two shares are added
    same = setting.together["calibrate-mixed"]
    assert drive.weights(task) == drive.weights(same) and drive.logged(task) == drive.logged(same)
    assert recorded(task, 0)["digests"] == recorded(task, 1)["digests"]


def test_what_was_killed_continues_even_on_other_nodes(
    setting: Setting, killed: tuple[dict[str, Any], Outcome], nodes: tuple[dict[str, Any], Outcome]
) -> None:
    task, same = killed[0], setting.together["parent"]
    assert nodes[1].codes == [0, 0], nodes[1].outputs
    assert drive.weights(task) == drive.weights(same) and drive.logged(task) == drive.logged(same)
    assert not Path(f"{task['out']}.scratch").exists()
    # the main process may have written one more state before it met the gap
    assert len(recorded(task)["gradients"]) in (UPDATES - STATE_INTERVAL, UPDATES - 2 * STATE_INTERVAL)
