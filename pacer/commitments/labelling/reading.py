"""Reading the labelling model's answers: from a chat completion to an anchor, with everything dropped counted."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pacer.commitments.anchor import Anchor
from pacer.commitments.vocabulary import POLARITIES, normalize_finding

#: What can become of an answer. Only ``ok`` yields an anchor.
STATUSES: tuple[str, ...] = ("ok", "unparseable", "malformed", "other_record", "empty", "cut_off", "refused")

#: ``finish_reason`` of an answer that the model, or the endpoint's filter, declined to give.
REFUSAL = "refusal"
_REFUSALS = {REFUSAL, "content_filter"}
#: More tokens than any answer takes; a greater count is no count.
_MAX_TOKENS = 10**9
#: Braces at which an object is looked for, at most; more of them are no answer.
_MAX_TRIES = 1000


@dataclass(frozen=True)
class Reply:
    """What of a ``chat.completion`` is kept: the model's own words, why they end, and what they cost.

    ``raw`` is the whole body where that is no completion (an error page, for example).
    """

    raw: str
    finish_reason: str | None = None
    model: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


@dataclass(frozen=True)
class Answer:
    """One answer, read.

    Attributes:
        status: ``ok``; ``unparseable`` (no JSON object); ``malformed`` (a list is missing or is not a list of texts);
            ``other_record`` (it repeats another record's identifier); ``empty`` (no content); ``cut_off`` (the token
            limit came before the object's end); ``refused`` (by the model, its filter, or the endpoint).
        anchor: None unless ``status`` is ok.
        off_vocabulary: names outside the vocabulary, left out.
        repeated: findings named more than once, each kept once (positive before uncertain before negative).
        rationale: the evidence phrases by the finding that they are given for.
    """

    status: str
    anchor: Anchor | None = None
    off_vocabulary: list[str] = field(default_factory=list)
    repeated: int = 0
    rationale: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def phrases(self) -> tuple[str, ...]:
        """All evidence phrases."""
        return tuple(phrase for phrases in self.rationale.values() for phrase in phrases)


def read_json_text(text: str) -> Any:
    """The JSON value in a text; None where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def read_body(body: str) -> Reply:
    """The reply in the body of a response, whatever it holds."""
    return read_completion(read_json_text(body)) or Reply(_writable(body))


def read_completion(completion: Any) -> Reply | None:
    """The reply of a ``chat.completion`` object; None for anything else."""
    try:
        choice = completion["choices"][0]
        message = choice["message"]
        content, refusal = message.get("content"), message.get("refusal")
        usage = completion.get("usage")
        finish_reason, model = choice.get("finish_reason"), completion.get("model")
    except (KeyError, IndexError, TypeError, AttributeError):
        return None
    usage = usage if isinstance(usage, dict) else {}
    return Reply(
        _writable(content) if isinstance(content, str) else "",
        REFUSAL if refusal and not content else _text(finish_reason),
        _text(model),
        _count(usage.get("prompt_tokens")),
        _count(usage.get("completion_tokens")),
    )


def read_answer(content: str, record_id: str, finish_reason: str | None = None) -> Answer:
    """Read the content of an answer for ``record_id``; code fences, a local model's reasoning and text around the
    object are tolerated."""
    raw = _json_object(_after_reasoning(content))
    if raw is None:
        if finish_reason == "length":
            return Answer("cut_off")
        if finish_reason in _REFUSALS:
            return Answer("refused")
        return Answer("unparseable" if content.strip() else "empty")
    lists = {name: raw.get(name) for name in POLARITIES}
    if not all(isinstance(names, list) and all(isinstance(name, str) for name in names) for names in lists.values()):
        return Answer("malformed")
    if str(raw.get("sample_uid", record_id)).strip() != record_id:
        return Answer("other_record")
    found: dict[str, list[str]] = {}
    off_vocabulary = []
    for polarity, names in lists.items():
        pairs = [(name, normalize_finding(name)) for name in names or ()]
        found[polarity] = [finding for _, finding in pairs if finding is not None]
        off_vocabulary += [_writable(name) for name, finding in pairs if finding is None]
    anchor = Anchor.of(**found)
    kept = sum(len(getattr(anchor, polarity)) for polarity in POLARITIES)
    rationale = dict(_rationale(raw.get("rationale")))
    return Answer("ok", anchor, off_vocabulary, sum(map(len, found.values())) - kept, rationale)


def _after_reasoning(content: str) -> str:
    """What follows a model's reasoning, which may draft answers; nothing where the reasoning does not end."""
    _, end, answer = content.rpartition("</think>")
    return "" if not end and content.lstrip().startswith("<think>") else answer


def _json_object(content: str) -> dict[str, Any] | None:
    """The last JSON object in a text that has the three lists, else the first; None when none is complete.

    Objects within objects are not looked at: a request that the answer repeats holds three lists as well.
    """
    first = last = None
    start = content.find("{")
    for _ in range(_MAX_TRIES):
        if start < 0:
            break
        try:
            value, end = json.JSONDecoder().raw_decode(content, start)
        except json.JSONDecodeError as error:
            end = max(error.pos, start + 1)
        except (ValueError, RecursionError):
            break
        else:
            first = first or value
            last = value if value.keys() >= set(POLARITIES) else last
        start = content.find("{", end)
    return last or first


def _rationale(value: Any) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The texts in a rationale: the values of an object, each a text or a list of texts."""
    for name, part in value.items() if isinstance(value, dict) else ():
        texts = part if isinstance(part, list) else [part]
        yield _writable(name), tuple(_writable(text) for text in texts if isinstance(text, str))


def _text(value: Any) -> str | None:
    return _writable(value) if isinstance(value, str) else None


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value <= _MAX_TOKENS else None


def _writable(text: str) -> str:
    """``text`` without the lone surrogates that JSON can hold and UTF-8 cannot."""
    return text.encode("utf-8", "replace").decode()
