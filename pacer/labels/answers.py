"""Answers of the labelling model: conversion of chat completions to commitments, and the
file of answers."""

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pacer.core.anchor import POLARITIES, Anchor, normalize_finding
from pacer.core.errors import DataError
from pacer.core.io import read_journal
from pacer.core.validation import explain

#: Statuses of an answer. Only ``ok`` yields a commitment.
STATUSES: tuple[str, ...] = ("ok", "unreadable", "other_record", "cut_off", "refused")

#: Beginning and end of a model's reasoning: tags, and channels in the "harmony" format of gpt-oss.
_TAG = r"(?:\w+:)?(?:think|thinking|thought|reasoning)"
_REASONING = re.compile(rf"\s*(?:[<◁]{_TAG}[>▷]|\[THINK\]|(?:<\|start\|>assistant)?<\|channel\|>)")
_REASONING_END = re.compile(rf"[<◁]/{_TAG}[>▷]|\[/THINK\]|<\|channel\|>final\b")
_LIKE_JSON = re.compile(r'\{\s*"')
_BRACES = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[{}]', re.DOTALL)
_Tokens = Annotated[int, Field(ge=0, le=10**9)]
_Line = TypeVar("_Line", bound=BaseModel)


class Reply(BaseModel):
    """The stored part of a ``chat.completion``: the model's text, the reason why it ended, and the
    token counts."""

    model_config = ConfigDict(strict=True, frozen=True)

    raw: str
    finish_reason: str | None = None
    model: str | None = None
    prompt_tokens: _Tokens | None = None
    completion_tokens: _Tokens | None = None


class StoredAnswer(Reply):
    """A line of ``llm_cache.jsonl``. ``status`` and ``anchor`` are for human readers; targets are
    parsed from ``raw``.

    Attributes:
        request_hash: SHA-256 of the request.
        question_hash: SHA-256 of the request without the rules' candidate, the key for reusing an
            answer. None in lines of version 0.4 and earlier until their question is asked again.
        current: whether it answers a question of the current sample, prompt and settings. Other
            answers are kept, because they were paid for, and are reused if their question recurs.
    """

    record_id: str
    request_hash: str
    question_hash: str | None = None
    provider: str
    current: bool
    status: str
    anchor: dict[str, list[str]] | None

    @property
    def key(self) -> str:
        return self.question_hash or self.request_hash


class Answer(NamedTuple):
    """One parsed answer.

    Attributes:
        status: ``ok``; ``unreadable`` (no JSON object with three lists of names); ``other_record``
            (it has another record's identifier); ``cut_off`` (the token limit ended it before an
            object); ``refused`` (by the model or its filter).
        anchor: None unless ``status`` is ok.
    """

    status: str
    anchor: Anchor | None = None


def validated_lines(lines: Iterable[tuple[int, Any]], path: Path, kind: type[_Line]) -> list[_Line]:
    """Validate numbered JSON objects; ``path`` is for errors. Raises a DataError if a line is
    malformed; the message names file, line and field."""
    values = []
    for number, line in lines:
        try:
            values.append(kind.model_validate(line))
        except ValidationError as error:
            problems = explain(error, "the object")
            raise DataError(
                f"{path}, line {number}: {problems}; correct or delete the line"
            ) from None
    return values


def read_answers(path: Path) -> list[StoredAnswer]:
    """Read the answers in ``llm_cache.jsonl``; none if there is no file. An incomplete last line,
    left by a run that was killed, is skipped. Raises a DataError if another line is malformed; if
    the user deletes that line, its request is sent again."""
    return validated_lines(read_journal(path), path, StoredAnswer)


def is_answer(line: StoredAnswer) -> bool:
    """Whether a line of a cache is an answer of the model. Earlier versions stored the body of
    every response with HTTP 200; one that was not a completion has no reason for its end, no model
    and no token counts."""
    about = line.finish_reason, line.model, line.prompt_tokens, line.completion_tokens
    return about != (None, None, None, None) or read_answer(line.raw, line.record_id).status == "ok"


def read_completion(completion: Any) -> Reply | None:
    """Extract the reply of a ``chat.completion`` object; None for anything else.

    The text is the content (a string, chunks, or an object that a gateway has parsed) and the
    arguments of called tools. If these are empty and the model has finished, it is the reasoning.
    Other values of an unexpected type become None.
    """
    try:
        model = completion.get("model")
        usage = completion.get("usage")
        choice = completion["choices"][0]
        finish_reason = choice.get("finish_reason")
        message = choice["message"]
        content = message.get("content")
        refusal = message.get("refusal")
        calls = message.get("tool_calls")
    except (LookupError, TypeError, AttributeError):
        return None
    if isinstance(content, dict):  # a gateway has parsed the text
        content = json.dumps(content)
    if (
        not message
        or not isinstance(content, str | list | None)
        or choice.get("error")
        or finish_reason == "error"
    ):
        return None
    if isinstance(content, list):
        chunks = [chunk.get("text") if isinstance(chunk, dict) else chunk for chunk in content]
        chunks = [chunk.get("value") if isinstance(chunk, dict) else chunk for chunk in chunks]
        content = "".join(chunk for chunk in chunks if isinstance(chunk, str))
    called = list(calls) if isinstance(calls, list) else []
    called.append({"function": message.get("function_call")})
    called.append({"function": {"arguments": message.get("parsed")}})  # parsed by a gateway
    raw = "\n".join(filter(None, [content, *_arguments(called)]))
    if not raw.strip() and not refusal and finish_reason != "length":
        reasoning = (
            _text(message.get(name)) for name in ("reasoning_content", "reasoning", "thinking")
        )
        raw = next(filter(None, reasoning), "")
    usage = usage if isinstance(usage, dict) else {}
    return Reply(
        raw=_text(raw) or "",
        finish_reason="refusal" if refusal and not raw else _text(finish_reason) or "unknown",
        model=_text(model),
        prompt_tokens=_count(usage.get("prompt_tokens")),
        completion_tokens=_count(usage.get("completion_tokens")),
    )


def _arguments(calls: list[Any]) -> list[str]:
    """Return the arguments of the tools that a message calls."""
    functions = [call.get("function") for call in calls if isinstance(call, dict)]
    given = [function.get("arguments") for function in functions if isinstance(function, dict)]
    return [value if isinstance(value, str) else json.dumps(value) for value in given if value]


def _text(value: Any) -> str | None:
    """Replace lone surrogates, which JSON can contain but a file cannot, by "?". Return None if the
    value is not text."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else None


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value <= 10**9 else None


def read_answer(content: str, record_id: str, finish_reason: str | None = None) -> Answer:
    """Parse an answer for ``record_id``: the last JSON object after the model's reasoning that has
    the three lists.

    An object with another record's identifier is used only if there is no other; an object without
    an identifier counts as this record's. Names outside the vocabulary are left out.
    """
    with suppress(ValueError, RecursionError):  # a gateway may give the text as a JSON string
        content = text if isinstance(text := json.loads(content), str) else content
    *reasoning, answer = _REASONING_END.split(content)
    if not reasoning and _REASONING.match(
        content
    ):  # unfinished reasoning, which may contain draft answers
        answer = ""
    objects = list(_objects(answer))
    labels = [
        value for value in objects if all(_is_names(value.get(polarity)) for polarity in POLARITIES)
    ]
    if not labels:
        ended = {"length": "cut_off", "refusal": "refused", "content_filter": "refused"}
        return Answer("unreadable" if objects else ended.get(finish_reason or "", "unreadable"))
    of_record = [
        value for value in labels if str(value.get("sample_uid") or record_id).strip() == record_id
    ]
    if not of_record:
        return Answer("other_record")
    named = {polarity: map(normalize_finding, of_record[-1][polarity]) for polarity in POLARITIES}
    return Answer(
        "ok",
        Anchor.of(**{polarity: filter(None, findings) for polarity, findings in named.items()}),
    )


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the outermost JSON objects of a text. Objects inside of an incomplete or malformed
    object are skipped."""
    decoder = json.JSONDecoder()
    start = text.find("{")
    while start >= 0:
        try:
            value, end = decoder.raw_decode(text, start)
            yield value
        except RecursionError:
            return
        except ValueError:
            end = _end_of_braces(text, start) if _LIKE_JSON.match(text, start) else start + 1
        start = text.find("{", end)


def _end_of_braces(text: str, start: int) -> int:
    """Return where the brace at ``start`` is closed, or the end of the text if it is not. Braces in
    quotes do not count."""
    depth = 0
    for match in _BRACES.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if depth == 0:
            return match.end()
    return len(text)
