"""A phase that is killed, or gets Ctrl-C or SIGTERM, and is started again ends as if nothing had been.

`tests/thorough` kills it everywhere.
"""

import signal

import pytest

from tests.support import drive
from tests.support.killed import (
    HALF_STATE,
    PHASES,
    STEP,
    UPDATES,
    Setting,
    assert_like,
    put_older,
    scratch,
    setting,
    steps,
    stopped,
)
from tests.support.models import MODEL

__all__ = ["setting"]


@pytest.mark.parametrize("phase", PHASES)
def test_killed_in_an_update_and_in_the_write_of_a_state(phase: str, setting: Setting) -> None:
    task = setting.task(f"{phase}-killed", phase)
    put_older(task)
    setting.kill((task, STEP, 3))  # one state is there
    setting.kill((task, HALF_STATE, 0))
    setting.server.finish(task)
    assert steps(task) == UPDATES - 2
    assert_like(task, setting.reference(phase))


def test_other_parameters_start_anew(setting: Setting) -> None:
    params = drive.parameters(MODEL, train={"lambda_tlw": 0.5})
    fresh, task = setting.task("parent-fresh", "parent", params), setting.task("parent-changed", "parent", params)
    setting.kill((setting.task("parent-changed", "parent"), STEP, 4))
    setting.server.finish(task, fresh)
    assert steps(task) == UPDATES and drive.weights(task) == drive.weights(fresh)
    assert drive.weights(fresh) != setting.reference("parent").weights


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
