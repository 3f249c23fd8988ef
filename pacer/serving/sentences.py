"""Which sentences of a report say what the commitment before it says."""

from __future__ import annotations

from typing import Literal, NamedTuple

from pacer.commitments.anchor import FINDINGS, Anchor
from pacer.commitments.rules.extract import extract_anchor
from pacer.commitments.rules.segments import located_segments

#: ``backed``: every finding that the sentence states has this polarity in the commitment; ``unbacked``: one has not;
#: ``plain``: the sentence states no finding.
Standing = Literal["backed", "unbacked", "plain"]


class Claim(NamedTuple):
    """What a sentence, or a commitment, says of a finding, and what the other says of it (None: nothing)."""

    finding: str
    polarity: str
    other: str | None


class Sentence(NamedTuple):
    """A sentence, or a clause that a semicolon ends, with the blanks that follow it."""

    text: str
    standing: Standing
    claims: tuple[Claim, ...]


def marked_sentences(report: str, commitment: Anchor | None) -> list[Sentence]:
    """The report cut into sentences; their texts joined are the report. Each is read alone.

    Without a commitment every sentence is ``plain``.
    """
    starts = [places[0] for _, places in located_segments(report)][1:]
    found = []
    for start, end in zip([0, *starts], [*starts, len(report)], strict=True):
        text = report[start:end]
        claims = () if commitment is None else _claims(extract_anchor(text), commitment)
        standing: Standing = (
            "plain"
            if not claims
            else "backed"
            if all(claim.polarity == claim.other for claim in claims)
            else "unbacked"
        )
        found.append(Sentence(text, standing, claims))
    return found


def unsaid(report: str, commitment: Anchor) -> list[Claim]:
    """Findings of the commitment that the report does not mention, or not with this polarity."""
    return [claim for claim in _claims(commitment, extract_anchor(report)) if claim.polarity != claim.other]


def _claims(own: Anchor, other: Anchor) -> tuple[Claim, ...]:
    return tuple(
        Claim(finding, polarity, other.polarity(finding))
        for finding in FINDINGS
        if (polarity := own.polarity(finding)) is not None
    )
