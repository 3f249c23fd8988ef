"""The command ``dvc``, run so that neither it nor a stage outlives the study that called it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from pacer.core.errors import ConfigError, PacerError
from pacer.core.io import locked

#: What DVC prints of a stage -> what became of it.
STAGE_LINES = (
    (re.compile(r"Running stage '(.+)':"), "ran"),
    (re.compile(r"Stage '(.+)' is cached - skipping run"), "restored"),
    (re.compile(r"Stage '(.+)' didn't change, skipping"), "unchanged"),
)
#: Variable of every process that a study starts: the folder that it works in.
MARK = "PACER_STUDY_FOLDER"
#: The checkout's own code is imported, not what the environment has installed.
_OWN_CODE = 'PYTHONPATH="$0${PYTHONPATH:+:$PYTHONPATH}" exec "$@"'
#: Seconds that a process has to end by itself.
_GRACE = 30.0


@dataclass(frozen=True)
class Share:
    """What a run has of the machine: names of GPUs, comma-separated, and numbers of cores; None: whatever there is."""

    devices: str | None = None
    cores: tuple[int, ...] | None = None


class Dvc:
    """DVC in the checkouts below the folder ``state``, from any number of threads."""

    def __init__(self, state: Path):
        found = shutil.which("dvc")
        if found is None:
            raise ConfigError("the command `dvc` is not on the PATH; add the environment's bin folder to it")
        self._command, self._state = found, state
        self._starting, self._stopped = threading.Lock(), False

    def cache(self, root: Path) -> str:
        """The folder of the cache that the repository ``root`` uses."""
        done = subprocess.run([self._command, "cache", "dir"], cwd=root, capture_output=True, text=True, check=False)
        if done.returncode:
            raise PacerError(f"dvc cache dir failed: {done.stderr.strip()}")
        return str((root / done.stdout.strip()).resolve())

    def __call__(
        self,
        *arguments: str,
        folder: Path,
        log: Path,
        share: Share = Share(),
        report: Callable[[str, str], None] = lambda stage, outcome: None,
    ) -> dict[str, str]:
        """Run ``dvc ARGUMENTS`` in ``folder`` to its end; all that it prints goes to the end of ``log``.

        Args:
            share: what the stages may use.
            report: called with each stage that DVC comes to, and ``ran``, ``restored`` (from the run cache) or
                ``unchanged``, when DVC says so (for ``ran``: when it starts).

        Returns:
            what became of each stage.

        Raises:
            PacerError: DVC failed; the message has the end of what it printed.
        """
        variables = [f"{MARK}={folder}"]
        if share.devices is not None:
            variables.append(f"CUDA_VISIBLE_DEVICES={share.devices}")
        stages: dict[str, str] = {}
        lines: list[str] = []
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as kept:
            with self._starting:
                if self._stopped:
                    raise PacerError("the study was stopped")
                process = subprocess.Popen(
                    ["env", *variables, "sh", "-c", _OWN_CODE, str(folder), self._command, *arguments],
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    encoding="utf-8",
                    errors="replace",
                    process_group=0,
                )
                if share.cores is not None:  # threads of several runs that spin for each other take five times as long
                    os.sched_setaffinity(process.pid, share.cores)
            with process:
                try:
                    for line in process.stdout or ():
                        kept.write(line)
                        kept.flush()
                        lines = [*lines[-19:], line]
                        for pattern, outcome in STAGE_LINES:
                            if found := pattern.search(line):
                                stages[found[1]] = outcome
                                report(found[1], outcome)
                except BaseException:
                    end_processes(folder)
                    raise
        if process.returncode:
            raise PacerError(
                f"dvc {' '.join(arguments)} failed (exit code {process.returncode}); all it printed is in "
                f"{log}, and ends with:\n{''.join(lines).rstrip()}"
            )
        return stages

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
    with locked(state / "study.lock", refusal):
        end_processes(state)
        yield


def end_processes(folder: Path) -> None:
    """Terminate DVC and its stages in the checkouts below ``folder``, and kill what is left."""
    for end in (psutil.Process.terminate, psutil.Process.kill):
        last, asked = time.monotonic() + _GRACE, set()
        while running := _processes(folder):
            if time.monotonic() > last:
                break
            for process in running - asked:
                with suppress(psutil.NoSuchProcess):
                    end(process)
            asked |= running
            time.sleep(0.1)
        else:
            return
    raise PacerError(f"processes {sorted(process.pid for process in running)} do not end; stop them and call again")


def _processes(folder: Path) -> set[psutil.Process]:
    """What a study started below ``folder`` and still runs; what has ended unwaited-for has no environment."""
    found = set()
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if Path(process.environ().get(MARK, "/")).is_relative_to(folder):
                found.add(process)
    return found
