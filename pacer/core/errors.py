"""Errors that a user can act on.

Every error says what arrived, what was expected and what to do, and names the record where there is one.
No message may hold report text: patient text stays out of terminals and logs.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Callable

#: How Python, PyTorch and Arrow report that there is no memory, or no thread, which needs memory too.
_NO_MEMORY = "can't allocate memory", "out of memory", os.strerror(errno.ENOMEM), "start new thread", "worker thread"


class PacerError(Exception):
    """Base of all errors caused by input, configuration or the machine; shown as one line."""


class ConfigError(PacerError):
    """A parameter is unknown, of the wrong type, or outside what is allowed."""


class DataError(PacerError):
    """A corpus, annotation file, image or intermediate artifact is missing or malformed."""


class BackboneError(PacerError):
    """Weights of a frozen model are missing or are not what they should be."""


class CheckpointError(PacerError):
    """A trained checkpoint does not fit the model, the phase or the frozen parts it was trained on."""


def run_cleanly(main: Callable[[], None]) -> None:
    """Run a stage's ``main``; an error that the user can act on becomes one line on stderr and exit code 1.

    These are a PacerError, a full disk, too little memory, and a file that the system does not give. ``--traceback`` on
    the command line shows where it was raised as well.
    """
    show_traceback = "--traceback" in sys.argv
    if show_traceback:
        sys.argv.remove("--traceback")
    try:
        main()
    except Exception as error:
        message = _message(error)
        if message is None:
            raise
        if show_traceback:
            traceback.print_exc()
        print(f"error: {message}", file=sys.stderr)
        sys.exit(1)


def _message(error: Exception) -> str | None:
    """What the user can do about an error; None where that is not known."""
    place = getattr(error, "filename", None)
    if isinstance(error, PacerError):
        return str(error)
    if _disk_is_full(error):
        return f"the disk is full{f' ({place})' if place else ''}; free some space and run the same command again"
    if isinstance(error, MemoryError) or any(words in str(error) for words in _NO_MEMORY):
        return "out of memory; docs/training.md lists what each phase needs, and which settings need less"
    if isinstance(error, OSError) and place is not None:
        return f"{place}: {error.strerror}; correct this and run the same command again"
    return None


def _disk_is_full(error: BaseException | None) -> bool:
    """Whether an error, or one that caused it, is a full disk; libraries report that in errors of their own."""
    while error is not None:
        if any(os.strerror(number) in str(error) for number in (errno.ENOSPC, errno.EDQUOT)):
            return True
        error = error.__cause__ or error.__context__
    return False
