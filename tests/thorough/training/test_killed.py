"""A phase that is killed at any moment and started again ends as if it had never been; its scratch
is its own.

The processes are real and so are their kills (SIGKILL); ``drive`` only chooses the moment.
"""

import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.integration.training import test_run
from tests.support import drive, killed
from tests.support.models import MODEL

setting = killed.setting


@pytest.mark.parametrize("phase", killed.PHASES)
def test_killed_at_every_point(phase: str, setting: killed.Setting) -> None:
    reference = setting.reference(phase)
    points = [point for point, _ in reference.points]
    # each kind of moment is among them: between updates, in and around the writes of states and of
    # the checkpoint, around the checkpoint's rename, while the older checkpoint and the scratch are
    # removed
    assert points.count(killed.STEP) == killed.UPDATES and points.count(killed.HALF_STATE) >= 2
    assert {
        "save_file model.safetensors",
        "half of save_file model.safetensors",
        "os.unlink model.safetensors",
        "os.replace out",
        "os.unlink lock",
        "os.unlink state.pt",
        "os.rmdir out.scratch",
    } <= {*points}
    tasks = [setting.task(f"{phase}-killed-{lane}", phase) for lane in (0, 1)]
    # in the second phase once at each, and there when it is met for the second time if it is met
    # more than once
    chosen = [
        index
        for index, (point, number) in enumerate(reference.points)
        if phase == killed.PHASES[0] or number == min(points.count(point), 2) - 1
    ]
    for first in range(0, len(chosen), 2):  # two at a time
        runs = [
            (task, index, *reference.points[index]) for task, index in zip(tasks, chosen[first:])
        ]
        for task, *_ in runs:
            killed.put_older(task)
        setting.kill(*((task, point, number) for task, _, point, number in runs))
        for task, _, point, number in runs:
            weights = Path(task["out"]) / "model.safetensors"
            assert not weights.exists() or weights.read_bytes() in (b"older", reference.weights), (
                point,
                number,
            )
        again = setting.server.run(*(task for task, *_ in runs))
        for (task, index, point, number), (code, output) in zip(runs, again):
            assert code == 0, f"after a kill at {point} {number}: {output}"
            killed.assert_like(task, reference)
            assert killed.steps(task) in reference.left(index), (point, number)


def test_killed_at_twenty_random_moments(setting: killed.Setting) -> None:
    """By the clock, until twenty kills have come before the end of the phase."""
    reference = setting.reference("parent")
    draw, kills = random.Random(133), 0
    task = setting.task("parent-random", "parent")
    start = time.monotonic()
    setting.server.finish(task)
    duration = time.monotonic() - start
    while kills < 20:
        killed.put_older(task)
        for _ in range(3):  # in the phase, and in what continues it
            pid = setting.server.start(task)
            time.sleep(draw.uniform(0.1, duration))
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            kills += setting.server.wait(pid) == drive.KILLED
        setting.server.finish(task)
        killed.assert_like(task, reference)


@pytest.mark.parametrize(
    ("phase", "sent"),
    [
        ("parent", signal.SIGINT),
        ("calibrate", signal.SIGTERM),
        ("calibrate", signal.SIGINT),
    ],
)
def test_a_stop_loses_no_update_and_changes_no_byte(
    phase: str, sent: signal.Signals, setting: killed.Setting
) -> None:
    test_run.test_a_stop_loses_no_update_and_changes_no_byte(phase, sent, setting)


def test_a_second_process_is_refused_and_the_first_unharmed(setting: killed.Setting) -> None:
    task = setting.task("shared", "parent")
    other = setting.task("shared", "parent", drive.parameters(MODEL, train={"lambda_tlw": 0.5}))
    first = setting.start_and_stop(task, killed.STEP, 3)
    for late in (task, other):
        [(code, output)] = setting.server.run(late | {"log": f"{late['log']}.second"})
        assert code == 1 and output.splitlines()[-1].startswith("error: ")
        assert "is in use by another process" in output
    os.kill(first, signal.SIGCONT)
    assert setting.server.wait(first) == 0, setting.server.output(first)
    killed.assert_like(task, setting.reference("parent"))


@pytest.mark.parametrize("parent", [False, True], ids=["a process", "the launcher"])
def test_two_processes_stop_after_the_same_update(parent: bool, setting: killed.Setting) -> None:
    task, plain = (
        setting.task(f"parent-two-{name}-{parent}", "parent") for name in ("stopped", "plain")
    )
    job = drive.write_job(killed.stopped(task, killed.STEP, 1, rank=1, parent=parent))
    code, output = drive.ended(drive.launch([job], drive.TWO_PROCESSES))
    assert (
        code != 0
        and "stopped; run the same command again" in output
        and "RuntimeError" not in output
    ), output
    for each in (task, plain):
        assert drive.ended(drive.launch([drive.write_job(each)], drive.TWO_PROCESSES))[0] == 0
    assert killed.steps(task) < killed.UPDATES - 1
    assert drive.weights(task) == drive.weights(plain) and drive.logged(task) == drive.logged(plain)
