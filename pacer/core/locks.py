"""Locks on folders that one process uses at a time, also on file systems without locks."""

import errno
import fcntl
import sys
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Literal

from pacer.core.errors import PacerError

#: How folders are locked (``locks`` in ``params.yaml``): ``auto``, or ``none`` if the user runs one process at a time.
Locks = Literal["auto", "none"]
#: What network and FUSE mounts without locks say.
_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL)
#: Seconds for a second try, after the mark of a process that was killed has been removed.
_SECOND_TRY = 0.1


class Busy(PacerError):
    """Another process holds a lock."""


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
        Busy: another process holds the lock; the message begins with ``refusal``. PacerError: it cannot be locked.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if _Chosen.locks == "none":
        yield
        return
    with open(path, "a") as lock, ExitStack() as marked:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy(refusal) from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise PacerError(f"{path} cannot be locked: {error.strerror}") from None
            from filelock import SoftFileLock, Timeout  # takes 50 ms, and few need it

            marker = path.with_name(f"{path.name}.held")
            try:
                marked.enter_context(SoftFileLock(marker, timeout=_SECOND_TRY))
            except Timeout:
                holder = " on ".join(marker.read_text(errors="replace").split()[:2])
                advice = f"{marker} names process {holder or 'unknown'}; if that process has ended, delete the file"
                raise Busy(f"{refusal}. {advice}") from None
            print(f"{path.parent} is on a file system without file locks; {marker} marks it as in use", file=sys.stderr)
        yield


@contextmanager
def awaited(path: Path, waiting: Callable[[int], object]) -> Generator[None]:
    """Hold a lock on a file as soon as nobody else does; until then ``waiting`` is called every second, with the number
    of calls before, and may raise. Raises a :class:`PacerError` if the file cannot be locked."""
    with ExitStack() as held:
        for tries in count():
            try:
                held.enter_context(locked(path, str(path)))
                break
            except Busy:
                waiting(tries)
                time.sleep(1)
        yield
