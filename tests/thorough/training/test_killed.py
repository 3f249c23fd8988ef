"""A phase that is killed at any moment and started again ends as if it had never been; its scratch is its own.

The processes are real and so are their kills (SIGKILL); ``drive`` only chooses the moment.
"""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from pacer.core.io import read_json
from tests.support import drive
from tests.support.killed import (
    HALF_STATE,
    PHASES,
    STATE_RENAMED,
    STEP,
    UPDATES,
    Setting,
    assert_like,
    put_older,
    scratch,
    setting,
    steps,
)
from tests.support.models import MODEL

__all__ = ["setting"]


@pytest.mark.parametrize("phase", PHASES)
def test_killed_at_every_point(phase: str, setting: Setting) -> None:
    reference = setting.reference(phase)
    points = [point for point, _, _ in reference.points]
    # each kind of moment is among them: between updates, in and around the writes of states and of the checkpoint,
    # around the checkpoint's rename, while the older checkpoint and the scratch are removed
    assert points.count(STEP) == UPDATES and points.count(HALF_STATE) >= 2
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
    # in the second phase once at each, and there when it is met for the second time if it is met more than once
    chosen = [
        index
        for index, (point, number, _) in enumerate(reference.points)
        if phase == PHASES[0] or number == min(points.count(point), 2) - 1
    ]
    for first in range(0, len(chosen), 2):  # two at a time
        runs = [(task, index, *reference.points[index][:2]) for task, index in zip(tasks, chosen[first:])]
        for task, *_ in runs:
            put_older(task)
        setting.kill(*((task, point, number) for task, _, point, number in runs))
        for task, _, point, number in runs:
            weights = Path(task["out"]) / "model.safetensors"
            assert not weights.exists() or weights.read_bytes() in (b"older", reference.weights), (point, number)
        again = setting.server.run(*(task for task, *_ in runs))
        for (task, index, point, number), (code, output) in zip(runs, again):
            assert code == 0, f"after a kill at {point} {number}: {output}"
            assert_like(task, reference)
            assert steps(task) in reference.left(index), (point, number)


def test_killed_time_after_time(setting: Setting) -> None:
    phase = "calibrate"
    task = setting.task(f"{phase}-again", phase)
    # in this order on one scratch; the numbers count within each process
    for point, number in (
        (HALF_STATE, 0),
        (STEP, 3),
        (STATE_RENAMED, 0),
        (HALF_STATE, 0),
        (STEP, 3),
        (STEP, 0),
        ("half of save_file model.safetensors", 0),
        ("os.replace out", 0),
    ):
        setting.kill((task, point, number))
    setting.server.finish(task)
    assert steps(task) == 0  # all was in the state by then, so the weights are those of resumed runs
    assert_like(task, setting.reference(phase))


def test_a_second_process_is_refused_and_the_first_unharmed(setting: Setting) -> None:
    task = setting.task("shared", "parent")
    other = setting.task("shared", "parent", drive.parameters(MODEL, train={"lambda_tlw": 0.5}))
    first = setting.start_and_stop(task, STEP, 3)
    for late in (task, other):
        [(code, output)] = setting.server.run(late | {"log": f"{late['log']}.second"})
        assert code == 1 and output.splitlines()[-1].startswith("error: ")
        assert "is in use by another process" in output
    os.kill(first, signal.SIGCONT)
    assert setting.server.wait(first) == 0, setting.server.output(first)
    assert_like(task, setting.reference("parent"))


def test_a_second_process_that_comes_while_the_first_removes_its_scratch(setting: Setting) -> None:
    reference = setting.reference("parent")
    task = setting.task("leaving", "parent")
    points = [(point, number) for point, number, _ in reference.points]
    first = setting.start_and_stop(task, *points[points.index(("os.unlink lock", 0)) + 1])
    late = task | {"stop": {"point": "save_file model.safetensors", "number": 0, "signal": "SIGSTOP"}}
    second = setting.server.start(late)
    setting.server.until_still(second)  # refused, or well into its work
    os.kill(first, signal.SIGCONT)
    assert setting.server.wait(first) == 0, setting.server.output(first)
    os.kill(second, signal.SIGCONT)
    code, output = setting.server.wait(second), setting.server.output(second)
    assert code == 0 or "is in use by another process" in output, output
    assert drive.weights(task) == reference.weights


def test_changed_features_never_meet_the_old_state(setting: Setting) -> None:
    phase = "parent"
    features = setting.folder / f"{phase}-features"
    shutil.copytree(setting.inputs["features"], features)
    task, fresh = (setting.task(f"{phase}-{name}", phase, features=str(features)) for name in ("images", "other"))
    setting.kill((task, STEP, 4))
    drive.write_features(
        features,
        setting.folder / f"{phase}-other-images",
        Path(setting.inputs["backbones"]),
        drive.parameters(MODEL),
        seed=1,
    )
    before = {path.name for path in scratch(task).iterdir() if path.is_dir()}
    setting.server.finish(task, fresh)
    assert drive.weights(task) == drive.weights(fresh) and drive.logged(task) == drive.logged(fresh)
    assert steps(task) == UPDATES
    files = next(files for point, _, files in read_json(task["watch"]) if point == STEP)
    assert files and not before & {Path(name).parts[0] for name in files}  # gone before the first update
    assert drive.weights(fresh) != setting.reference(phase).weights


def test_kills_during_the_write_of_the_state_do_not_fill_the_disk(setting: Setting) -> None:
    reference = setting.reference("parent")
    task = setting.task("parent-halves", "parent")
    for _ in range(5):
        setting.kill((task, HALF_STATE, 0))
    setting.kill((task, STEP, 3))  # a state was written since
    left = {path.name: path.stat().st_size for path in scratch(task).rglob("*") if "state.pt" in path.name}
    seen = [files.items() for _, _, files in reference.points]
    state = max(size for files in seen for name, size in files if name.endswith("/state.pt"))
    assert sum(left.values()) <= 2 * state, left
    setting.server.finish(task)
    assert_like(task, reference)
