"""Anchors as text, and back: ``<ANCHOR> positive: a, b; negative: c; uncertain: none </ANCHOR>``."""

from __future__ import annotations

import re

from pacer.commitments.anchor import Anchor
from pacer.commitments.vocabulary import MAX_PER_FIELD, POLARITIES, normalize_finding

NONE = "none"
#: What stands around the report, behind the commitment.
OPEN_REPORT, CLOSE_REPORT = "<REPORT>", "</REPORT>"

_OPENING = re.compile(r"<\s*anchor\s*>", re.IGNORECASE)
_CLOSING = re.compile(r"<\s*/\s*anchor\s*>|<\s*report\s*>", re.IGNORECASE)
_FIELD = re.compile(rf"\b({'|'.join(POLARITIES)})\b\s*:", re.IGNORECASE)


def render_anchor(anchor: Anchor) -> str:
    """The commitment as the decoder is taught to write it.

    A field without findings is ``none``; of more than eight findings in a field, the vocabulary's first eight are
    written.
    """
    fields = (f"{name}: {', '.join(getattr(anchor, name)[:MAX_PER_FIELD]) or NONE}" for name in POLARITIES)
    return f"<ANCHOR> {'; '.join(fields)} </ANCHOR>"


def contains_anchor(text: str) -> bool:
    """Does a generated text hold an opening ``<ANCHOR>`` marker and at least one named field after it?"""
    return _body(text) is not None


def parse_anchor(text: str) -> Anchor:
    """The commitment in a text; the inverse of :func:`render_anchor` for at most eight findings a field.

    Generated text may be imperfect: the first ``<ANCHOR>`` counts; it ends at ``</ANCHOR>``, at ``<REPORT>`` or with
    the text; case and blanks do not matter; unknown findings are left out; a finding in several fields is positive
    before uncertain before negative. Without a commitment (see :func:`contains_anchor`) the anchor is empty.
    """
    body = _body(text)
    if body is None:
        return Anchor()
    named: dict[str, list[str]] = {name: [] for name in POLARITIES}
    marks = list(_FIELD.finditer(body))
    for mark, following in zip(marks, [*marks[1:], None]):
        content = body[mark.end() : following.start() if following else len(body)]
        findings = (normalize_finding(part) for part in re.split(r"[,;]", content))
        named[mark[1].lower()] += [finding for finding in findings if finding is not None]
    return Anchor.of(**named)


def _body(text: str) -> str | None:
    opening = _OPENING.search(text)
    if opening is None:
        return None
    closing = _CLOSING.search(text, opening.end())
    body = text[opening.end() : closing.start() if closing else len(text)]
    return body if _FIELD.search(body) else None
