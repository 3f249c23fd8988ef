"""A phase that gets Ctrl-C or SIGTERM saves the updates it has done, and goes on from there to the same bytes."""

from __future__ import annotations

import signal

import pytest

from tests.support.killed import HALF_STATE, STEP, UPDATES, Setting, assert_like, scratch, setting, steps, stopped

__all__ = ["setting"]


#: A point at which the signal arrives, for which time it is met, and the updates that are left then.
MOMENTS = [
    (STEP, 0, UPDATES - 1),
    (STEP, 2, UPDATES - 3),  # the third update ends, and its validation waits
    ("validate", 0, UPDATES - 3),
    (HALF_STATE, 0, UPDATES - 2),
    (STEP, UPDATES - 1, 0),
    ("validate", 1, 0),
]


@pytest.mark.parametrize(
    ("phase", "sent"), [("parent", signal.SIGTERM), ("parent", signal.SIGINT), ("calibrate", signal.SIGINT)]
)
def test_a_stop_loses_no_update_and_changes_no_byte(phase: str, sent: signal.Signals, setting: Setting) -> None:
    for place, (point, number, left) in enumerate(MOMENTS):
        task = setting.task(f"{phase}-{sent.name}-{place}", phase)
        ((code, output),) = setting.server.run(stopped(task, point, number, signal=sent.name))
        assert code == 128 + sent and (scratch(task) / "lock").exists(), output
        setting.server.finish(task)
        assert steps(task) == left, (point, number)
        assert_like(task, setting.reference(phase))
