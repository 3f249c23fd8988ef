"""The command ``dvc``, run so that neither it nor its stages outlive the study that called it."""

import os
import re
import shutil
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from pacer.core.errors import ConfigError, PacerError
from pacer.core.machine import core_count

#: DVC's output for a stage that it runs, or finds in its run cache.
_STAGE = re.compile(r"(Running stage|Stage) '(.+)'(?::| is cached - skipping run)")
#: Environment variable of every process that a study starts: its working folder.
MARK = "PACER_STUDY_FOLDER"
#: Import the checkout's own code, not the installed package.
_WITH_CHECKOUT = 'PYTHONPATH="$0${PYTHONPATH:+:$PYTHONPATH}" exec "$@"'
#: Seconds that a process has to terminate by itself.
_GRACE = 1.0


@dataclass(frozen=True)
class Share:
    """A run's share of the machine: names of GPUs, comma-separated, and numbers of cores; None: no restriction."""

    devices: str | None = None
    cores: tuple[int, ...] | None = None


def shares(devices: str | None, jobs: int) -> list[Share]:
    """Divide the machine among ``jobs``; if there are fewer GPUs or cores than jobs, some jobs share one.

    Args:
        devices: names of GPUs, comma-separated; None: all GPUs of this machine.
    """
    if jobs == 1:
        return [Share(devices)]
    names = devices.split(",") if devices else []
    if devices is None:
        with suppress(OSError, subprocess.CalledProcessError):
            command = ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"]
            names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    cores = sorted(os.sched_getaffinity(0))[: core_count()] if hasattr(os, "sched_getaffinity") else []
    return [
        Share(",".join(_part(names, job, jobs)) or None, tuple(_part(cores, job, jobs)) or None) for job in range(jobs)
    ]


def _part(things: list, job: int, jobs: int) -> list:
    return things[job % len(things) :: jobs] if things else []


class Dvc:
    """DVC in worktrees; may be used from any number of threads."""

    def __init__(self) -> None:
        command = shutil.which("dvc")
        if command is None:
            raise ConfigError("the command `dvc` is not on the PATH; add the environment's bin folder to it")
        self._command, self._folders = command, set[Path]()
        self._starting, self._stopped = threading.Lock(), False

    def cache(self, root: Path) -> str:
        """Return the folder of the cache that the repository ``root`` uses."""
        return str((root / output_of(root, "dvc", "cache", "dir").strip()).resolve())

    def __call__(
        self, *arguments: str, folder: Path, log: Path, share: Share, report: Callable[[str, bool], None]
    ) -> None:
        """Run ``dvc ARGUMENTS`` in ``folder`` and wait for its end; its output is appended to ``log``.

        Args:
            share: what the stages may use. report: called with each stage, and whether DVC restored it from its cache.

        Raises:
            PacerError: DVC failed (the message includes the end of its output), or the study was stopped.
        """
        variables = [f"{MARK}={folder}"] + [f"CUDA_VISIBLE_DEVICES={share.devices}"] * (share.devices is not None)
        last = deque[str](maxlen=20)
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as written:
            with self._starting:
                self.check_stopped()
                self._folders.add(folder)
                process = subprocess.Popen(
                    ["env", *variables, "sh", "-c", _WITH_CHECKOUT, str(folder), self._command, *arguments],
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    encoding="utf-8",
                    errors="replace",
                    process_group=0,
                )
                if share.cores is not None:  # else busy-waiting threads of parallel runs take five times as long
                    os.sched_setaffinity(process.pid, share.cores)
            with process:
                for line in process.stdout or ():
                    written.write(line)
                    written.flush()
                    last.append(line)
                    if match := _STAGE.search(line):
                        report(match[2], match[1] == "Stage")
        if process.returncode:
            raise PacerError(
                f"dvc {' '.join(arguments)} failed (exit code {process.returncode}); its full output is in "
                f"{log} and ends with:\n{''.join(last).rstrip()}"
            )

    def check_stopped(self) -> None:
        """Raise a :class:`PacerError` if the study was stopped."""
        if self._stopped:
            raise PacerError("the study was stopped")

    def stop(self) -> None:
        """End all processes, and do not start any more."""
        with self._starting:
            self._stopped = True
        for folder in self._folders:
            end_processes(folder)


def output_of(folder: Path, *command: str, remedy: str = "") -> str:
    """Return what a command of git or DVC prints in ``folder``. Raises a PacerError if it failed; the message ends in
    ``remedy``."""
    done = subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8", check=False)
    if done.returncode:
        raise PacerError(f"{' '.join(command[:3])} failed: {done.stderr.strip()}{remedy}")
    return done.stdout


def end_processes(folder: Path) -> None:
    """Terminate DVC and its stages in the worktrees below ``folder``, and kill any that remain after a second. Raises a
    PacerError if a process does not end, for example because a disk does not respond."""
    began = time.monotonic()
    while running := _processes(folder):
        waited = time.monotonic() - began
        if waited > 30 * _GRACE:
            raise PacerError(f"processes {sorted(process.pid for process in running)} did not stop; kill them manually")
        for process in running:
            with suppress(psutil.NoSuchProcess):
                process.terminate() if waited < _GRACE else process.kill()
        time.sleep(0.1)


def _processes(folder: Path) -> set[psutil.Process]:
    """Return the processes that a study started below ``folder`` and that still run; zombies have no environment."""
    running = set()
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if Path(process.environ().get(MARK, "/")).is_relative_to(folder):
                running.add(process)
    return running
