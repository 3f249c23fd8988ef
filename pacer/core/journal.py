"""Append-only files of JSON lines that survive being cut off anywhere: what is done so far of work that resumes."""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pacer.core.errors import PacerError
from pacer.core.io import checked, parse_lines


def whole_lines(path: str | Path) -> bytes:
    """A journal without what a kill left of its last line; nothing where there is no file."""
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError:
        return b""
    end = content.rfind(b"\n") + 1
    return content if _is_object(content[end:]) else content[:end]  # an editor may have left out the last line break


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def read_journal(path: str | Path) -> Iterator[tuple[int, Any]]:
    """Number and value of each whole line.

    Raises:
        DataError: a line is malformed or has changed; file and line are named.
    """
    return parse_lines(whole_lines(path).split(b"\n"), path)


class Journal:
    """Appends to a journal, whose torn last line is cut off first. Threads may share it. A context manager."""

    def __init__(self, path: str | Path):
        path = Path(path)
        whole = whole_lines(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115  open for as long as the journal is
        self._file.truncate(len(whole))
        if whole and not whole.endswith(b"\n"):
            self._file.write(b"\n")
        self._lock = threading.Lock()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def append(self, row: dict[str, Any], *, durable: bool = False) -> None:
        """Hand a line to the system, which keeps it when this process dies; with ``durable``, wait for the disk.

        Raises:
            PacerError: the file cannot be written, for lack of space for example.
        """
        content = json.dumps(checked(row)).encode() + b"\n"
        try:
            with self._lock:
                start = os.fstat(self._file.fileno()).st_size
                if self._file.write(content) < len(content):
                    self._file.truncate(start)
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if durable:
                os.fsync(self._file.fileno())
        except OSError as error:
            raise PacerError(f"{self._file.name} cannot be written ({error.strerror}); its lines are kept") from None
