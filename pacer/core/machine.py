"""What the operating system says about this machine; nothing here imports torch."""

from __future__ import annotations

import os
import resource
import sys


def core_count() -> int:
    """Return how many CPU cores this process may use: all of them on macOS, which cannot keep a process to some."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def peak_memory() -> int:
    """Return the largest main memory that this process has held so far, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux KiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
