"""Several processes that get SIGTERM, one alone or all from their launcher, stop after the same update."""

import pytest

from tests.support import drive
from tests.support.killed import STEP, UPDATES, Setting, setting, steps, stopped

__all__ = ["setting"]


@pytest.mark.parametrize("parent", [False, True], ids=["a process", "the launcher"])
def test_two_processes_stop_after_the_same_update(parent: bool, setting: Setting) -> None:
    task, plain = (setting.task(f"parent-two-{name}-{parent}", "parent") for name in ("stopped", "plain"))
    job = drive.write_job(stopped(task, STEP, 1, rank=1, parent=parent))
    code, output = drive.ended(drive.launch([job], drive.TWO_PROCESSES))
    assert code != 0 and "stopped; run the same command again" in output and "RuntimeError" not in output, output
    for each in (task, plain):
        assert drive.ended(drive.launch([drive.write_job(each)], drive.TWO_PROCESSES))[0] == 0
    assert steps(task) < UPDATES - 1
    assert drive.weights(task) == drive.weights(plain) and drive.logged(task) == drive.logged(plain)
