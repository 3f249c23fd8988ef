"""The command ``dvc``, run so that it never outlives the study that called it."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from pacer.core.errors import ConfigError, PacerError
from pacer.core.io import read_json, write_json

#: What DVC prints of a stage -> what became of it.
STAGE_LINES = (
    (re.compile(r"Running stage '(.+)':"), "ran"),
    (re.compile(r"Stage '(.+)' is cached - skipping run"), "restored"),
    (re.compile(r"Stage '(.+)' didn't change, skipping"), "unchanged"),
)
#: Seconds that a stopped DVC has to end by itself.
_GRACE = 30.0


class Dvc:
    """DVC in the repository ``root``; ``state`` holds the locks of :func:`only_study`."""

    def __init__(self, root: Path, state: Path, command: str = "dvc"):
        found = shutil.which(command)
        if found is None:
            raise ConfigError(f"the command {command!r} is not found; put the environment's bin folder on the PATH")
        self._command, self._root, self._state = found, root, state

    def __call__(self, *arguments: str, log: Path, tell: Callable[[str, str], None] | None = None) -> dict[str, str]:
        """Run ``dvc ARGUMENTS`` to its end; all that it prints goes to the end of ``log``.

        Args:
            tell: called with each stage that DVC comes to, and ``ran``, ``restored`` (from the run cache) or
                ``unchanged``, when DVC says so (for ``ran``: when it starts).

        Returns:
            what became of each stage.

        Raises:
            PacerError: DVC failed; the message has the end of what it printed.
        """
        stages: dict[str, str] = {}
        lines: list[str] = []
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as kept, (self._state / "child.lock").open("a+") as held:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)  # free: only_study has made sure
            process = subprocess.Popen(
                [self._command, *arguments],
                cwd=self._root,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                errors="replace",
                process_group=0,
                pass_fds=(held.fileno(),),
            )
            try:
                held.truncate(0)
                held.write(str(process.pid))
                held.flush()
                assert process.stdout is not None
                for line in process.stdout:
                    kept.write(line)
                    kept.flush()
                    lines = [*lines[-19:], line]
                    for pattern, outcome in STAGE_LINES:
                        if found := pattern.search(line):
                            stages[found[1]] = outcome
                            if tell is not None:
                                tell(found[1], outcome)
                process.wait()
            finally:
                if process.poll() is None:
                    _stop(process.pid)
                    process.wait()
                    _release(self._root, process.pid)
                if process.stdout is not None:
                    process.stdout.close()
        if process.returncode:
            raise PacerError(
                f"dvc {' '.join(arguments)} failed (exit code {process.returncode}); all it printed is in "
                f"{log}, and ends with:\n{''.join(lines).rstrip()}"
            )
        return stages


@contextmanager
def only_study(root: Path, state: Path) -> Generator[None]:
    """Hold the folder ``state`` as the one study of the repository ``root``.

    A study that was killed leaves its DVC running; it holds ``child.lock`` and is stopped here, with the stage that it
    runs. Training continues from its last saved state when the stage runs again.

    Raises:
        PacerError: another study is running.
    """
    state.mkdir(parents=True, exist_ok=True)
    with (state / "study.lock").open("w") as lock:
        if not _free(lock):
            raise PacerError("another `pacer study` is running in this repository; wait for it or stop it first")
        with (state / "child.lock").open("a+") as left:
            free = _free(left)
            left.seek(0)
            group = left.read().strip()
            if not free:
                if not group.isdecimal():
                    raise PacerError("DVC of a killed study is still starting; call again in a moment")
                _stop(int(group))
                fcntl.flock(left, fcntl.LOCK_EX)
            if group.isdecimal():
                _release(root, int(group))
                left.truncate(0)
            fcntl.flock(left, fcntl.LOCK_UN)
        yield


def _free(file) -> bool:
    """Take the lock on an open file if nobody has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _stop(group: int) -> None:
    """Ask a process group to end, and make it end where it does not."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(group, number)
        last = time.monotonic() + _GRACE
        while _runs(group) and time.monotonic() < last:
            time.sleep(0.1)
        if not _runs(group):
            return
    raise PacerError(f"DVC (process group {group}) does not end; stop it and call again")


def _runs(group: int) -> bool:
    """Does any process of the group run? One that has ended and that nobody has waited for yet does not."""
    for process in psutil.process_iter(["status"]):
        with suppress(ProcessLookupError):
            if os.getpgid(process.pid) == group and process.info["status"] != psutil.STATUS_ZOMBIE:
                return True
    return False


def _release(root: Path, process: int) -> None:
    """Take what a DVC that has ended still holds out of DVC's own lock file.

    DVC does so itself where no process has the number any more. It would wait for good for one that nobody waits for
    (the first process of a container may not), and for a new process of the same number.
    """
    for folder in (root, *root.parents):
        held = folder / ".dvc" / "tmp" / "rwlock"
        if (folder / ".dvc").is_dir() and held.is_file():
            locks = read_json(held)
            write = {path: one for path, one in locks.get("write", {}).items() if one["pid"] != process}
            read = {
                path: left
                for path, many in locks.get("read", {}).items()
                if (left := [one for one in many if one["pid"] != process])
            }
            write_json(held, {"write": write, "read": read})
            return
