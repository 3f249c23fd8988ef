"""Answers of the labelling model: conversion of chat completions to commitments, and the
file of answers."""

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from pacer.core.anchor import POLARITIES, Anchor, normalize_finding
from pacer.core.errors import DataError
from pacer.core.io import read_journal
from pacer.core.validation import explain
from pacer.text.rules import extract_anchor

#: Statuses of an answer. Only ``ok`` yields a commitment.
STATUSES: tuple[str, ...] = ("ok", "unreadable", "cut_off", "refused")

#: Beginning and end of a model's reasoning: tags, and channels in the "harmony" format of gpt-oss.
_TAG = r"(?:\w+:)?(?:think|thinking|thought|reasoning)"
_THOUGHTS = re.compile(rf"\s*(?:[<◁]{_TAG}[>▷]|\[THINK\]|(?:<\|start\|>assistant)?<\|channel\|>)")
_THOUGHTS_END = re.compile(rf"[<◁]/{_TAG}[>▷]|\[/THINK\]|<\|channel\|>final\b")
#: Fields of a message with an answer, and with the reasoning.
_ANSWER = ("content", "tool_calls", "function_call", "parsed")
_REASONING = ("reasoning_content", "reasoning", "thinking")
#: The name of CheXpert's labelers that neither the vocabulary nor the rules know.
_CHEXPERT = {"pleural other": "pleural abnormality"}
_Line = TypeVar("_Line", bound=BaseModel)


class Reply(BaseModel):
    """The stored part of a ``chat.completion``: the model's text, the reason why it ended, and the
    token counts."""

    model_config = ConfigDict(strict=True, frozen=True)

    raw: str
    finish_reason: str | None = None
    model: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


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
        status: ``ok``; ``unreadable`` (no JSON object with three lists of names, or only that of
            another record); ``cut_off`` (the token limit ended it before an object); ``refused``
            (by the model or its filter).
        anchor: None unless ``status`` is ok.
        outside: the number of names that are no finding of the 13, which are left out.
    """

    status: str
    anchor: Anchor | None = None
    outside: int = 0


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


def read_completion(completion: Any) -> Reply | None:
    """Extract the reply of a ``chat.completion`` object; None for anything else.

    The text is the content and the arguments of called tools, whether as texts, as chunks or as
    objects that a gateway has parsed. If these are empty and the model has finished, it is the
    reasoning. Other values of an unexpected type become None.
    """
    try:
        choice = completion["choices"][0]
        message, ended = choice["message"], _text(choice.get("finish_reason")) or "unknown"
        texts = [_text(message.get(name)) for name in (*_ANSWER, *_REASONING)]
        model, usage = completion.get("model"), completion.get("usage") or {}
        tokens = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
    except (LookupError, TypeError, AttributeError):
        return None
    if not message or ended == "error":
        return None
    raw = "\n".join(filter(None, texts[: len(_ANSWER)]))
    if not raw.strip() and message.get("refusal"):
        ended = "refusal"
    elif not raw.strip() and ended != "length":
        raw = next(filter(None, texts[len(_ANSWER) :]), "")
    tokens = [count if type(count) is int else None for count in tokens]
    return Reply(
        raw=raw,
        finish_reason=ended,
        model=_text(model) or None,
        prompt_tokens=tokens[0],
        completion_tokens=tokens[1],
    )


def _text(value: Any) -> str:
    """Return the text of a message's field: of a text, of chunks, of called tools, or of an object
    that a gateway has parsed. Lone surrogates, which JSON can contain but a file cannot, become
    "?"."""
    if isinstance(value, list):
        return "".join(map(_text, value))
    if isinstance(value, dict):
        inner = [
            value[name] for name in ("text", "value", "function", "arguments") if name in value
        ]
        return _text(inner) if inner else json.dumps(value)
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def read_answer(content: str, record_id: str, finish_reason: str | None = None) -> Answer:
    """Parse an answer for ``record_id``: the last JSON object after the model's reasoning that has
    the three lists.

    An object without an identifier counts as this record's. Names that are no finding of the 13 are
    left out.
    """
    with suppress(ValueError, RecursionError):  # a gateway may give the text as a JSON string
        content = text if isinstance(text := json.loads(content), str) else content
    *thoughts, answer = _THOUGHTS_END.split(content)
    if not thoughts and _THOUGHTS.match(content):  # unfinished, perhaps with draft answers
        answer = ""
    labels = [
        value
        for value in _objects(answer)
        if all(map(_is_names, map(value.get, POLARITIES)))
        and str(value.get("sample_uid") or record_id).strip() == record_id
    ]
    if not labels:
        ended = {"length": "cut_off", "refusal": "refused", "content_filter": "refused"}
        return Answer(ended.get(finish_reason or "", "unreadable"))
    named = {name: [*map(finding_named, labels[-1][name])] for name in POLARITIES}
    anchor = Anchor.of(**{name: filter(None, findings) for name, findings in named.items()})
    return Answer("ok", anchor, sum(findings.count(None) for findings in named.values()))


def finding_named(name: str) -> str | None:
    """Return the finding of the 13 that a name stands for, None if there is none: in the words of
    the prompt, of CheXpert's columns, or of a report that affirms this finding alone ("left pleural
    effusion")."""
    if known := _CHEXPERT.get(name.strip().lower()) or normalize_finding(name):
        return known
    read = extract_anchor(name).positive
    return read[0] if len(read) == 1 else None


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a text from left to right, but neither their parts nor the rules'
    candidate, which a model may repeat from the question."""
    decoder = json.JSONDecoder()
    end = 0
    while (start := text.find("{", end)) >= 0:
        end = start + 1
        with suppress(ValueError):
            try:
                value, end = decoder.raw_decode(text, start)
            except RecursionError:
                return
            if "regex_anchor" not in text[max(start - 20, 0) : start]:
                yield value
