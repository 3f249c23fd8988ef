"""Records of a large annotation file, one at a time: ``{"train": [record, ...], "val": [...], "test": [...]}``.

The standard library's decoder reads record after record from a buffer of a few megabytes, so memory does not grow
with the file.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from pacer.core.errors import DataError
from pacer.core.io import opened
from pacer.data.schemas import SPLITS

_CHUNK = 1 << 21  # characters read at a time
_LARGEST = 1 << 26  # characters of one record at most
_SPACE = " \t\n\r"
_UNFINISHED = "+-.eE"


def stream_records(path: str | Path) -> Iterator[tuple[str, int, Any]]:
    """Yield ``(split, index, record)`` in the file's order; ``index`` counts from 0 in each split.

    The file is in UTF-8, with or without a byte order mark, and compressed where its name ends in ``.gz``.

    Raises:
        DataError: the file is missing, is not JSON, or is not an object of splits with lists; the message names the
            place. Records before that place have been given by then.
    """
    try:
        with opened(path) as content, TextIOWrapper(content, encoding="utf-8-sig") as file:
            yield from _Stream(file, path).records()
    except FileNotFoundError:
        raise DataError(f"{path} does not exist") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not valid UTF-8: {error.reason} at byte {error.start} of a block") from None
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None


class _Stream:
    """A window on the file that moves forward; ``position`` is the next character in ``text``."""

    def __init__(self, file: Any, path: str | Path):
        self.file, self.path = file, path
        self.text, self.position, self.passed, self.ended = "", 0, 0, False
        self.decoder = json.JSONDecoder()

    def records(self) -> Iterator[tuple[str, int, Any]]:
        self.expect("{", "an object with the splits train, val and test")
        seen: set[str] = set()
        if self.peek() == "}":
            raise DataError(f"{self.path} must hold the splits {', '.join(SPLITS)}; it holds none")
        while True:
            split = self.value()
            if split not in SPLITS or split in seen:
                found = ascii(split)[1:41].rstrip("'") if isinstance(split, str) else f"a {type(split).__name__}"
                twice = " twice" if split in seen else ""
                raise DataError(f"{self.path} must hold the splits {', '.join(SPLITS)}; it holds {found}{twice}")
            seen.add(split)
            self.expect(":", "a colon after the split")
            if self.peek() != "[":
                kind = {"{": "an object", '"': "a text", "": "missing"}.get(self.peek(), "a single value")
                raise DataError(f"{self.path}: {split} must be a list of records; it is {kind}")
            self.position += 1
            yield from self.members(split)
            if self.separator("}"):
                break
        if self.peek():
            raise self.malformed("nothing more after the last split")

    def members(self, split: str) -> Iterator[tuple[str, int, Any]]:
        if self.peek() == "]":
            self.position += 1
            return
        index = 0
        while True:
            yield split, index, self.value()
            index += 1
            if self.separator("]"):
                return

    def peek(self) -> str:
        """The next character that is no white space; empty at the end of the file."""
        while True:
            while self.position < len(self.text):
                if self.text[self.position] not in _SPACE:
                    return self.text[self.position]
                self.position += 1
            if self.ended:
                return ""
            self.more()

    def expect(self, character: str, what: str) -> None:
        if self.peek() != character:
            raise self.malformed(what)
        self.position += 1

    def separator(self, end: str) -> bool:
        """Step over a comma (False) or the closing ``end`` (True)."""
        character = self.peek()
        if character not in (",", end):
            raise self.malformed(f"a comma or {end}")
        self.position += 1
        return character == end

    def value(self) -> Any:
        """The next JSON value, reading on while it is cut off by the end of the window."""
        if not self.peek():
            raise self.malformed("a value")
        while True:
            try:
                value, end = self.decoder.raw_decode(self.text, self.position)
                # a number at the end of the window ("0", "0.", "1e-") may go on behind it
                if self.ended or len(self.text) - end > 2 or self.text[end:].strip(_UNFINISHED):
                    self.position = end
                    return value
            except RecursionError:
                raise self.malformed("values that are not nested so deep") from None
            except ValueError:
                if self.ended or len(self.text) - self.position > _LARGEST:
                    raise self.malformed("a JSON value") from None
            self.more()

    def more(self) -> None:
        """Drop what has been read and append to what has not; at least double it, so that a long record stays cheap."""
        rest = self.text[self.position :]
        self.passed += self.position
        block = self.file.read(max(_CHUNK, len(rest)))
        self.ended = not block
        self.text, self.position = rest + block, 0

    def malformed(self, expected: str) -> DataError:
        return DataError(f"{self.path} is not valid JSON: expected {expected} at character {self.place():,}")

    def place(self) -> int:
        return self.passed + self.position
