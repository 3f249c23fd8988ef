"""Append-only files of JSON lines, which record the progress of resumable work and survive being cut off anywhere."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from pacer.core.io import parse_lines


def read_journal(path: str | Path) -> Iterator[tuple[int, Any]]:
    """Yield the number and value of each line, except a last one that a kill cut off; nothing if there is no file.
    Raises a DataError if a line is malformed; the message names file and line."""
    content = Path(path).read_bytes() if Path(path).exists() else b""
    return parse_lines(content[: content.rfind(b"\n") + 1].split(b"\n"), path)


class Journal:
    """Appends to a journal, after removing an incomplete last line. Thread-safe; a context manager."""

    def __init__(self, path: str | Path):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        self._file = open(path, "a+b")  # noqa: SIM115  open for as long as the journal is
        self._file.seek(0)
        self._file.truncate(self._file.read().rfind(b"\n") + 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def append(self, row: dict[str, Any]) -> None:
        """Hand a line to the system, which keeps it even if this process dies."""
        self._file.write(json.dumps(row).encode() + b"\n")  # whole, whatever other threads write
        self._file.flush()
