"""Phases on several processes and nodes, one of which is killed: the same training again."""

from __future__ import annotations

import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support import drive
from tests.support.several import STATE_INTERVAL, UPDATES, Setting, recorded, setting

__all__ = ["setting"]


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
