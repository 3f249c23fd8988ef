"""Append-only files of JSON lines, which record the progress of resumable work and survive being cut off anywhere."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pacer.core.io import parse_lines


def read_journal(path: str | Path) -> Iterator[tuple[int, Any]]:
    """Yield the number and value of each line, except a last one that a kill cut off; nothing if there is no file.

    Raises:
        DataError: a line is malformed; the message names file and line.
    """
    return parse_lines(_whole_lines(Path(path)).split(b"\n"), path)


class Journal:
    """Appends to a journal, after removing an incomplete last line. Thread-safe; a context manager."""

    def __init__(self, path: str | Path):
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open(path, "ab")  # noqa: SIM115  open for as long as the journal is
        self._file.truncate(len(_whole_lines(path)))
        self._lock = threading.Lock()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def append(self, row: dict[str, Any]) -> None:
        """Hand a line to the system, which keeps it even if this process dies."""
        with self._lock:
            self._file.write(json.dumps(row).encode() + b"\n")
            self._file.flush()


def _whole_lines(path: Path) -> bytes:
    content = path.read_bytes() if path.exists() else b""
    return content[: content.rfind(b"\n") + 1]
