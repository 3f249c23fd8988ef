"""Locks on folders that one process uses at a time, also on file systems without locks."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from pacer.core.errors import PacerError

#: How folders are locked (``locks`` in ``params.yaml``): ``auto``, or ``none`` if the user runs one process at a time.
Locks = Literal["auto", "none"]
#: What network and FUSE mounts without locks say.
_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL)


class _Chosen:
    locks: Locks = "auto"


def choose_locks(locks: Locks) -> None:
    """Choose how this process locks folders from now on."""
    _Chosen.locks = locks


@contextmanager
def locked(path: Path, refusal: str) -> Generator[None]:
    """Hold a lock on a file; the system releases it when the process ends for any reason.

    On a file system without locks, a second file names the process that holds the lock. After a kill, another process
    of the same machine takes it over.

    Raises:
        PacerError: another process holds the lock (the message begins with ``refusal``), or the file cannot be locked.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if _Chosen.locks == "none":
        yield
        return
    with open(path, "a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            marker = None
        except BlockingIOError:
            raise PacerError(refusal) from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise PacerError(f"{path} cannot be locked: {error.strerror}") from None
            marker = path.with_name(f"{path.name}.held")
            print(f"{path.parent} is on a file system without locks; {marker} marks it as in use", file=sys.stderr)
            _mark(marker, refusal)
        try:
            yield
        finally:
            if marker is not None:
                marker.unlink(missing_ok=True)


def _mark(marker: Path, refusal: str) -> None:
    """Create the file that names this process. That of a process of this machine that has ended is removed first."""
    holder, machine = marker.read_text(errors="replace") if marker.exists() else "", f"on {socket.gethostname()}"
    with suppress(OSError):
        machine += f" {os.readlink('/proc/self/ns/pid')}"  # the container in which the number is valid
    number = holder.removeprefix("process ").removesuffix(f" {machine}")
    if number.isdecimal():
        try:
            os.kill(int(number), 0)
        except OSError as error:
            if error.errno == errno.ESRCH:
                marker.unlink(missing_ok=True)
    try:
        with open(marker, "x") as file:
            file.write(f"process {os.getpid()} {machine}")
    except FileExistsError:
        raise PacerError(f"{refusal}. {marker} names {holder or 'no process'}; if that has ended, delete it") from None
