"""Changes to other systems' reports before they are scored, as the paper's protocols have them."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

_BOX = "\\boxed{"
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


class Boxed(NamedTuple):
    """``text`` of the box; ``state``: how it was found."""

    text: str
    state: Literal["closed", "absent", "unclosed"]


def last_box(text: str) -> Boxed:
    r"""What stands in the last ``\boxed{...}``, its end found by counting braces (paper, appendix "Additional
    Conventional-SN Baselines"). Without a box, and where the last one is not closed, the text is empty."""
    start = text.rfind(_BOX)
    if start < 0:
        return Boxed("", "absent")
    depth, begin = 1, start + len(_BOX)
    for position in range(begin, len(text)):
        depth += (text[position] == "{") - (text[position] == "}")
        if depth == 0:
            return Boxed(text[begin:position].strip(), "closed")
    return Boxed("", "unclosed")


def without_repeats(text: str) -> str:
    """The report with every sentence once, where it first stands.

    Sentences end at a period, question or exclamation mark before white space, and are the same where they differ only
    in case, white space and the blank before the end mark.
    """
    seen: set[str] = set()
    kept = []
    for sentence in _SENTENCE_END.split(text.strip()):
        key = " ".join(sentence.lower().rstrip(".!? ").split())
        if key not in seen:
            seen.add(key)
            kept.append(sentence)
    return " ".join(kept)
