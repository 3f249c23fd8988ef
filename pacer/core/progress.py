"""Progress of long work: a live bar with rate and time left on a terminal, plain lines in a log file or a child."""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Iterable, Iterator

from tqdm import tqdm

#: Seconds between two lines when the output is not a terminal.
LOG_INTERVAL = 10.0


class Ticker:
    """Counts finished items; ``advance(n, note)`` after each. Use as a context manager.

    Args:
        what: name of the work, shown first.
        total: number of items; None when it is not known beforehand.
        done: items finished by an earlier run (they do not count towards the rate).
        shown: False shows nothing (processes other than the first).
    """

    def __init__(self, what: str, total: int | None, done: int = 0, shown: bool = True):
        terminal = sys.stderr.isatty() and multiprocessing.parent_process() is None
        self._bar = tqdm(desc=what, total=total, initial=done, disable=not (shown and terminal), dynamic_ncols=True)
        self._lines = shown and not terminal
        self._what, self._total, self._done, self._skipped = what, total, done, done
        self._started = self._last_line = time.monotonic()

    def __enter__(self) -> Ticker:
        return self

    def advance(self, count: int = 1, note: str = "") -> None:
        """Report ``count`` more finished items, with an optional short note (such as the current loss)."""
        self._done += count
        self._bar.set_postfix_str(note, refresh=False)
        self._bar.update(count)
        if self._lines and time.monotonic() - self._last_line >= LOG_INTERVAL:
            self._last_line = time.monotonic()
            self._print_line(note)

    def _print_line(self, note: str = "") -> None:
        seconds = time.monotonic() - self._started
        line = tqdm.format_meter(
            self._done, self._total, seconds, ncols=0, prefix=self._what, postfix=note or None, initial=self._skipped
        )
        print(line, file=sys.stderr, flush=True)

    def __exit__(self, *error) -> None:
        self._bar.close()
        if self._lines and error[0] is None:
            self._print_line()


def track(items: Iterable, what: str, total: int) -> Iterator:
    """Iterate over ``items`` while showing progress."""
    with Ticker(what, total) as ticker:
        for item in items:
            yield item
            ticker.advance()
