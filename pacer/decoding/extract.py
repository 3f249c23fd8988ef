"""Extract commitment and report from generated text (paper, appendix "Trajectory routing and report extraction")."""

from collections.abc import Collection
from itertools import pairwise
from typing import NamedTuple

from pacer.commitments.anchor import CLOSE_REPORT, OPEN_REPORT, Anchor, contains_anchor, parse_anchor
from pacer.commitments.rules import extract_anchor
from pacer.data.sentences import sentence_ends


class Extraction(NamedTuple):
    """The ``report`` to score, the parsed ``anchor`` (None: none was generated), and whether the raw text is used as
    the report (``fallback``)."""

    report: str
    anchor: Anchor | None
    fallback: bool


def extract_report(generated: str, commit: bool = True, kinds: Collection[str] = ()) -> Extraction:
    """Extract the text after the last ``<REPORT>``, up to ``</REPORT>`` if present.

    Without an opening marker, or with nothing after it, the raw text is kept and ``fallback`` is true.
    A model without ``commit`` writes only the report. ``kinds``: as in :func:`parse_anchor`.
    """
    if not commit:
        return Extraction(generated.strip(), None, False)
    anchor = parse_anchor(generated, kinds) if contains_anchor(generated) else None
    _, marker, rest = generated.rpartition(OPEN_REPORT)
    report = rest.split(CLOSE_REPORT, 1)[0].strip()
    if not marker or not report:
        return Extraction(generated.strip(), anchor, True)
    return Extraction(report, anchor, False)


def within(report: str, commitment: Anchor) -> str:
    """Leave out the sentences of a report that affirm a finding which the commitment does not affirm, or deny one that
    it affirms and the report as a whole denies."""
    denied = {*extract_anchor(report).negative} & {*commitment.positive}
    sentences = [report[start:end].strip() for start, end in pairwise([0, *sentence_ends(report)])]

    def supported(*texts: str) -> bool:
        read = extract_anchor(" ".join(texts))
        return set(read.positive) <= set(commitment.positive) and not denied & {*read.negative}

    kept = [one for one in sentences if supported(one)]
    if not supported(*kept):  # without its neighbours "a small one persists" may be another finding
        left, kept = kept, []
        for one in left:
            kept += [one] if supported(*kept, one) else []
    return report if len(kept) == len(sentences) else " ".join(kept)
