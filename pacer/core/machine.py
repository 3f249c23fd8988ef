"""The processor, the cores and the memory that this process may use, and the environment variables
that torch, accelerate and matplotlib read. Nothing here imports torch."""

import os
import platform
import resource
import sys
from collections.abc import Collection
from contextlib import suppress
from math import inf
from pathlib import Path

from pacer.core.errors import ConfigError, PacerError

#: What a launcher sets: one of these, and the number of processes.
_LAUNCHED = ("LOCAL_RANK", "TORCHELASTIC_RUN_ID")
#: Numbers of processes that accelerate reads on a CPU even if no launcher has started this process,
#: for instance in an interactive step of Slurm.
_SIZES = ("WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")
#: What accelerate would need further packages for.
_NO_EFFECT = ("ACCELERATE_USE_DEEPSPEED", "ACCELERATE_USE_MEGATRON_LM")
#: The process in which a call first used the threads of polars, which a forked process lacks.
_first_used_in: int | None = None


def check_not_forked(call: str) -> None:
    """Raise a PacerError in a process that was forked after another one had used polars, where it
    would wait forever."""
    global _first_used_in
    if _first_used_in is None:
        _first_used_in = os.getpid()
    elif _first_used_in != os.getpid():
        raise PacerError(
            f"{call} cannot run in a process that was forked from one that has used PACER, because "
            "it would never end; start the processes with `multiprocessing.get_context('spawn')`"
        )


def core_count() -> int:
    """Return how many CPU cores this process may use: those of its affinity mask, but at most the
    quota of its control groups, rounded down, and at least one. macOS has neither mask nor
    quota."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    return max(1, int(min(cores, core_quota())))


def core_quota(root: Path = Path("/")) -> float:
    """Return how many cores' time the control groups of this process may use, as containers and
    clusters set it: the smallest quota of its groups and those above them (cgroups v1 and v2,
    mounted in the usual place); infinite if none has one."""
    # Not joblib.cpu_count, which reads only the top group: it misses the quotas of "v2, limited
    # above", "v2, the smallest counts", "v1" and "both" in tests/unit/core/machine.yaml, rounds the
    # 1.5 cores of "v2" up to 2, and takes half a second to import.
    quotas = [inf]
    with suppress(OSError, ValueError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            mounts = (controllers, "cpu") if controllers else ("", "unified")  # v1; v2
            parts = [part for part in path.split("/") if part not in ("", "..")]
            if not controllers or "cpu" in controllers.split(","):
                for mount in mounts:
                    top = root / "sys/fs/cgroup" / mount
                    quotas += [_quota(top.joinpath(*parts[:end])) for end in range(len(parts) + 1)]
    return min(quotas)


def _quota(group: Path) -> float:
    """Return the quota of one control group."""
    with suppress(OSError, ValueError, ZeroDivisionError):
        names = ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
        if (group / "cpu.max").exists():
            names = ["cpu.max"]
        limit, period = " ".join((group / name).read_text() for name in names).split()
        if limit not in ("max", "-1"):
            return int(limit) / int(period)
    return inf


def processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return the kind of the processor, such as ``AMD EPYC with AVX-512``; on systems that do not
    name it, such as macOS, the architecture."""
    lines: dict[str, str] = {}
    with suppress(OSError):
        for line in cpuinfo.read_text(errors="replace").splitlines():
            key, _, value = line.partition(":")
            lines.setdefault(key.strip(), value.strip())
    name = lines.get("model name") or platform.machine()
    flags = lines.get("flags", "").split()
    vectors = {"avx512f": "AVX-512", "avx2": "AVX2"}
    widest = next((text for flag, text in vectors.items() if flag in flags), None)
    return f"{name} with {widest}" if widest else name


def prepare_environment() -> str:
    """Set the environment variables that torch and matplotlib read when they are first imported.
    Return the number of threads that the user has chosen, or an empty string.

    The command line, the stages and ``pacer.Reporter`` call this before they import torch; ``import
    pacer`` does not. After torch is imported, it only affects programs that this process starts.
    """
    # OpenMP threads wait for each other in a busy loop. If another process uses the cores, waiting
    # takes many times as long as the work, so the threads yield the core after a short while
    # (docs/performance.md). A value that the user has set is kept.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    # A launcher sets OMP_NUM_THREADS for its processes, so the user's value is kept under a name of
    # its own before that.
    given = "" if "LOCAL_RANK" in os.environ else os.environ.get("OMP_NUM_THREADS", "")
    threads = os.environ.setdefault("PACER_THREADS", given)
    # OpenMP does not know a container's quota.
    if not threads and core_quota() < (os.cpu_count() or 1):
        os.environ["OMP_NUM_THREADS"] = str(core_count())
    # Figures are drawn without a window. A notebook passes its backend to the programs it starts,
    # where it may not be installed; matplotlib could then not be imported. The notebook itself
    # keeps its backend.
    if "MPLBACKEND" in os.environ and not {"ipykernel", "matplotlib"} & sys.modules.keys():
        os.environ["MPLBACKEND"] = "agg"
    return threads


def is_launched() -> bool:
    """Return whether a launcher, such as torchrun, has started this process."""
    return any(name in os.environ for name in _LAUNCHED)


def check_process_variables(*, on_cpu: bool) -> None:
    """Raise a ConfigError if accelerate would wait for processes that nobody has started, because
    of a variable of MPI. It reads these only if it computes ``on_cpu``."""
    for name in _NO_EFFECT:
        os.environ.pop(name, None)
    for name in _SIZES if on_cpu and not is_launched() else ():
        if os.environ.get(name, "1") not in ("", "0", "1"):
            raise ConfigError(
                f"the environment variable {name} is {os.environ[name]}, as under MPI, but no "
                f"launcher has started this process; run `unset {name}` for one process, or "
                "start several with `accelerate launch` (docs/training.md)"
            )


def environment_without(names: Collection[str]) -> dict[str, str]:
    """Return a copy of this process's environment without these variables."""
    return {name: value for name, value in os.environ.items() if name not in names}


def requested_threads(threads: str) -> int | None:
    """Return the number of threads that a value of ``OMP_NUM_THREADS`` asks for; None if it is not
    a number, or 0."""
    first = threads.partition(",")[0]
    return (int(first) or None) if first.isdecimal() else None


def thread_count() -> int:
    """Return how many threads a stage in one process has (:func:`prepare_environment`)."""
    return requested_threads(os.environ.get("PACER_THREADS", "")) or core_count()


def peak_memory() -> int:
    """Return the peak main memory of this process so far, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux KiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
