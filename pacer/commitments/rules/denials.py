"""What a denial before a finding denies: the finding, a property of it, or something that is named
before it.
"""

import re
from collections.abc import Sequence

from pacer.commitments.rules.passage import Passage
from pacer.commitments.rules.table import GROUPS, Match

_QUALIFIER, _GENERAL, _PREDICATE, _STATED = (
    re.compile(GROUPS[name]) for name in ("qualifier", "general_object", "predicate", "stated")
)
_PROPERTY_OF, _EVIDENCE, _DENIED_DEGREE = (
    re.compile(GROUPS[name]) for name in ("property_of", "evidence", "denied_degree")
)
TO_OR, _SUCH_AS, _FRONTED, _PREDICATED = (
    re.compile(GROUPS[name]) for name in ("to_or", "such_as", "fronted", "predicated")
)
#: "Or" between findings that a denial lists.
ALTERNATIVE = re.compile(r"\b(?:or|nor|andor)\b")
#: Names that are statements by themselves: "widened mediastinum", "heart enlarged".
_STATEMENT = re.compile(
    rf"\b(?:{GROUPS['large']}|widened|thickened|collapsed|congested|engorged)\b"
)
_AND, _TO_BE = re.compile(r" and\b(?! or\b)"), re.compile(r" (?:is|are|was|were) ")


def ends_at_comma(passage: Passage, cue: Match) -> bool:
    """Whether a denial is the phrase before a statement about the mention ("without cardiomegaly,
    effusions of this size are unusual")."""
    text, start, before = passage.text, passage.mention.start, passage.before
    if not (cue.row.says == "negative" and before and passage.commas and _FRONTED.match(text)):
        return False
    first = max(cue.end, before[0].end)
    comma = next((place for place in passage.commas if first <= place < start), None)
    return (
        comma is not None
        and _PREDICATED.search(text, comma) is not None
        and ALTERNATIVE.search(text, comma) is None
    )


def denies_a_property(text: str, denial: Match, finding: Match, listed: bool) -> bool:
    """Whether a denial before a finding denies something of, in or near the finding. ``listed``:
    other findings stand between them, which an "or" may join with this one."""
    found = _PROPERTY_OF.fullmatch(text, denial.end, finding.start)
    if found is None or (listed and ALTERNATIVE.search(found["object"])):
        return False
    return not _EVIDENCE.fullmatch(found["object"].strip())


def ends_before(
    text: str, denial: Match, finding: Match, commas: Sequence[int], statements: Sequence[int]
) -> bool:
    """Whether a denial has an object of its own, which ends before the first finding behind it: at
    a comma, at "and", or where one of the ``statements`` begins. In "no focal process, effusion or
    pneumothorax" the list goes on."""
    begin, start, end = denial.end, finding.start, finding.end
    joined = _AND.search(text, begin, start)
    ends = [place for place in commas if begin <= place < start] + (
        [joined.start()] if joined else []
    )
    ends += [place - 1 for place in statements if begin + 1 < place <= start]
    if not ends:
        return False
    stop = min(ends)
    negated_verb = text.startswith(("not", "nil"), denial.start)
    spoken = text[begin:stop]
    words = _PREDICATE.sub("", spoken).split()
    if not spoken.strip() or not (negated_verb or (words and not _QUALIFIER.fullmatch(words[-1]))):
        return False
    if TO_OR.match(text, stop + 1) or _SUCH_AS.match(text, stop):
        return False
    closed = (
        negated_verb
        or _STATEMENT.search(text, start, end)
        or _PREDICATE.search(spoken)
        or _TO_BE.match(text, stop)
        or ALTERNATIVE.search(spoken)
    )
    if closed or any(stop < place <= start for place in statements) or _STATED.match(text, end):
        return True
    alone = _GENERAL.fullmatch(words[-1]) or not _DENIED_DEGREE.fullmatch(text, stop, start)
    return bool(alone) and end not in commas
