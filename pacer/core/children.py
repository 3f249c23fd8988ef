"""Programs that a process starts: with an environment that changes no result, and no longer than the process lives."""

import ctypes
import os
import signal
import sys
from collections.abc import Collection

#: prctl's option for the signal that a process gets when its parent dies.
PARENT_DEATH_SIGNAL = 1


def environment_without(names: Collection[str]) -> dict[str, str]:
    """Return this process's environment without these variables."""
    return {name: value for name, value in os.environ.items() if name not in names}


def signal_at_parents_end(number: int = signal.SIGKILL) -> None:
    """Ask, on Linux, for a signal to this process when its parent dies; ``preexec_fn`` of a new process."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, number)
