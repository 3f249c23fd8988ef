"""SIGTERM, with which clusters stop a job: work ends as after Ctrl-C, with its state saved and exit code 143."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

#: Exit code after SIGTERM, as shells count it.
STOPPED = 128 + signal.SIGTERM
#: Seconds after which a process ends even if something still blocks it; launchers kill after 30.
_GRACE = 25.0
#: What a process that was stopped says.
LAST_WORDS = "stopped; run the same command again to continue from what was saved"
#: prctl's option for the signal that a process gets when its parent dies.
_PARENT_DEATH_SIGNAL = 1


class Stopped(KeyboardInterrupt):
    """SIGTERM arrived, or another process of this run got it. Libraries treat it as Ctrl-C."""


class _Stop:
    requested = False
    postponed = False


@contextmanager
def stoppable() -> Generator[None]:
    """Raise :class:`Stopped` in the block when SIGTERM arrives, or the parent (DVC, a launcher) has died of it."""
    if sys.platform == "linux" and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # not under nohup
        ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGTERM)
    owner, _Stop.requested = os.getpid(), False

    def stop(number: int, frame: FrameType | None) -> None:
        if os.getpid() != owner:  # a forked worker, which its parent ends
            os._exit(STOPPED)
        request_stop()
        if not _Stop.postponed:
            raise Stopped

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except Exception as error:
        if _Stop.requested:  # such as a collective that another process left first
            raise Stopped from error
        raise
    finally:
        if not _Stop.requested:
            signal.signal(signal.SIGTERM, before)


def request_stop() -> None:
    """Stop this process, as SIGTERM does, at the end of the :func:`uninterrupted` block that it is in."""
    if not _Stop.requested:
        _Stop.requested = True
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # stops once, however many signals arrive
        timer = threading.Timer(_GRACE, _end)
        timer.daemon = True
        timer.start()


def _end() -> None:
    os.write(sys.stderr.fileno(), f"{LAST_WORDS}\n".encode())
    os._exit(STOPPED)


def stop_requested() -> bool:
    """Return whether SIGTERM has arrived."""
    return _Stop.requested


@contextmanager
def uninterrupted(*, agreed: Callable[[], bool] = lambda: True) -> Generator[None]:
    """Postpone a stop to the end of the block, or, with several processes, to that of one after which they ``agreed``.
    Blocks are not nested.

    Raises:
        Stopped: one was requested.
    """
    _Stop.postponed = True
    try:
        yield
    finally:
        _Stop.postponed = False
    if _Stop.requested and agreed():
        raise Stopped


@contextmanager
def saved_when_stopped(save: Callable[[], None]) -> Generator[None]:
    """Call ``save`` if a stop ends the block."""
    try:
        yield
    except BaseException:
        if _Stop.requested:
            save()
        raise
