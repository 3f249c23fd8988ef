"""Answers of the labelling model: conversion of chat completions to anchors, and the file of answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pacer.commitments.anchor import POLARITIES, Anchor, normalize_finding
from pacer.core.errors import DataError

#: Statuses of an answer. Only ``ok`` yields an anchor.
STATUSES: tuple[str, ...] = ("ok", "unparseable", "malformed", "other_record", "empty", "cut_off", "refused")

#: Values of ``finish_reason`` if the model, or the endpoint's filter, declined to answer.
_REFUSALS = {"refusal", "content_filter"}
_NOT_A_WORD = re.compile(r"[\W_]+")
_Tokens = Annotated[int, Field(ge=0, le=10**9)]
_Line = TypeVar("_Line", bound=BaseModel)


class Reply(BaseModel):
    """The stored part of a ``chat.completion``: the model's text, why it ended, and its token counts.

    ``raw`` is the whole body if the body is not a completion (an error page, for example).
    """

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
        rationale: the evidence phrases by finding.
    """

    status: str
    anchor: Anchor | None = None
    off_vocabulary: int = 0
    rationale: Mapping[str, tuple[str, ...]] = MappingProxyType({})


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


def read_completion(completion: Any) -> Reply | None:
    """Extract the reply of a ``chat.completion`` object; None for anything else. Only the content must be text or null;
    other values of an unexpected type become None."""
    try:
        choice, model, usage = completion["choices"][0], completion.get("model"), completion.get("usage")
        content, refusal = choice["message"].get("content"), choice["message"].get("refusal")
        finish_reason = choice.get("finish_reason")
    except (LookupError, TypeError, AttributeError):
        return None
    if content and not isinstance(content, str):
        return None
    usage = usage if isinstance(usage, dict) else {}
    return Reply(
        raw=_text(content) or "",
        finish_reason="refusal" if refusal and not content else _text(finish_reason),
        model=_text(model),
        prompt_tokens=_count(usage.get("prompt_tokens")),
        completion_tokens=_count(usage.get("completion_tokens")),
    )


def _text(value: Any) -> str | None:
    """Replace half surrogate pairs, which JSON can contain but a file cannot, by "?"; None if it is not text."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else None


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value <= 10**9 else None


def read_answer(content: str, record_id: str, finish_reason: str | None = None) -> Answer:
    """Parse the first JSON object of an answer for ``record_id``, after any ``<think>`` block, also in a code fence."""
    _, closed, answer = content.rpartition("</think>")
    if not closed and content.lstrip().startswith("<think>"):  # unfinished reasoning, which may contain draft answers
        answer = ""
    try:
        value, _ = json.JSONDecoder().raw_decode(answer, answer.index("{"))
    except (ValueError, RecursionError):
        if finish_reason == "length":
            return Answer("cut_off")
        if finish_reason in _REFUSALS:
            return Answer("refused")
        return Answer("unparseable" if content.strip() else "empty")
    lists = {polarity: value.get(polarity) for polarity in POLARITIES}
    if not all(isinstance(names, list) and all(isinstance(name, str) for name in names) for names in lists.values()):
        return Answer("malformed")
    if str(value.get("sample_uid", record_id)).strip() != record_id:
        return Answer("other_record")
    named = {polarity: [normalize_finding(name) for name in names] for polarity, names in lists.items()}
    unknown = sum(findings.count(None) for findings in named.values())
    known = {polarity: [finding for finding in findings if finding] for polarity, findings in named.items()}
    return Answer("ok", Anchor.of(**known), unknown, _rationale(value.get("rationale")))


def _rationale(value: Any) -> dict[str, tuple[str, ...]]:
    """Return the texts in a rationale, an object whose values are texts or lists of texts."""
    value = json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))  # half surrogate pairs to "?"
    phrases = {}
    for finding, given in value.items() if isinstance(value, dict) else ():
        texts = given if isinstance(given, list) else [given]
        phrases[finding] = tuple(text for text in texts if isinstance(text, str))
    return phrases


def count_missing(phrases: Iterable[str], report: str) -> int:
    """Count the evidence phrases that are not in the report, ignoring case, blanks and punctuation.

    The prompt allows paraphrases, so a missing phrase is counted in the audit and is not an error. A phrase without any
    letter or digit counts as missing.
    """
    report, *words = (f" {re.sub(_NOT_A_WORD, ' ', text.lower()).strip()} " for text in (report, *phrases))
    return sum(phrase.isspace() or phrase not in report for phrase in words)
