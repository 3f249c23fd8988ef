"""A phase that is killed and started again ends as if it had never been; `tests/thorough` kills it everywhere."""

from __future__ import annotations

import pytest

from tests.support import drive
from tests.support.killed import HALF_STATE, PHASES, STEP, UPDATES, Setting, assert_like, put_older, setting, steps
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
