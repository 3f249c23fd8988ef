"""The cache of labelling answers, keyed by the hash of the request, and the journal that they are written to first.

While questions are asked, each answer goes to a journal beside the cache (:mod:`pacer.core.journal`), which also notes
when a question is sent and why tries failed: a killed process leaves behind which questions were under way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pacer.core.errors import DataError
from pacer.core.io import read_jsonl, write_jsonl
from pacer.core.journal import Journal, read_journal
from pacer.labelling.answers.reading import Reply, read_answer

#: Why a try failed, where the endpoint may have done the work all the same.
MAY_BE_PAID = frozenset({"timeout", "disconnected", "interrupted", "HTTP 504", "HTTP 524"})
#: Status of a line that holds no answer: tries of a request were lost, perhaps paid, and none was answered.
LOST = "lost"

_Count = Annotated[int, Field(ge=0)]


class _Line(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)


class CachedAnswer(_Line):
    """A line of ``llm_cache.jsonl``. ``anchor``, ``status`` and ``dropped`` are for readers; the anchors are read anew.

    Attributes:
        current: it answers a question of the present sample, prompt and settings: others are kept, for they were paid
            for, and are used again when their question comes back.
        raw: the model's own words.
        lost: tries that may have been paid as well, because they broke off after the request was sent.
    """

    record_id: str
    request_hash: str
    prompt_hash: str
    provider: str
    current: bool
    raw: str
    finish_reason: str | None
    model: str | None
    prompt_tokens: _Count | None
    completion_tokens: _Count | None
    dollars: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    lost: _Count
    status: str
    anchor: dict[str, list[str]] | None
    dropped: dict[str, list[str] | int]

    @classmethod
    def of(
        cls, record_id: str, request_hash: str, prompt_hash: str, provider: str, reply: Reply, dollars: float, lost: int
    ) -> CachedAnswer:
        """The line of a reply."""
        answer = read_answer(reply.raw, record_id, reply.finish_reason)
        return cls(
            record_id=record_id,
            request_hash=request_hash,
            prompt_hash=prompt_hash,
            provider=provider,
            current=True,
            **asdict(reply),
            dollars=dollars,
            lost=lost,
            status=answer.status,
            anchor=answer.anchor.as_dict() if answer.anchor else None,
            dropped={"off_vocabulary": answer.off_vocabulary, "repeated": answer.repeated},
        )


class _Event(_Line):
    """A line of the journal that is no answer: ``sent``, or why a try failed."""

    event: str
    request_hash: str


class AnswerCache:
    """All answers of endpoints that there are, by request hash. Use as a context manager.

    Args:
        path: ``llm_cache.jsonl``; need not exist.
        journal: the file that new answers go to; what it holds is taken over.

    Attributes:
        lost: request hash -> tries without an answer that may have been paid.
        troubles: why tries failed, since the cache was last written.

    Raises:
        DataError: the cache or the journal is malformed.
    """

    def __init__(self, path: Path, journal: Path):
        self._path, self._journal_path = path, journal
        self.answers: dict[str, CachedAnswer] = {}
        self.lost: Counter[str] = Counter()
        self.troubles: Counter[str] = Counter()
        for line in read_jsonl(path) if path.exists() else ():
            self._take(_parsed(CachedAnswer, line, path))
        under_way = set()
        for _, line in read_journal(journal):
            if not isinstance(line, dict) or "event" not in line:
                answer = _parsed(CachedAnswer, line, journal)
                self._take(answer)
                under_way.discard(answer.request_hash)
                continue
            event = _parsed(_Event, line, journal)
            if event.event == "sent":
                under_way.add(event.request_hash)
            else:
                self._count(event.request_hash, event.event)
                under_way.discard(event.request_hash)
        self._journal = Journal(journal)
        for request_hash in under_way:
            self.failed(request_hash, ["interrupted"])

    def __enter__(self) -> AnswerCache:
        return self

    def __exit__(self, *error: object) -> None:
        self._journal.__exit__()

    def sent(self, request_hash: str) -> None:
        """Note that a question is about to be sent."""
        self._journal.append({"event": "sent", "request_hash": request_hash})

    def failed(self, request_hash: str, reasons: Iterable[str]) -> None:
        """Note why tries of a question failed."""
        for reason in reasons:
            self._journal.append({"event": reason, "request_hash": request_hash})
            self._count(request_hash, reason)

    def add(self, answer: CachedAnswer) -> None:
        """Take an answer; it is on disk when this returns."""
        self._journal.append(answer.model_dump(), durable=True)
        self.answers[answer.request_hash] = answer

    def unused(self, current: Collection[CachedAnswer]) -> list[CachedAnswer]:
        """The paid answers that are not among these."""
        used = {answer.request_hash for answer in current if answer.provider == "openai"}
        return [answer for answer in self.answers.values() if answer.request_hash not in used]

    def write(self, current: Sequence[CachedAnswer], record_ids: Mapping[str, str]) -> None:
        """Write ``llm_cache.jsonl``: the answers in use, the others, and what was lost without any answer. The journal
        is done with.

        Args:
            record_ids: request hash -> record id of the questions.
        """
        lines = [answer.model_copy(update={"current": True}) for answer in current]
        lines += [answer.model_copy(update={"current": False}) for answer in self.unused(current)]
        for key, lost in self.lost.items():
            if lost and key not in self.answers:
                line = CachedAnswer.of(record_ids.get(key, "unknown"), key, "", "openai", Reply(""), 0.0, lost)
                lines.append(line.model_copy(update={"current": False, "status": LOST}))
        lines.sort(key=lambda line: (line.record_id, line.request_hash))
        write_jsonl(self._path, [line.model_dump() for line in lines])
        self._journal_path.unlink()

    def _count(self, request_hash: str, reason: str) -> None:
        self.troubles[reason] += 1
        self.lost[request_hash] += reason in MAY_BE_PAID

    def _take(self, answer: CachedAnswer) -> None:
        if answer.provider != "openai":  # recorded answers are read from their own file every time
            return
        if answer.status == LOST:
            self.lost[answer.request_hash] += answer.lost
        else:
            self.answers[answer.request_hash] = answer


_Kind = TypeVar("_Kind", bound=_Line)


def _parsed(kind: type[_Kind], line: Any, path: Path) -> _Kind:
    """Raises DataError: a line of the cache or the journal lacks a part, or has one of another kind."""
    try:
        return kind.model_validate(line)
    except ValidationError as error:
        part = error.errors()[0]["loc"][:1]
        record_id = line.get("record_id") if isinstance(line, dict) else None
        whose = f"the line of {record_id}" if isinstance(record_id, str) else "a line"
        raise DataError(
            f"{path}: {whose} is no labelling answer ({part[0] if part else 'the object'} is missing or wrong); delete "
            "the line, and its request is sent again, or move the file away and label again"
        ) from None
