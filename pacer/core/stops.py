"""How a stage stops: on Ctrl-C (SIGINT), on SIGTERM and SIGUSR1, which clusters send, and when its
terminal is closed (SIGHUP).

The first signal sets a flag. By default, it also raises :class:`Stopped` wherever the stage is; a
loop that saves its state between two steps asks for the flag instead (:func:`stops_deferred`). The
exit code is 128 plus the signal's number, as shells count it. A second Ctrl-C ends the process at
once.
"""

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
#: prctl's option for the signal that a process gets when its parent dies.
_PARENT_DEATH_SIGNAL = 1
#: Seconds after which a process ends even if something still blocks it; launchers kill after 30.
_GRACE = 25.0
#: What to do after a run that ended early.
GO_ON = "run the same command again to continue from what was saved"
#: Message printed when a run is interrupted.
LAST_WORDS = f"stopped; {GO_ON}"


class Stopped(KeyboardInterrupt):
    """This process has received a signal to stop, or another process of the run has, as if by
    SIGTERM. Libraries treat this exception as Ctrl-C."""

    def __init__(self, number: int = 0):
        super().__init__()
        self.exit_code = 128 + (number or _Flag.number or signal.SIGTERM)


class _Flag:
    #: Number of the first signal; 0: none has come.
    number = 0
    #: Whether a :func:`stops_deferred` block is running.
    deferred = False


def stop_requested() -> bool:
    """Return whether a signal to stop has come."""
    return _Flag.number != 0


@contextmanager
def stoppable() -> Generator[None]:
    """Raise :class:`Stopped` in the block when a signal comes, or on Linux when the parent (DVC, a
    launcher) has died."""
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # not under nohup
        signal_at_parents_end(signal.SIGTERM)
    owner = os.getpid()
    _Flag.number = 0

    def stop(number: int, frame: FrameType | None) -> None:
        if os.getpid() != owner:  # a forked worker, which its parent ends
            os._exit(128 + number)
        if _Flag.number:
            if number == signal.SIGINT:  # launchers repeat the other signals
                _end()
            return
        _Flag.number = number
        start_timer(_GRACE, _end)
        if not _Flag.deferred:
            raise Stopped

    try:
        with signals_handled_by(stop):
            yield
    except Exception as error:
        if _Flag.number:  # for example, another process has left a collective first
            raise Stopped from error
        raise


@contextmanager
def signals_handled_by(handler: Callable[..., None] | signal.Handlers) -> Generator[None]:
    """Give the signals to stop another handler in the block, and for good if one of them has come.
    With ``signal.SIG_DFL``, they end the process at once."""
    # a shell script's background jobs ignore Ctrl-C, and nohup ignores SIGHUP
    handled = [number for number in _SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in handled}
    try:
        yield
    finally:
        if not _Flag.number:
            for number, earlier in before.items():
                signal.signal(number, earlier)


@contextmanager
def stops_deferred() -> Generator[None]:
    """Let a signal only set the flag in the block, which asks for it by :func:`stop_requested`.
    Raises a Stopped at the end of the block if a signal came too late to be asked for."""
    _Flag.deferred = True
    try:
        yield
    finally:
        _Flag.deferred = False
    if _Flag.number:
        raise Stopped


def _end() -> None:
    """End this process and the processes that it started, at once."""
    import psutil

    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            child.kill()
    with suppress(OSError):  # a closed terminal
        os.write(sys.stderr.fileno(), f"{LAST_WORDS}\n".encode())
    os._exit(128 + _Flag.number)


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
