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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pacer.anchors.answers import Reply, read_answer
from pacer.core.errors import DataError, PacerError
from pacer.core.io import read_jsonl, write_jsonl

#: Reasons of a missing answer after which the endpoint may have done the work all the same.
MAY_BE_PAID = frozenset({"timeout", "disconnected", "gateway_timeout", "interrupted"})

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
        content = json.dumps(line, ensure_ascii=False).encode() + b"\n"
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
        for line in read_jsonl(path) if path.exists() else ():
            self._take(line, path)
        self._journal = Journal(journal)
        self.troubles: Counter[str] = Counter()
        self._lost: Counter[str] = Counter()
        self._lock = threading.Lock()
        under_way: Counter[str] = Counter()
        for line in self._journal.lines:
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

    def write(self, current: Sequence[_Line]) -> None:
        """Write ``llm_cache.jsonl``: the lines in use, and the cache's others. The journal is done with."""
        lines = [line | {"current": True} for line in current]
        lines += [line | {"current": False} for line in self.unused(current)]
        write_jsonl(self._path, sorted(lines, key=lambda line: (line["record_id"], line["request_hash"])))
        self._journal.close()
        self._journal_path.unlink()

    def unused(self, current: Sequence[_Line]) -> list[_Line]:
        """The lines of the cache that are not among these."""
        used = {id(line) for line in current}
        return [line for line in self.lines.values() if id(line) not in used]

    def _count(self, request_hash: str, reason: str) -> None:
        with self._lock:
            self.troubles[reason] += 1
            self._lost[request_hash] += reason in MAY_BE_PAID

    def _take(self, line: Any, path: Path) -> None:
        if not isinstance(line, dict) or not {"record_id", "request_hash", "raw"} <= line.keys():
            raise DataError(f"{path} holds a line that is no labelling answer; move the file away and label again")
        if line.get("provider") == "openai":  # recorded answers are read from their own file every time
            self.lines[line["request_hash"]] = line


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
    except ValueError:
        return False
