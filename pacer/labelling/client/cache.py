"""The cache of labelling answers, keyed by the hash of the request, and the journal that they are written to first.

A line of ``llm_cache.jsonl``::

    {record_id, request_hash, prompt_hash, provider, current, raw, finish_reason, model, prompt_tokens,
     completion_tokens, dollars, lost, status, anchor, dropped}

``current`` says that it answers a question of the present sample, prompt and settings: others are kept, for they were
paid for, and are used again when their question comes back. ``lost`` counts earlier attempts that may have been paid
as well, because they broke off after the request was sent.

While questions are asked, each line goes to a journal beside the cache and is on disk before its slot asks the next
one. The journal also notes when a request is sent and when no answer came of it, so that a killed process leaves
behind which requests were under way.
"""

from __future__ import annotations

import errno
import json
import os
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pacer.core.errors import DataError, PacerError
from pacer.core.io import read_jsonl, write_jsonl
from pacer.labelling.answers.reading import Reply, read_answer

#: Reasons of a missing answer after which the endpoint may have done the work all the same.
MAY_BE_PAID = frozenset({"timeout", "disconnected", "gateway_timeout", "interrupted", "too_large", "error_body"})

#: Status of a line that holds no answer: attempts at a request were lost, perhaps paid, and none was answered.
LOST = "lost"

_Line = dict[str, Any]


class Journal:
    """An append-only file of JSON lines that survives being cut off anywhere."""

    def __init__(self, path: Path):
        _mend(path)
        self.lines: list[_Line] = read_jsonl(path) if path.exists() else []
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115  open for as long as the journal is
        self._broken = False
        self._writing, self._syncing = threading.Lock(), threading.Lock()
        self._written = self._synced = 0

    def append(self, line: _Line, *, durable: bool) -> None:
        """Write one line; with ``durable``, return when it is on disk. Threads that wait together share one sync.

        Raises:
            PacerError: the file cannot be written, for lack of space for example.
        """
        content = json.dumps(line).encode() + b"\n"
        try:
            with self._writing:
                if self._broken or self._file.write(content) < len(content):
                    self._broken = True  # a half line stays the last one, so that it can be mended
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                self._written += 1
                mine = self._written
            if durable:
                with self._syncing:
                    if self._synced < mine:
                        reached = self._written
                        os.fsync(self._file.fileno())
                        self._synced = reached
        except OSError as error:
            what = f"{self._file.name} cannot be written ({error.strerror})"
            raise PacerError(f"{what}; no more requests are sent") from None

    def close(self) -> None:
        self._file.close()


class AnswerCache:
    """All answers of endpoints that there are, by request hash. Use as a context manager.

    Args:
        path: ``llm_cache.jsonl``; need not exist.
        journal: the file that new answers go to; what it holds is taken over.

    Raises:
        DataError: the cache or the journal is malformed.
    """

    def __init__(self, path: Path, journal: Path):
        self._path, self._journal_path = path, journal
        self.lines: dict[str, _Line] = {}
        self._lost: Counter[str] = Counter()
        for line in read_jsonl(path) if path.exists() else ():
            self._take(line, path)
        self._journal = Journal(journal)
        self.troubles: Counter[str] = Counter()
        self._lock = threading.Lock()
        try:
            self._replay(journal)
        except PacerError:
            self._journal.close()
            raise

    def __enter__(self) -> AnswerCache:
        return self

    def __exit__(self, *error: object) -> None:
        self._journal.close()

    def lost(self, request_hash: str) -> int:
        """Attempts for this request that may have been paid without an answer."""
        return self._lost[request_hash]

    def sent(self, request_hash: str) -> None:
        """Note that a request is about to be sent."""
        self._journal.append({"event": "sent", "request_hash": request_hash}, durable=False)

    def no_answer(self, request_hash: str, reason: str) -> None:
        """Note that a request which was sent gave no answer."""
        self._journal.append({"event": reason, "request_hash": request_hash}, durable=False)
        self._count(request_hash, reason)

    def add(self, line: _Line) -> None:
        """Take an answer; it is on disk when this returns."""
        self._journal.append(line, durable=True)
        with self._lock:
            self.lines[line["request_hash"]] = line

    def write(self, current: Sequence[_Line], record_ids: Mapping[str, str]) -> None:
        """Write ``llm_cache.jsonl``: the lines in use, the cache's others, and what was lost without any answer. The
        journal is done with.

        Args:
            current: the lines in use.
            record_ids: request hash -> record id of the questions.
        """
        lines = [line | {"current": True} for line in current]
        lines += [line | {"current": False} for line in self.unused(current)]
        lines += [
            {
                "record_id": record_ids.get(key, "unknown"),
                "request_hash": key,
                "provider": "openai",
                "current": False,
                "raw": "",
                "status": LOST,
                "dollars": 0.0,
                "lost": lost,
            }
            for key, lost in self._lost.items()
            if lost and key not in self.lines
        ]
        write_jsonl(self._path, sorted(lines, key=lambda line: (line["record_id"], line["request_hash"])))
        self._journal.close()
        self._journal_path.unlink()

    def unused(self, current: Sequence[_Line]) -> list[_Line]:
        """The lines of the cache that are not among these."""
        used = {id(line) for line in current}
        return [line for line in self.lines.values() if id(line) not in used]

    def _replay(self, journal: Path) -> None:
        """Take over what the journal of an earlier run holds."""
        under_way: Counter[str] = Counter()
        for line in self._journal.lines:
            _check(line, journal, _EVENT if isinstance(line, dict) and "event" in line else _NAMED)
            event = line.get("event")
            if event == "sent":
                under_way[line["request_hash"]] += 1
                continue
            under_way -= Counter([line["request_hash"]])  # not below zero: those of batches are not noted as sent
            if event is None:
                self._take(line, journal)
            else:
                self._count(line["request_hash"], event)
        self._journal.lines.clear()
        for request_hash, count in under_way.items():
            for _ in range(count):
                self.no_answer(request_hash, "interrupted")

    def _count(self, request_hash: str, reason: str) -> None:
        with self._lock:
            self.troubles[reason] += 1
            self._lost[request_hash] += reason in MAY_BE_PAID

    def _take(self, line: Any, path: Path) -> None:
        _check(line, path, _NAMED)
        if line.get("provider") != "openai":  # recorded answers are read from their own file every time
            return
        _check(line, path, _PAID if line.get("status") == LOST else _PAID | _ANSWERED)
        if line.get("status") == LOST:
            self._lost[line["request_hash"]] += line["lost"]
        else:
            self.lines[line["request_hash"]] = line


#: What the parts of a line may be.
_EVENT: dict[str, tuple[type, ...]] = {"request_hash": (str,), "event": (str,)}
_NAMED: dict[str, tuple[type, ...]] = {"record_id": (str,), "request_hash": (str,), "raw": (str,)}
_PAID: dict[str, tuple[type, ...]] = {"dollars": (int, float), "lost": (int,)}
_NONE = type(None)
_ANSWERED: dict[str, tuple[type, ...]] = {
    "finish_reason": (str, _NONE),
    "model": (str, _NONE),
    "prompt_tokens": (int, _NONE),
    "completion_tokens": (int, _NONE),
}


def _check(line: Any, path: Path, kinds: Mapping[str, tuple[type, ...]]) -> None:
    """Raises DataError: a line of the cache or the journal lacks a part, or has one of another kind."""
    line = line if isinstance(line, dict) else {}
    for name, kind in kinds.items():
        value = line.get(name)
        if name not in line or type(value) not in kind or (isinstance(value, int | float) and not value >= 0):
            record_id = line.get("record_id")
            whose = f"the line of {record_id}" if isinstance(record_id, str) else "a line"
            raise DataError(
                f"{path}: {whose} is no labelling answer ({name} is missing or wrong); delete the line, "
                "and its request is sent again, or move the file away and label again"
            )


def answer_line(
    record_id: str, request_hash: str, prompt_hash: str, provider: str, reply: Reply, dollars: float, lost: int = 0
) -> _Line:
    """The line of an answer; ``anchor``, ``status`` and ``dropped`` are for readers, the anchors are read anew."""
    answer = read_answer(reply.content, record_id, reply.finish_reason)
    return {
        "record_id": record_id,
        "request_hash": request_hash,
        "prompt_hash": prompt_hash,
        "provider": provider,
        "current": True,
        "raw": reply.content,
        "finish_reason": reply.finish_reason,
        "model": reply.model,
        "prompt_tokens": reply.prompt_tokens,
        "completion_tokens": reply.completion_tokens,
        "dollars": dollars,
        "lost": lost,
        "status": answer.status,
        "anchor": answer.anchor.as_dict() if answer.anchor else None,
        "dropped": {"off_vocabulary": answer.off_vocabulary, "repeated": answer.repeated},
    }


def _mend(path: Path) -> None:
    """Remove the end of a journal that an interrupted run did not finish; a whole line that only lacks its newline
    stays."""
    if not path.exists():
        return
    content = path.read_bytes()
    lines = content.split(b"\n")
    while lines and not _whole(lines[-1]):
        lines.pop()
    end = sum(len(line) + 1 for line in lines)
    with open(path, "rb+") as file:
        if end > len(content):
            file.seek(0, os.SEEK_END)
            file.write(b"\n")
        else:
            file.truncate(end)


def _whole(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False
