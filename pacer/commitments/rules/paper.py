"""The paper's own rule set, as far as its appendix "Commitment supervision" describes it.

It is the choice ``anchors.rules: paper``; ``docs/readings.md`` lists what the paper leaves open.
"""

import re

from pacer.commitments.anchor import Anchor
from pacer.commitments.rules.table import NAMES

#: Characters around a name in which a negation counts. The paper names no size.
WINDOW = 40

_UNCERTAIN = re.compile(r"\b(?:possible|probable|may represent|could represent|questionable|suspect)")
_NEGATIVE = re.compile(
    r"\b(?:no|not|without|absent|negative for|no evidence of)\b(?! (?:interval |significant )*change\b)"
)
_SEGMENT_END = re.compile(r"[.;](?!\d)")
_DEVICES = r"\b(?:tubes?|catheters?|picc|central(?: venous)? lines?|devices?|pacemakers?)\b"


def _names() -> list[tuple[str, re.Pattern[str]]]:
    """Return each finding with its names. The names are those of our table, since the paper has only the devices'."""
    words: dict[str, list[str]] = {}
    for row in NAMES:
        for finding in row.findings if row.says == "names" else ():
            words.setdefault(finding, []).append(row.words)
    words["support devices"] = [_DEVICES]
    return [(finding, re.compile("|".join(rf"\b(?:{name})" for name in names))) for finding, names in words.items()]


_NAMES = _names()


def extract_paper_anchor(report: str) -> Anchor:
    """Extract the findings as the paper's fallback does: a hedge anywhere in the sentence counts before a negation
    nearby, and the first mention that is positive or uncertain ends the search for its finding."""
    fields: dict[str, list[str]] = {"positive": [], "negative": [], "uncertain": []}
    segments = _SEGMENT_END.split(" ".join(report.lower().split()))
    for finding, names in _NAMES:
        read = [_polarity(text, mention) for text in segments for mention in names.finditer(text)]
        if read:
            fields[next((polarity for polarity in read if polarity != "negative"), "negative")].append(finding)
    return Anchor.of(**fields)


def _polarity(text: str, mention: re.Match[str]) -> str:
    if _UNCERTAIN.search(text):
        return "uncertain"
    near = text[max(0, mention.start() - WINDOW) : mention.start()], text[mention.end() : mention.end() + WINDOW]
    return "negative" if any(map(_NEGATIVE.search, near)) else "positive"
