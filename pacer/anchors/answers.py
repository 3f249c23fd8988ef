"""Reading the labelling model's answers: from a chat completion to an anchor, with everything dropped counted."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from pacer.anchors.anchor import Anchor
from pacer.anchors.vocabulary import POLARITIES, normalize_finding

#: What can become of an answer. Only ``ok`` yields an anchor.
STATUSES: tuple[str, ...] = ("ok", "unparseable", "malformed", "other_record", "empty")


@dataclass(frozen=True)
class Answer:
    """One answer, read.

    Attributes:
        status: ``ok``; ``unparseable`` (no JSON object: cut off, or prose); ``malformed`` (a list is missing or is
            not a list of texts); ``other_record`` (it repeats another record's identifier); ``empty`` (no content).
        anchor: None unless ``status`` is ok.
        off_vocabulary: names outside the vocabulary, left out.
        repeated: findings named more than once, each kept once (positive before uncertain before negative).
    """

    status: str
    anchor: Anchor | None = None
    off_vocabulary: list[str] = field(default_factory=list)
    repeated: int = 0


def content_of(response: Any) -> str:
    """The text of a ``chat.completion`` object; empty when the model returned none (a refusal, for example)."""
    try:
        return response["choices"][0]["message"]["content"] or ""
    except (KeyError, IndexError, TypeError):
        return ""


def read_answer(content: str, record_id: str) -> Answer:
    """Read the content of an answer for ``record_id``; code fences and text around the object are tolerated."""
    if not content.strip():
        return Answer("empty")
    raw = _json_object(content)
    if raw is None:
        return Answer("unparseable")
    lists = {name: raw.get(name) for name in POLARITIES}
    if not all(isinstance(names, list) and all(isinstance(name, str) for name in names) for names in lists.values()):
        return Answer("malformed")
    if str(raw.get("sample_uid", record_id)) != record_id:
        return Answer("other_record")
    found: dict[str, list[str]] = {}
    off_vocabulary = []
    for polarity, names in lists.items():
        pairs = [(name, normalize_finding(name)) for name in names or ()]
        found[polarity] = [finding for _, finding in pairs if finding is not None]
        off_vocabulary += [name for name, finding in pairs if finding is None]
    anchor = Anchor.of(**found)
    kept = sum(len(getattr(anchor, polarity)) for polarity in POLARITIES)
    return Answer("ok", anchor, off_vocabulary, sum(map(len, found.values())) - kept)


def _json_object(content: str) -> dict[str, Any] | None:
    """The first complete JSON object in a text."""
    start = content.find("{")
    if start < 0:
        return None
    try:
        value, _ = json.JSONDecoder().raw_decode(content, start)
    except (json.JSONDecodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
