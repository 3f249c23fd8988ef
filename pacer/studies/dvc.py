"""The command ``dvc``, run so that neither it nor a stage outlives the study that called it."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from pacer.core.errors import ConfigError, PacerError
from pacer.core.io import locked

LOCK = "study.lock"
#: Variable of every process that a study starts: the folder that it works in.
MARK = "PACER_STUDY_FOLDER"
#: The checkout's own code is imported, not what the environment has installed.
_OWN_CODE = 'PYTHONPATH="$0${PYTHONPATH:+:$PYTHONPATH}" exec "$@"'
#: What a git hook has in its environment: with these, git works in the user's checkout, wherever it runs.
_OF_HOOKS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY")
#: In front of git and DVC, which then find the repository by their folder alone.
_WITHOUT_HOOKS = ("env", *(part for name in _OF_HOOKS for part in ("-u", name)))
#: Seconds that processes have to end by themselves, and to be gone after they were killed.
_GRACE, _PATIENCE = 1.0, 30.0
#: Lines of a failed DVC's output that its error shows.
_SHOWN = 20


@dataclass(frozen=True)
class Share:
    """What a run has of the machine: names of GPUs, comma-separated, and numbers of cores; None: whatever there is."""

    devices: str | None = None
    cores: tuple[int, ...] | None = None


def shares(devices: str | None, jobs: int) -> list[Share]:
    """Of the machine, for each of ``jobs``: where there are fewer GPUs or cores than jobs, some share one.

    Args:
        devices: names of GPUs, comma-separated; None: those of this machine.
    """
    if jobs == 1:
        return [Share(devices)]
    names = devices.split(",") if devices else []
    if devices is None:
        with suppress(OSError, subprocess.CalledProcessError):
            command = ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"]
            names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return [
        Share(",".join(_part(names, job, jobs)) or None, tuple(_part(cores, job, jobs)) or None) for job in range(jobs)
    ]


def _part(things: list, job: int, jobs: int) -> list:
    return things[job % len(things) :: jobs] if things else []


def output_of(folder: Path, *command: str) -> str:
    """What a command prints in ``folder``.

    Raises:
        PacerError: it failed.
    """
    done = subprocess.run([*_WITHOUT_HOOKS, *command], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = f"{' '.join(command[:3])} failed: {done.stderr.strip()}"
        raise PacerError(f"{reason}; studies need the root of a git repository with a commit")
    return done.stdout


class Dvc:
    """DVC in the worktrees below the folder ``state``, from any number of threads."""

    def __init__(self, state: Path):
        if shutil.which("dvc") is None:
            raise ConfigError("the command `dvc` is not on the PATH; add the environment's bin folder to it")
        self._state, self._starting, self._stopped = state, threading.Lock(), False

    def __call__(self, *arguments: str, folder: Path, log: Path, share: Share) -> None:
        """Run ``dvc ARGUMENTS`` in ``folder`` to its end; all that it prints goes to the end of ``log``.

        Raises:
            PacerError: it failed, or the study was stopped.
        """
        variables = [f"{MARK}={folder}"]
        if share.devices is not None:
            variables.append(f"CUDA_VISIBLE_DEVICES={share.devices}")
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as written, self._starting:
            if self._stopped:
                raise PacerError("the study was stopped")
            process = subprocess.Popen(
                [*_WITHOUT_HOOKS, *variables, "sh", "-c", _OWN_CODE, str(folder), "dvc", *arguments],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
            if share.cores is not None:  # threads of several runs that spin for each other take five times as long
                os.sched_setaffinity(process.pid, share.cores)
        if process.wait():
            last = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-_SHOWN:])
            told = f"all it printed is in {log}, and ends with:\n{last}"
            raise PacerError(f"dvc {' '.join(arguments)} failed (exit code {process.returncode}); {told}")

    def stop(self) -> None:
        """End all that runs, and start nothing more."""
        with self._starting:
            self._stopped = True
        end_processes(self._state)


@contextmanager
def only_study(state: Path) -> Generator[None]:
    """Hold the folder ``state`` as the one study of its repository; what a killed study left running ends.

    Raises:
        PacerError: another study is running.
    """
    refusal = "another `pacer study` is running in this repository; wait for it or stop it first"
    with locked(state / LOCK, refusal):
        end_processes(state)
        yield


def is_running(state: Path) -> bool:
    """Whether a study holds the folder ``state``."""
    try:
        with locked(state / LOCK, "running"):
            return False
    except PacerError:
        return True


def end_processes(folder: Path) -> None:
    """Terminate DVC and its stages in the worktrees below ``folder``, and kill what is left after a second.

    Raises:
        PacerError: a process does not end, as where a disk does not answer.
    """
    began = time.monotonic()
    while running := _processes(folder):
        if time.monotonic() - began > _PATIENCE:
            raise PacerError(f"processes {sorted(process.pid for process in running)} do not end; end them yourself")
        for process in running:
            with suppress(psutil.NoSuchProcess):
                process.terminate()
        _, alive = psutil.wait_procs(running, timeout=_GRACE)
        for process in alive:
            with suppress(psutil.NoSuchProcess):
                process.kill()


def _processes(folder: Path) -> list[psutil.Process]:
    """What a study started below ``folder`` and still runs; what has ended unwaited-for has no environment."""
    running = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if Path(process.environ().get(MARK, "/")).is_relative_to(folder):
                running.append(process)
    return running
