"""Answers of the labelling model: conversion of chat completions to anchors, and the file of answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pacer.commitments.anchor import POLARITIES, Anchor, normalize_finding
from pacer.core.errors import DataError

#: Statuses of an answer. Only ``ok`` yields an anchor.
STATUSES: tuple[str, ...] = ("ok", "unparseable", "malformed", "other_record", "empty", "cut_off", "refused")

#: Values of ``finish_reason`` if the model, or the endpoint's filter, declined to answer.
_REFUSALS = {"refusal", "content_filter"}
#: What a model's reasoning begins with, and what ends it: tags, and channels of gpt-oss (its format "harmony").
_TAG = r"(?:\w+:)?(?:think|thinking|thought|reasoning)"
_REASONING = re.compile(rf"\s*(?:[<◁]{_TAG}[>▷]|\[THINK\]|(?:<\|start\|>assistant)?<\|channel\|>)")
_REASONING_END = re.compile(rf"[<◁]/{_TAG}[>▷]|\[/THINK\]|<\|channel\|>final\b")
_LIKE_JSON = re.compile(r'\{\s*"')
_BRACES = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[{}]', re.DOTALL)
_Tokens = Annotated[int, Field(ge=0, le=10**9)]
_Line = TypeVar("_Line", bound=BaseModel)


class Reply(BaseModel):
    """The stored part of a ``chat.completion``: the model's text, why it ended, and its token counts."""

    model_config = ConfigDict(strict=True, frozen=True)

    raw: str
    finish_reason: str | None = None
    model: str | None = None
    prompt_tokens: _Tokens | None = None
    completion_tokens: _Tokens | None = None


class StoredAnswer(Reply):
    """A line of ``llm_cache.jsonl``. ``status`` and ``anchor`` are for human readers; targets are parsed from ``raw``.

    Attributes:
        request_hash: SHA-256 of the request, the key for reusing an answer.
        current: whether it answers a question of the current sample, prompt and settings. Other answers are kept,
            because they were paid for, and are reused if their question recurs.
    """

    record_id: str
    request_hash: str
    provider: str
    current: bool
    dollars: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    status: str
    anchor: dict[str, list[str]] | None


class Answer(NamedTuple):
    """One parsed answer.

    Attributes:
        status: ``ok``; ``unparseable`` (no JSON object); ``malformed`` (a list is missing or is not a list of texts);
            ``other_record`` (it has another record's identifier); ``empty`` (no content); ``cut_off`` (the object is
            incomplete because of the token limit); ``refused`` (by the model or its filter).
        anchor: None unless ``status`` is ok.
        off_vocabulary: number of names outside the vocabulary, which are left out.
    """

    status: str
    anchor: Anchor | None = None
    off_vocabulary: int = 0

    @property
    def listed(self) -> dict[str, list[str]] | None:
        """The anchor as stored."""
        return None if self.anchor is None else self.anchor.as_dict()


def read_lines(content: bytes, path: Path, kind: type[_Line]) -> list[_Line]:
    """Parse the lines of a file of JSON objects; ``path`` is for errors.

    Raises:
        DataError: a line is malformed; the message names file, line and field.
    """
    lines = []
    for number, line in enumerate(content.split(b"\n"), start=1):
        try:
            if line.strip():
                lines.append(kind.model_validate_json(line))
        except ValidationError as error:
            fault = error.errors()[0]
            field = ".".join(map(str, fault["loc"])) or "the object"
            raise DataError(f"{path}, line {number}, {field}: {fault['msg']}; correct or delete the line") from None
    return lines


def read_answers(path: Path) -> list[StoredAnswer]:
    """Read the answers in ``llm_cache.jsonl``, except a cut-off last line of a killed run; none if there is no file.

    Raises:
        DataError: a line is malformed. If its line is deleted, a request is sent again.
    """
    content = path.read_bytes() if path.exists() else b""
    complete, _, last = content.rpartition(b"\n")
    with suppress(ValueError, RecursionError):  # a cut-off line; a complete one may only lack its line break
        json.loads(last)
        complete = content
    return read_lines(complete, path, StoredAnswer)


def restored(answer: StoredAnswer) -> StoredAnswer | None:
    """Return an answer in a cache; None if its line holds something else, and the request must be sent again.

    Earlier versions stored every HTTP 200: what was no completion to them as the whole body, with no reason for its
    end, no model and no token counts. If the body is a completion in a form that is read now, the answer is in it.
    """
    reply: Reply | None = answer
    about = answer.finish_reason, answer.model, answer.prompt_tokens, answer.completion_tokens
    if about == (None, None, None, None) and read_answer(answer.raw, answer.record_id).status != "ok":
        try:
            reply = read_completion(json.loads(answer.raw))
        except (ValueError, RecursionError):
            reply = None
    if reply is None:
        return None
    read = read_answer(reply.raw, answer.record_id, reply.finish_reason)
    return answer.model_copy(update=reply.model_dump() | {"status": read.status, "anchor": read.listed})


def read_completion(completion: Any) -> Reply | None:
    """Extract the reply of a ``chat.completion`` object; None for anything else.

    The text is the content, whole or in chunks, and the arguments of called tools, or what a gateway has parsed; if
    all of these are empty, the completed reasoning. Other values of an unexpected type become None.
    """
    try:
        choice, model, usage = completion["choices"][0], completion.get("model"), completion.get("usage")
        message, finish_reason = choice["message"], choice.get("finish_reason")
        content, refusal = _content(message.get("content")), message.get("refusal")
    except (LookupError, TypeError, AttributeError):
        return None
    if content is None or not message or choice.get("error") or finish_reason == "error":
        return None
    raw = "\n".join(filter(None, [content, *_arguments(message)]))
    if not raw.strip() and not refusal and finish_reason != "length":
        reasoning = (_text(message.get(name)) for name in ("reasoning_content", "reasoning", "thinking"))
        raw = next(filter(None, reasoning), "")
    usage = usage if isinstance(usage, dict) else {}
    return Reply(
        raw=_text(raw) or "",
        finish_reason="refusal" if refusal and not raw else _text(finish_reason) or "unknown",
        model=_text(model),
        prompt_tokens=_count(usage.get("prompt_tokens")),
        completion_tokens=_count(usage.get("completion_tokens")),
    )


def _content(content: Any) -> str | None:
    """Return the text of a message's content: text, null, a list of chunks, or an object that a gateway has parsed;
    None for another form."""
    if isinstance(content, dict):
        return json.dumps(content)
    if isinstance(content, list):
        chunks = [chunk.get("text") if isinstance(chunk, dict) else chunk for chunk in content]
        chunks = [chunk.get("value") if isinstance(chunk, dict) else chunk for chunk in chunks]
        return "".join(chunk for chunk in chunks if isinstance(chunk, str))
    return content or "" if isinstance(content, str | None) else None


def _arguments(message: dict[str, Any]) -> list[str]:
    """Return the arguments of the tools that a message calls, and the object that a gateway has parsed."""
    calls = message.get("tool_calls")
    functions = [call.get("function") for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    functions.append(message.get("function_call"))
    given = [function.get("arguments") for function in functions if isinstance(function, dict)]
    given.append(message.get("parsed"))
    return [value if isinstance(value, str) else json.dumps(value) for value in given if value]


def _text(value: Any) -> str | None:
    """Replace half surrogate pairs, which JSON can contain but a file cannot, by "?"; None if it is not text."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else None


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value <= 10**9 else None


def read_answer(content: str, record_id: str, finish_reason: str | None = None) -> Answer:
    """Parse an answer for ``record_id``: the last JSON object after the model's reasoning that has the three lists.

    One with another identifier counts only if no other has the lists; without an identifier it is the record's.
    """
    with suppress(ValueError, RecursionError):  # a gateway may give the text as a JSON string
        content = text if isinstance(text := json.loads(content), str) else content
    *reasoning, answer = _REASONING_END.split(content)
    if not reasoning and _REASONING.match(content):  # unfinished reasoning, which may contain draft answers
        answer = ""
    objects = list(_objects(answer))
    if not objects:
        if finish_reason == "length":
            return Answer("cut_off")
        if finish_reason in _REFUSALS:
            return Answer("refused")
        return Answer("unparseable" if content.strip() else "empty")
    labels = [value for value in objects if all(_is_names(value.get(polarity)) for polarity in POLARITIES)]
    if not labels:
        return Answer("malformed")
    own = [value for value in labels if str(value.get("sample_uid") or record_id).strip() == record_id]
    if not own:
        return Answer("other_record")
    named = {polarity: [normalize_finding(name) for name in own[-1][polarity]] for polarity in POLARITIES}
    unknown = sum(findings.count(None) for findings in named.values())
    known = {polarity: [finding for finding in findings if finding] for polarity, findings in named.items()}
    return Answer("ok", Anchor.of(**known), unknown)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the outermost JSON objects of a text; none that is inside one that is cut off or malformed."""
    decoder, start = json.JSONDecoder(), text.find("{")
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
    """Return where the brace at ``start`` is closed, braces in quotes aside; the end of the text if it is not."""
    depth = 0
    for match in _BRACES.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if depth == 0:
            return match.end()
    return len(text)
