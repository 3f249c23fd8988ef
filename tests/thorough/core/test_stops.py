"""Stages and signals that ``make test`` does not put together."""

import signal
from pathlib import Path

import pytest

from tests.integration.core import test_stops as stops
from tests.integration.core.test_stops import (
    IMPORTING,
    LAUNCH,
    LINUX,
    RUN,
    STAGE,
    signals_are_not_ignored,
)

__all__ = ["signals_are_not_ignored"]


@pytest.mark.parametrize(
    ("starter", "stage", "sent"),
    [
        (RUN, STAGE, signal.SIGINT),
        (RUN, STAGE, signal.SIGTERM),
        (LAUNCH, STAGE, signal.SIGTERM),
        (LAUNCH, IMPORTING, signal.SIGINT),
    ],
)
def test_a_stage(stage: str, starter: str, sent: signal.Signals, tmp_path: Path) -> None:
    stops.test_a_stage(stage, starter, sent, tmp_path)


@LINUX
def test_a_launcher_of_two_that_is_importing(tmp_path: Path) -> None:
    stops.test_a_launcher_of_two(IMPORTING, signal.SIGINT, tmp_path)


@LINUX
def test_dvc_is_killed(tmp_path: Path) -> None:
    stops.test_dvc(signal.SIGKILL, "/bin/sh", tmp_path)
