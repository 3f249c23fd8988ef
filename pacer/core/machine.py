"""What the operating system says about this machine; nothing here imports torch."""

import os
import resource
import sys
from contextlib import suppress
from math import inf
from pathlib import Path


def core_count() -> int:
    """Return how many CPU cores this process may use: those that it is kept to, at most the quota
    of its control groups rounded down, at least one. macOS has neither."""
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return max(1, int(min(cores, core_quota())))


def core_quota(root: Path = Path("/")) -> float:
    """Return how many cores' time the control groups of this process may use, as containers and
    clusters set it: the smallest quota of its groups and those above them (cgroups v1 and v2,
    mounted in the usual place); infinite if none has one."""
    quotas = [inf]
    with suppress(OSError, ValueError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            mounts = (controllers, "cpu") if controllers else ("", "unified")  # v1; v2
            parts = [part for part in path.split("/") if part not in ("", "..")]
            if not controllers or "cpu" in controllers.split(","):
                tops = [root / "sys/fs/cgroup" / mount for mount in mounts]
                quotas += [
                    _quota(top.joinpath(*parts[:end]))
                    for top in tops
                    for end in range(len(parts) + 1)
                ]
    return min(quotas)


def _quota(group: Path) -> float:
    """Return the quota of one control group."""
    with suppress(OSError, ValueError, ZeroDivisionError):
        names = (
            ["cpu.max"]
            if (group / "cpu.max").exists()
            else ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
        )
        limit, period = " ".join((group / name).read_text() for name in names).split()
        if limit not in ("max", "-1"):
            return int(limit) / int(period)
    return inf


def peak_memory() -> int:
    """Return the largest main memory that this process has held so far, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux KiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
