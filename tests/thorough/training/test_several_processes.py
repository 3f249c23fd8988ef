"""Phases on several processes and nodes, one of them killed, or with recomputed blocks, train as
one process does."""

import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load

from pacer.model.pacer import Pacer
from tests.support import drive
from tests.support.models import MODEL

UPDATES, STATE_INTERVAL = 6, 2
CASES = [("parent", False), ("calibrate", True)]  # phase, and whether its batches mix contexts


def task_name(phase: str, mix: bool) -> str:
    return f"{phase}-mixed" if mix else phase


@dataclass
class Setting:
    """Inputs of the phases, each phase done by one process, and what several processes made of
    it."""

    folder: Path
    backbones: Path
    inputs: dict[str, str] = field(default_factory=dict)
    alone: dict[str, dict] = field(default_factory=dict)
    together: dict[str, dict] = field(default_factory=dict)

    def task(self, phase: str, mix: bool, what: str, **train: Any) -> dict[str, Any]:
        name = f"{task_name(phase, mix)}-{what}"
        # three records to a micro-batch, so that two processes get unequal shares, and two of these
        # to an update; the paper's learning rate, as AdamW's first steps amplify rounding
        own = {"accumulation": 2, "learning_rate": 3e-4}
        params = drive.parameters(
            drive.STILL, **{"batches": {"mix": mix}, "train": train, phase: own}
        )
        return drive.job(
            phase, params, self.inputs, self.folder / name, record=str(self.folder / name)
        )


@pytest.fixture(scope="module")
def setting(backbones: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    setting = Setting(tmp_path_factory.mktemp("several"), backbones)
    params = drive.parameters(drive.STILL)
    setting.inputs = drive.write_inputs(setting.folder, backbones, params)
    with drive.Server(setting.folder) as server:
        for phase in ("warmup", "parent"):
            server.finish(drive.job(phase, params, setting.inputs, setting.folder / phase))
        for phase, mix in CASES:
            setting.alone[task_name(phase, mix)] = task = setting.task(phase, mix, "alone")
            server.finish(task)
    tasks = [setting.task(phase, mix, "together") for phase, mix in CASES]
    setting.together = {task_name(*case): task for case, task in zip(CASES, tasks)}
    code, output = drive.ended(
        drive.launch([drive.write_job(task) for task in tasks], drive.TWO_PROCESSES)
    )
    assert code == 0, output
    yield setting


def recorded(task: dict[str, Any], rank: int = 0) -> dict[str, Any]:
    return torch.load(f"{task['record']}.{rank}.pt")


__all__ = ["setting"]


@pytest.fixture(scope="module")
def killed(setting: Setting) -> tuple[dict[str, Any], list[tuple[int, str, bool]]]:
    """A phase whose second process was killed, and that was started again and had its main process
    killed; exit code and output of both launches, and whether the checkpoint was there then."""
    task, ends = setting.task("parent", False, "killed", workers=1), []
    for rank, number in (
        (1, 3),
        (0, 1),
    ):  # in the fourth update, then in the second after the resume
        job = drive.write_job(
            task | {"stop": {"point": "AdamW.step", "number": number, "rank": rank}}
        )
        ends.append(
            (*drive.ended(drive.launch([job], drive.TWO_PROCESSES)), Path(task["out"]).exists())
        )
    return task, ends


@pytest.fixture(scope="module")
def nodes(setting: Setting, killed: tuple) -> tuple[dict[str, Any], list[tuple[int, str]]]:
    """Two nodes, each with a configuration of its own, that do one phase and then what was killed;
    how they ended."""
    task = setting.task("calibrate", True, "nodes")
    launches = drive.launch_nodes([drive.write_job(task), drive.write_job(killed[0])])
    return task, [drive.ended(process) for process in launches]


@pytest.mark.parametrize(("phase", "mix"), CASES)
def test_two_processes_train_as_one(phase: str, mix: bool, setting: Setting) -> None:
    alone, together = (tasks[task_name(phase, mix)] for tasks in (setting.alone, setting.together))
    curves = [drive.logged(task) for task in (alone, together)]
    assert (
        [step for step, _ in curves[0]]
        == [step for step, _ in curves[1]]
        == [*range(1, UPDATES + 1)]
    )
    assert "validation/mean" in curves[1][-1][1]
    for (step, one), (_, two) in zip(*curves):
        assert two == pytest.approx(one, rel=1e-5, abs=1e-6), step
    for update, (one, two) in enumerate(
        zip(*(recorded(task)["gradients"] for task in (alone, together)), strict=True)
    ):
        assert torch.linalg.vector_norm(two - one) <= 1e-5 * torch.linalg.vector_norm(one), update
    stepped = [recorded(task)["stepped"] for task in (alone, together)]
    assert stepped[0] == stepped[1] == recorded(together, 1)["stepped"]
    assert phase == "calibrate" or not all(map(all, stepped[0])), (
        "an update without laterals skips their parameters"
    )
    one, two = (load(drive.weights(task)) for task in (alone, together))
    assert one.keys() == two.keys()
    for name in one:
        torch.testing.assert_close(two[name], one[name], rtol=1e-4, atol=1e-5, msg=name)


def test_a_killed_process_ends_the_launch(killed: tuple) -> None:
    for code, output, published in killed[1]:
        assert code != 0 and signal.SIGKILL.name in output and not published, output


def test_two_nodes_train_as_one(setting: Setting, nodes: tuple) -> None:
    task, ends = nodes
    assert Path(task["out"]).exists(), ends
    # who sits where makes no difference: the same two shares are added
    same = setting.together["calibrate-mixed"]
    assert drive.weights(task) == drive.weights(same) and drive.logged(task) == drive.logged(same)
    assert recorded(task, 0)["digests"] == recorded(task, 1)["digests"]


def test_what_was_killed_continues_even_on_other_nodes(
    setting: Setting, killed: tuple, nodes: tuple
) -> None:
    task, same = killed[0], setting.together["parent"]
    assert [code for code, _ in nodes[1]] == [0, 0], nodes[1]
    assert drive.weights(task) == drive.weights(same) and drive.logged(task) == drive.logged(same)
    assert not Path(f"{task['out']}.scratch").exists()
    # the main process may have written one more state before it met the gap
    assert len(recorded(task)["gradients"]) in (
        UPDATES - STATE_INTERVAL,
        UPDATES - 2 * STATE_INTERVAL,
    )


PHASES = ("warmup", "parent", "calibrate")


def test_checkpointing_changes_no_bit(
    backbones: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With dropout in all parts, and two micro-batches an update: weights and logged values of the
    three phases."""
    blocks: list[list[int]] = []
    enable = Pacer.checkpoint_blocks

    def counted(model: Pacer) -> None:
        counts = [0 for _ in model.language.model.layers]
        blocks.append(counts)
        for place, block in enumerate(model.language.model.layers):
            block.self_attn.register_forward_hook(
                lambda *_, place=place: counts.__setitem__(place, counts[place] + 1)
            )
        enable(model)

    monkeypatch.setattr(Pacer, "checkpoint_blocks", counted)
    done: dict[str, list[dict[str, Any]]] = {}
    for switch in ("off", "on"):
        groups = {name: {"accumulation": 2} for name in PHASES}
        params = drive.parameters(MODEL, train={"checkpointing": switch}, **groups)
        folder = tmp_path / switch
        folder.mkdir()
        inputs, done[switch] = drive.write_inputs(folder, backbones, params), []
        for name in PHASES:
            done[switch].append(drive.job(name, params, inputs, folder / name))
            drive.perform(done[switch][-1])
    for off, on in zip(done["off"], done["on"], strict=True):
        assert drive.logged(on) == drive.logged(off) and drive.logged(on)[-1][0] >= 1
        assert drive.weights(on) == drive.weights(off)
    # the first of two blocks once more for each micro-batch, and neither the teacher's pass nor a
    # validation's
    assert [first - last for first, last in blocks] == [
        2 * getattr(params, name).updates for name in PHASES
    ]
