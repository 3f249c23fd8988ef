"""Handling of Ctrl-C (SIGINT), and of SIGTERM, with which clusters stop a job: the state of the
work is saved before the process ends.

The exit code is 130 or 143, as shells count signals. A second Ctrl-C ends the process at once.
Programs that a process starts end with it at the latest, and their environment changes no result.
"""

import _thread
import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

#: prctl's option for the signal that a process gets when its parent dies.
_PARENT_DEATH_SIGNAL = 1
#: Seconds after which a process ends even if something still blocks it; launchers kill after 30.
_GRACE = 25.0
#: What to do after a run that ended early.
GO_ON = "run the same command again to continue from what was saved"
#: Message printed when a run is interrupted.
LAST_WORDS = f"stopped; {GO_ON}"


def environment_without(names: Collection[str]) -> dict[str, str]:
    """Return a copy of this process's environment without these variables."""
    return {name: value for name, value in os.environ.items() if name not in names}


def start_timer(seconds: float, call: Callable[..., object], *arguments: Any) -> threading.Timer:
    """Call a function after some seconds, unless the timer is cancelled or the process ends
    before."""
    timer = threading.Timer(seconds, call, arguments)
    timer.daemon = True
    timer.start()
    return timer


def signal_at_parents_end(number: int = signal.SIGKILL) -> None:
    """On Linux, request a signal to this process when its parent dies. Used as ``preexec_fn`` of
    new processes."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, number)


class Stopped(KeyboardInterrupt):
    """This process, or another process of the run, has received SIGINT or SIGTERM. Libraries treat
    this exception as Ctrl-C."""

    def __init__(self, number: int):
        super().__init__()
        self.exit_code = 128 + number  # as shells count it: 130 after SIGINT, 143 after SIGTERM


class _Stop:
    """The stop that was requested, if any."""

    #: Number of the signal that requested it; 0: none.
    number = 0
    #: Whether this process itself received the signal.
    received = False
    #: Whether an :func:`uninterrupted` block is running.
    postponed = False


@contextmanager
def stoppable() -> Generator[None]:
    """Raise :class:`Stopped` in the block when SIGINT or SIGTERM arrives, or the parent (DVC, a
    launcher) has died."""
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # not under nohup
        signal_at_parents_end(signal.SIGTERM)
    owner = os.getpid()
    _Stop.number = 0
    _Stop.received = False

    def stop(number: int, frame: FrameType | None) -> None:
        if os.getpid() != owner:  # a forked worker, which its parent ends
            os._exit(128 + number)
        if _Stop.received:
            _end()
        _Stop.received = True
        request_stop(number)
        if not _Stop.postponed:
            raise Stopped(number)

    # a shell script's background jobs ignore Ctrl-C
    handled = [n for n in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(n) != signal.SIG_IGN]
    before = {number: signal.signal(number, stop) for number in handled}
    try:
        with _raised_after_callbacks():
            yield
    except Exception as error:
        if _Stop.number:  # for example, another process has left a collective first
            raise Stopped(_Stop.number) from error
        raise
    finally:
        if not _Stop.number:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def _raised_after_callbacks() -> Generator[None]:
    """Raise a :class:`Stopped` again in the block if it was raised in a callback, such as a weak
    reference's, out of which Python lets no exception."""
    hook = sys.unraisablehook

    def raise_again(number: int, frame: FrameType | None) -> None:
        raise Stopped(_Stop.number)

    def report(unraisable: "sys.UnraisableHookArgs") -> None:
        if not isinstance(unraisable.exc_value, Stopped):
            return hook(unraisable)
        signal.signal(signal.SIGINT, raise_again)
        start_timer(0.1, _thread.interrupt_main)

    sys.unraisablehook = report
    try:
        yield
    finally:
        sys.unraisablehook = hook


def request_stop(number: int = signal.SIGTERM) -> None:
    """Stop this process, as a signal does, at the end of the :func:`uninterrupted` block that it is
    in."""
    if not _Stop.number:
        _Stop.number = number
        # a job may get SIGTERM repeatedly, for example also from its launcher; only a person
        # repeats Ctrl-C
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        start_timer(_GRACE, _end)


def _end() -> None:
    """End this process and the processes that it started, at once."""
    import psutil

    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            child.kill()
    os.write(sys.stderr.fileno(), f"{LAST_WORDS}\n".encode())
    os._exit(128 + _Stop.number)


def stop_requested() -> bool:
    """Return whether a stop was requested."""
    return _Stop.number != 0


@contextmanager
def uninterrupted(*, agreed: Callable[[], bool] = lambda: True) -> Generator[None]:
    """Postpone a stop to the end of the block or, with several processes, to the end of a block
    after which they have ``agreed``. Blocks are not nested. Raises a Stopped if a stop was
    requested."""
    _Stop.postponed = True
    try:
        yield
    finally:
        _Stop.postponed = False
    if _Stop.number and agreed():
        raise Stopped(_Stop.number)


@contextmanager
def saved_when_stopped(save: Callable[[], None]) -> Generator[None]:
    """Call ``save`` if a stop ends the block."""
    try:
        yield
    except BaseException:
        if _Stop.number:
            save()
        raise
