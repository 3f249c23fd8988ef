"""The commitment and the report in a generated text."""

import re
from typing import NamedTuple

from pacer.core.anchor import (
    CLOSE_REPORT,
    OPEN_REPORT,
    Anchor,
    contains_commitment,
    parse_anchor,
)

CLOSE_ANCHOR = "</ANCHOR>"
_END = re.compile(rf"{CLOSE_REPORT}|\n\s*<")


class Extraction(NamedTuple):
    """The parts of a generated text."""

    #: The report to score.
    report: str
    #: The commitment; None if none was generated.
    anchor: Anchor | None
    #: Whether no report was found, so that ``report`` is the whole text.
    fallback: bool


def extract_report(generated: str, commit: bool = True, sides: bool = False) -> Extraction:
    """Extract the text after the last ``<REPORT>``, up to ``</REPORT>`` or a line that begins a
    marker: below the minimum length, a search can leave ``</REPORT>`` incomplete and continue.

    Without an opening marker, or with nothing after it, the raw text is used and ``fallback`` is
    true. A model without ``commit`` writes only the report. ``sides``: as in :func:`parse_anchor`.
    """
    if not commit:
        return Extraction(generated.strip(), None, False)
    anchor = parse_anchor(generated, sides) if contains_commitment(generated) else None
    _, marker, rest = generated.rpartition(OPEN_REPORT)
    report = _END.split(rest.strip(), maxsplit=1)[0].strip()
    if not marker or not report:
        return Extraction(generated.strip(), anchor, True)
    return Extraction(report, anchor, False)
