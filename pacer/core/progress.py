"""Progress of long work: a live bar with rate and time left on a terminal, plain lines in a log or
a child process."""

import multiprocessing
import sys
from typing import Any

from tqdm import tqdm

#: Seconds between two lines when the output is not a terminal.
LOG_INTERVAL = 10.0


class Ticker(tqdm):
    """Counts finished items; ``advance(n, note)`` after each. Use as a context manager.

    Args:
        what: name of the work, shown first.
        total: number of items; None when it is not known beforehand.
        done: items finished by an earlier run (they do not count towards the rate).
        shown: False to show nothing, in processes other than the first.
    """

    monitor_interval = 0  # no monitoring thread

    def __init__(self, what: str, total: int | None, done: int = 0, shown: bool = True):
        layout: dict[str, Any] = {"dynamic_ncols": True}
        if not sys.stderr.isatty() or multiprocessing.parent_process() is not None:
            layout = {
                "file": _Lines(),
                "ncols": 0,
                "position": 0,
                "mininterval": LOG_INTERVAL,
                "miniters": 1,
            }
        super().__init__(desc=what, total=total, initial=done, disable=not shown, **layout)

    def advance(self, count: int = 1, note: str = "") -> None:
        """Report ``count`` more finished items, with an optional short note (such as the current
        loss)."""
        self.set_postfix_str(note, refresh=False)
        self.update(count)


class _Lines:
    """Writes each state of a bar to stderr on a new line, instead of over the previous one."""

    def write(self, text: str) -> None:
        if state := text.strip():
            print(state, file=sys.stderr)

    def flush(self) -> None:
        sys.stderr.flush()
