"""What a denial denies, where that is none of the findings that follow.

"No acute process, cardiomegaly" denies a process, and "no cavitation within the mass" a property of the mass.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pacer.commitments.rules.matching import Match
from pacer.commitments.rules.table import GROUPS

_QUALIFIER, _GENERAL, _PREDICATE, _STATED, _TO_OR, _PROPERTY_OF, _EVIDENCE = (
    re.compile(GROUPS[name])
    for name in ("qualifier", "general_object", "predicate", "stated", "to_or", "property_of", "evidence")
)
_AND = re.compile(r" and\b(?! or\b)")


def denies_a_property(text: str, denial: Match, finding: Match) -> bool:
    """Whether a denial before a finding denies something of, in or near the finding."""
    found = _PROPERTY_OF.fullmatch(text, denial.end, finding.start)
    return found is not None and not _EVIDENCE.fullmatch(found["object"].split()[-1])


def ends_before(text: str, denial: Match, finding: Match, commas: Sequence[int], statements: Sequence[int]) -> bool:
    """Whether a denial has an object of its own, which ends before the first finding behind it: at a comma, at "and",
    or where one of the ``statements`` begins. In "no focal process, effusion or pneumothorax" the list goes on."""
    begin, start, end = denial.end, finding.start, finding.end
    joined = _AND.search(text, begin, start)
    ends = [place for place in commas if begin <= place < start] + ([joined.start()] if joined else [])
    ends += [place - 1 for place in statements if begin < place <= start]
    if not ends:
        return False
    stop = min(ends)
    negated_verb = text.startswith("not", denial.start)
    spoken = text[begin:stop]
    words = _PREDICATE.sub("", spoken).split()
    complete = negated_verb or (words and len(words) < len(spoken.split()))
    if not spoken.strip() or not (complete or not _QUALIFIER.fullmatch(words[-1])):
        return False
    if _TO_OR.match(text, stop + 1):
        return False
    stated = any(stop < place <= start for place in statements) or _STATED.match(text, end)
    return bool(complete or stated or (_GENERAL.fullmatch(words[-1]) and end not in commas))
