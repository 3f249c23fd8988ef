"""A phase that gets SIGTERM saves the updates it has done, and goes on from there to the same bytes."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pacer.core.stops import STOPPED
from tests.support.killed import HALF_STATE, STEP, UPDATES, Setting, assert_like, scratch, setting, steps, stopped

__all__ = ["setting"]


@dataclass
class Moment:
    """A point at which SIGTERM arrives, and the updates that are left then."""

    point: str
    number: int
    left: int


MOMENTS = [
    Moment(STEP, 0, UPDATES - 1),
    Moment(STEP, 2, UPDATES - 3),  # the third update ends, and its validation waits
    Moment("validate", 0, UPDATES - 3),
    Moment(HALF_STATE, 0, UPDATES - 2),
    Moment(STEP, UPDATES - 1, 0),
    Moment("validate", 1, 0),
]


@pytest.mark.parametrize("phase", ["parent", "calibrate"])
def test_a_stop_loses_no_update_and_changes_no_byte(phase: str, setting: Setting) -> None:
    for number, moment in enumerate(MOMENTS):
        task = setting.task(f"{phase}-stopped-{number}", phase)
        ((code, output),) = setting.server.run(stopped(task, moment.point, moment.number))
        assert code == STOPPED and (scratch(task) / "lock").exists(), output
        setting.server.finish(task)
        assert steps(task) == moment.left, moment
        assert_like(task, setting.reference(phase))
