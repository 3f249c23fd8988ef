"""Answers of the labelling model: from a chat completion to an anchor, and the file that holds them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pacer.commitments.anchor import POLARITIES, Anchor, normalize_finding
from pacer.core.errors import DataError
from pacer.core.io import parse_lines

#: What can become of an answer. Only ``ok`` yields an anchor.
STATUSES: tuple[str, ...] = ("ok", "unparseable", "malformed", "other_record", "empty", "cut_off", "refused")

#: ``finish_reason`` of an answer that the model, or the endpoint's filter, declined to give.
_REFUSALS = {"refusal", "content_filter"}
_NOT_A_WORD = re.compile(r"[\W_]+")
_Count = Annotated[int, Field(ge=0)]


class Reply(BaseModel):
    """What is kept of a ``chat.completion``: the model's own words, why they end, and what they cost.

    ``raw`` is the whole body where that is no completion (an error page, for example).
    """

    model_config = ConfigDict(strict=True, frozen=True)

    raw: str
    finish_reason: str | None = None
    model: str | None = None
    prompt_tokens: _Count | None = None
    completion_tokens: _Count | None = None


class StoredAnswer(Reply):
    """A line of ``llm_cache.jsonl``. ``status`` and ``anchor`` are for readers; targets are read anew from ``raw``.

    Attributes:
        request_hash: SHA-256 of the request, by which an answer is used again.
        current: it answers a question of the present sample, prompt and settings. Others stay, because they were paid
            for, and are used again when their question comes back.
    """

    record_id: str
    request_hash: str
    provider: str
    current: bool
    dollars: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    status: str
    anchor: dict[str, list[str]] | None


class Answer(NamedTuple):
    """One answer, read.

    Attributes:
        status: ``ok``; ``unparseable`` (no JSON object); ``malformed`` (a list is missing or is not a list of texts);
            ``other_record`` (it repeats another record's identifier); ``empty`` (no content); ``cut_off`` (the token
            limit came before the object's end); ``refused`` (by the model, its filter, or the endpoint).
        anchor: None unless ``status`` is ok.
        off_vocabulary: how many names are outside the vocabulary, and left out.
        repeated: findings named more than once, each used once (positive before uncertain before negative).
        rationale: the evidence phrases by the finding that they are given for.
    """

    status: str
    anchor: Anchor | None = None
    off_vocabulary: int = 0
    repeated: int = 0
    rationale: Mapping[str, tuple[str, ...]] = MappingProxyType({})

    @property
    def phrases(self) -> list[str]:
        """All evidence phrases."""
        return [phrase for phrases in self.rationale.values() for phrase in phrases]


def read_answers(path: Path) -> list[StoredAnswer]:
    """The answers in a file of them, without a last line that was cut off; none where there is no file.

    Raises:
        DataError: a line lacks a part, or has one of another type.
    """
    *lines, last = path.read_bytes().split(b"\n") if path.exists() else [b""]
    with suppress(ValueError, RecursionError):  # which a last line raises that a kill cut off
        json.loads(last)
        lines.append(last)
    answers = []
    for number, line in parse_lines(lines, path):
        try:
            answers.append(StoredAnswer.model_validate(line))
        except ValidationError as error:
            part = ".".join(map(str, error.errors()[0]["loc"][:1])) or "the object"
            raise DataError(
                f"{path}, line {number} is no labelling answer ({part} is missing or wrong); delete the line, and its "
                "request is sent again, or move the file away and label again"
            ) from None
    return answers


def read_completion(completion: Any) -> Reply | None:
    """The reply of a ``chat.completion`` object; None for anything else."""
    try:
        choice, model = completion["choices"][0], completion.get("model")
        content, refusal = choice["message"].get("content"), choice["message"].get("refusal")
        finish_reason, usage = choice.get("finish_reason"), completion.get("usage")
    except (KeyError, IndexError, TypeError, AttributeError):
        return None
    usage = usage if isinstance(usage, dict) else {}
    return Reply(
        raw=_text(content) or "",
        finish_reason="refusal" if refusal and not content else _text(finish_reason),
        model=_text(model),
        prompt_tokens=_count(usage.get("prompt_tokens")),
        completion_tokens=_count(usage.get("completion_tokens")),
    )


def read_answer(content: str, record_id: str, finish_reason: str | None = None) -> Answer:
    """Read the content of an answer for ``record_id``; code fences, a local model's reasoning and text around the
    object are tolerated."""
    _, end, answer = content.rpartition("</think>")
    if not end and content.lstrip().startswith("<think>"):  # the reasoning, which may draft answers, does not end
        answer = ""
    value = _json_object(answer)
    if value is None:
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
    named = {polarity: [normalize_finding(name) for name in names or ()] for polarity, names in lists.items()}
    known = {polarity: [finding for finding in findings if finding] for polarity, findings in named.items()}
    anchor = Anchor.of(**known)
    count = sum(map(len, known.values()))
    used = sum(map(len, anchor.as_dict().values()))
    return Answer("ok", anchor, sum(map(len, named.values())) - count, count - used, _rationale(value.get("rationale")))


def _json_object(content: str) -> dict[str, Any] | None:
    """The last JSON object in a text that has the three lists, else the first; None when none is complete.

    Objects within objects are not looked at: a request that the answer repeats holds three lists as well.
    """
    first = last = None
    start = content.find("{")
    while start >= 0:
        try:
            value, end = json.JSONDecoder().raw_decode(content, start)
            first = first or value
            last = value if value.keys() >= set(POLARITIES) else last
        except json.JSONDecodeError as error:
            end = max(error.pos, start + 1)
        except (ValueError, RecursionError):
            break
        start = content.find("{", end)
    return last or first


def _rationale(value: Any) -> dict[str, tuple[str, ...]]:
    """The texts in a rationale: the values of an object, each a text or a list of texts."""
    phrases = {}
    for finding, given in value.items() if isinstance(value, dict) else ():
        texts = given if isinstance(given, list) else [given]
        phrases[_writable(finding)] = tuple(_writable(text) for text in texts if isinstance(text, str))
    return phrases


def count_missing(phrases: Iterable[str], report: str) -> int:
    """How many evidence phrases do not stand in the report, whatever their case, blanks and punctuation.

    The prompt allows paraphrases, so a missing phrase is a figure for the audit, no error. A phrase without any letter
    or digit is missing.
    """
    words = _words(report)
    return sum(phrase.isspace() or phrase not in words for phrase in map(_words, phrases))


def _words(text: str) -> str:
    """The words in lower case between single blanks, with a blank at both ends so that only whole words match."""
    return f" {_NOT_A_WORD.sub(' ', text.lower()).strip()} "


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value <= 10**9 else None


def _text(value: Any) -> str | None:
    return _writable(value) if isinstance(value, str) else None


def _writable(text: str) -> str:
    """``text`` without the lone surrogates that JSON can hold and UTF-8 cannot."""
    return text.encode("utf-8", "replace").decode()
