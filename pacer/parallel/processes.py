"""The processes of one run."""

from __future__ import annotations

from datetime import timedelta

from accelerate import PartialState
from accelerate.utils import parse_flag_from_env

#: How long processes wait for each other: one may have a survey, a validation or the slower disk.
PATIENCE = timedelta(hours=2)


def process_state() -> PartialState:
    """The processes that the launcher started, on CPUs where it said so (by itself the class looks for GPUs alone)."""
    return PartialState(cpu=parse_flag_from_env("ACCELERATE_USE_CPU"), timeout=PATIENCE)
