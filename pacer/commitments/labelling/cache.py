"""The cache of labelling answers, keyed by the hash of the request, and the journal that they are written to first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pacer.commitments.labelling.reading import Reply, read_answer
from pacer.commitments.labelling.request import Question
from pacer.core.errors import DataError
from pacer.core.io import hash_bytes, numbered_jsonl, write_jsonl
from pacer.core.journal import Journal, read_journal

_Count = Annotated[int, Field(ge=0)]


class CachedAnswer(BaseModel):
    """A line of ``llm_cache.jsonl``. ``anchor``, ``status`` and ``dropped`` are for readers; the anchors are read anew.

    Attributes:
        current: it answers a question of the present sample, prompt and settings: others are kept, for they were paid
            for, and are used again when their question comes back.
        raw: the model's own words.
        lost: tries before it that may have been paid as well, because they broke off after the request was sent.
    """

    model_config = ConfigDict(strict=True, frozen=True)

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
        cls, question: Question, reply: Reply, provider: str = "openai", dollars: float = 0.0, lost: int = 0
    ) -> CachedAnswer:
        """The line of a reply."""
        answer = read_answer(reply.raw, question.record_id, reply.finish_reason)
        return cls(
            record_id=question.record_id,
            request_hash=question.request_hash,
            prompt_hash=hash_bytes(question.request["messages"][0]["content"].encode()),
            provider=provider,
            current=True,
            **asdict(reply),
            dollars=dollars,
            lost=lost,
            status=answer.status,
            anchor=answer.anchor.as_dict() if answer.anchor else None,
            dropped={"off_vocabulary": answer.off_vocabulary, "repeated": answer.repeated},
        )


class AnswerCache:
    """Every answer kept from any endpoint, by request hash. Use as a context manager.

    Args:
        path: ``llm_cache.jsonl``; need not exist.
        journal: the file that new answers go to; what it holds is taken over.

    Raises:
        DataError: the cache or the journal is malformed.
    """

    def __init__(self, path: Path, journal: Path):
        self._path, self._journal_path = path, journal
        kept = numbered_jsonl(path) if path.exists() else ()
        answers = [_parsed(line, path) for _, line in kept] + [
            _parsed(line, journal) for _, line in read_journal(journal)
        ]
        # recorded answers are read from their own file every time
        self.answers = {answer.request_hash: answer for answer in answers if answer.provider == "openai"}
        self._journal = Journal(journal)

    def __enter__(self) -> AnswerCache:
        return self

    def __exit__(self, *error: object) -> None:
        self._journal.__exit__()

    def add(self, answer: CachedAnswer) -> None:
        """Take an answer; it is on disk when this returns."""
        self._journal.append(answer.model_dump(), durable=True)
        self.answers[answer.request_hash] = answer

    def unused(self, current: Sequence[CachedAnswer]) -> list[CachedAnswer]:
        """The paid answers that are not among these."""
        used = {answer.request_hash for answer in current if answer.provider == "openai"}
        return [answer for answer in self.answers.values() if answer.request_hash not in used]

    def write(self, current: Sequence[CachedAnswer]) -> None:
        """Write ``llm_cache.jsonl``: the answers in use, and the others. The journal is done with."""
        lines = [answer.model_dump() | {"current": True} for answer in current]
        lines += [answer.model_dump() | {"current": False} for answer in self.unused(current)]
        lines.sort(key=lambda line: (line["record_id"], line["request_hash"]))
        write_jsonl(self._path, lines, durable=True)
        self._journal_path.unlink()


def _parsed(line: Any, path: Path) -> CachedAnswer:
    """Raises DataError: a line of the cache or the journal lacks a part, or has one of another kind."""
    try:
        return CachedAnswer.model_validate(line)
    except ValidationError as error:
        part = error.errors()[0]["loc"][:1]
        record_id = line.get("record_id") if isinstance(line, dict) else None
        whose = f"the line of {record_id}" if isinstance(record_id, str) else "a line"
        raise DataError(
            f"{path}: {whose} is no labelling answer ({part[0] if part else 'the object'} is missing or wrong); delete "
            "the line, and its request is sent again, or move the file away and label again"
        ) from None
