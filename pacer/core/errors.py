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
    """Run a stage's ``main``; a PacerError, a disk without room, too little memory or a file that the system does not
    give becomes one line on stderr and exit code 1.

    ``--traceback`` on the command line shows where it was raised as well.
    """
    show_traceback = "--traceback" in sys.argv
    if show_traceback:
        sys.argv.remove("--traceback")
    try:
        main()
    except Exception as error:
        if isinstance(error, PacerError):
            said = str(error)
        elif _no_room(error):
            place = getattr(error, "filename", None)
            said = f"the disk is full{f' ({place})' if place else ''}; free some space and run the same command again"
        elif _no_memory(error):
            said = "out of memory; docs/training.md lists what each phase needs, and which settings need less"
        elif isinstance(error, OSError) and error.filename is not None:
            said = f"{error.filename}: {error.strerror}; correct this and run the same command again"
        else:
            raise
        if show_traceback:
            traceback.print_exc()
        print(f"error: {said}", file=sys.stderr)
        sys.exit(1)


def _no_memory(error: Exception) -> bool:
    """Whether Python, PyTorch or Arrow could not have memory, or a thread, which needs memory too."""
    words = "can't allocate memory", "out of memory", os.strerror(errno.ENOMEM), "start new thread", "worker thread"
    return isinstance(error, MemoryError) or any(word in str(error) for word in words)


def _no_room(error: BaseException | None) -> bool:
    """Whether an error, or one that it came of, is a disk without room; libraries tell it in errors of their own."""
    words = os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT)
    while error is not None:
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or any(word in str(error) for word in words):
            return True
        error = error.__cause__ or error.__context__
    return False
