"""The rule-based extractor of commitments (paper, appendix "Commitment supervision").

The report is lower-cased, blanks are normalised, and it is cut at sentence ends and semicolons. Every mention of a
finding gets a polarity from the cues around it, uncertainty before negation; "no change" and its kin are no negation.
A negative mention is only a candidate while later mentions are inspected; the first positive or uncertain mention
decides. Works on raw reports and on cleaned ones.

Two versions share this frame and the names of the findings:

* ``paper``: cues in a local window of characters, and nothing that the paper does not describe.
* ``scoped``: cues within the clause and the list of the mention; findings that have resolved are denied; "no new",
  histories, aims of an examination and unchanged devices without a name say nothing; a blunted costophrenic angle
  leaves an effusion uncertain; a device whose tip or place is spoken of is there.

``docs/anchors.md`` has their figures.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from pacer.anchors.anchor import Anchor
from pacer.anchors.vocabulary import FINDINGS, POLARITIES
from pacer.rules.cues import PAPER_CUES, SCOPED_CUES
from pacer.rules.matching import Match, Patterns
from pacer.rules.mentions import FINDINGS_OF, MENTIONS, NORMALITY, SCOPED_ALONE, SIGNS
from pacer.rules.polarity import Reading, by_scope, by_windows
from pacer.rules.segments import located_segments, segments
from pacer.rules.version import VERSIONS, Version

#: Within a verdict: named by a sign alone.
_SIGN = "sign"


class Mention(NamedTuple):
    """One mention of a finding in a report, for explanations.

    ``report[start:end]`` names the finding; ``polarity`` is None where nothing is said of it (a look-alike is no
    mention at all). ``cue`` is the span of the words that decided the polarity and ``kind`` what they are:
    ``uncertain``, ``hint``, ``negative``, ``instead``, ``silent``; ``normality`` and ``sign`` lie in the mention
    itself; None for a plain mention. ``decided``: the anchor has this finding's polarity from here.
    """

    start: int
    end: int
    finding: str
    polarity: str | None
    cue: tuple[int, int] | None
    kind: str | None
    decided: bool


class _Rules(NamedTuple):
    """What makes a version."""

    mentions: Patterns
    cues: Patterns
    judge: Callable[[str, list[Match], list[Match]], list[Reading]]


_RULES: dict[str, _Rules] = {
    "paper": _Rules(Patterns([p for p in MENTIONS if p.name not in SCOPED_ALONE]), Patterns(PAPER_CUES), by_windows),
    "scoped": _Rules(Patterns(MENTIONS), Patterns(SCOPED_CUES), by_scope),
}


def extract_anchor(report: str, version: Version = "paper") -> Anchor:
    """The findings that a report affirms, denies or leaves uncertain; a finding it does not mention is in no field.

    Raises:
        ValueError: the version is unknown.
    """
    verdict: dict[str, str] = {}
    for segment in segments(report):
        for finding, polarity in _read(segment.strip(), version):
            if _overrides(polarity, verdict.get(finding)):
                verdict[finding] = polarity
    return _anchor_of(frozenset(verdict.items()))


def find_mentions(report: str, version: Version = "paper") -> list[Mention]:
    """Every mention of a finding, in order; those that decided have the polarities of :func:`extract_anchor`."""
    mentions: list[Mention] = []
    verdict: dict[str, tuple[str, int]] = {}
    for segment, places in located_segments(report):
        for (start, end, name), (polarity, cue) in _readings(segment, version):
            span, kind = None, "sign" if name in SIGNS else "normality" if name in NORMALITY else None
            if cue is not None:
                span, kind = (places[cue[0]], places[cue[1] - 1] + 1), cue[2].partition("_")[0]
            said = _said(name, polarity)
            for finding in FINDINGS_OF[name]:
                if said is not None and _overrides(said, verdict.get(finding, (None,))[0]):
                    verdict[finding] = said, len(mentions)
                shown = "uncertain" if said == _SIGN else said
                mentions.append(Mention(places[start], places[end - 1] + 1, finding, shown, span, kind, False))
    for _, place in verdict.values():
        mentions[place] = mentions[place]._replace(decided=True)
    return mentions


def _readings(segment: str, version: str) -> list[tuple[Match, Reading]]:
    """The mentions of one segment in order, look-alikes included, and what is said of them."""
    if version not in _RULES:
        raise ValueError(f"rules {version!r}; known are {', '.join(VERSIONS)}")
    rules, words = _RULES[version], segment.split()
    text = " ".join(words)
    mentions = rules.mentions.find(text, words)
    if not mentions:
        return []
    return list(zip(mentions, rules.judge(text, mentions, rules.cues.find(text, words)), strict=True))


@lru_cache(maxsize=1 << 15)  # most sentences of a corpus occur many times
def _read(segment: str, version: str) -> tuple[tuple[str, str], ...]:
    """What one segment says, in order: finding and polarity."""
    return tuple(
        (finding, said)
        for (_, _, name), (polarity, _) in _readings(segment, version)
        if (said := _said(name, polarity)) is not None
        for finding in FINDINGS_OF[name]
    )


def _said(name: str, polarity: str | None) -> str | None:
    """What a mention says of its findings; a sign that is denied says nothing."""
    if name in SIGNS:
        return None if polarity in (None, "negative") else _SIGN
    return polarity


def _overrides(said: str, before: str | None) -> bool:
    """Does a later mention change the verdict?"""
    if before == _SIGN:
        return said != _SIGN
    return before is None or (before == "negative" and said in ("positive", "uncertain"))


@lru_cache(maxsize=1 << 14)
def _anchor_of(verdict: frozenset[tuple[str, str]]) -> Anchor:
    states = {finding: "uncertain" if said == _SIGN else said for finding, said in verdict}
    return Anchor(*(tuple(f for f in FINDINGS if states.get(f) == name) for name in POLARITIES))
