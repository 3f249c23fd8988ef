"""Progress of long work: a live bar with rate and ETA on a terminal, plain lines in a log file or a child process."""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

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
        self.what, self.total, self.done, self.skipped, self.shown = what, total, done, done, shown
        self.started = self.last_line = time.monotonic()
        self.bar: Progress | None = None

    def __enter__(self) -> Ticker:
        if self.shown and sys.stderr.isatty() and multiprocessing.parent_process() is None:
            columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
            rate, note = TextColumn("{task.fields[rate]}"), TextColumn("{task.fields[note]}")
            self.bar = Progress(*columns, rate, TimeRemainingColumn(), note, console=Console(stderr=True))
            self.bar.start()
            self.task = self.bar.add_task(self.what, total=self.total, completed=self.done, rate="-/s", note="")
        return self

    def advance(self, count: int = 1, note: str = "") -> None:
        """Report ``count`` more finished items, with an optional short note (such as the current loss)."""
        self.done += count
        now = time.monotonic()
        rate = (self.done - self.skipped) / max(now - self.started, 1e-9)
        if self.bar is not None:
            self.bar.update(self.task, advance=count, rate=f"{rate:.1f}/s", note=note)
        elif now - self.last_line >= LOG_INTERVAL:
            self.last_line = now
            left = f", {(self.total - self.done) / rate:.0f} s left" if self.total is not None and rate else ""
            self._line(f", {rate:.1f}/s{left} {note}".rstrip())

    def _line(self, more: str) -> None:
        if self.shown:
            count = self.done if self.total is None else f"{self.done}/{self.total}"
            print(f"{self.what}: {count}{more}", file=sys.stderr, flush=True)

    def __exit__(self, *error) -> None:
        if self.bar is not None:
            self.bar.stop()
        elif error[0] is None:
            self._line(f" in {time.monotonic() - self.started:.1f} s")


def track(items: Iterable, what: str, total: int) -> Iterator:
    """Iterate over ``items`` while showing progress."""
    with Ticker(what, total) as ticker:
        for item in items:
            yield item
            ticker.advance()
