"""Which of several statements about a finding decides: the first one that affirms or hedges it,
unless a later one replaces that.
"""

import re
from typing import NamedTuple

from pacer.commitments.rules.table import GROUPS, Match

#: A statement of somebody else, or a question: the next one decides.
_ANOTHER, _ASKS = re.compile(GROUPS["another"]), re.compile(GROUPS["asks"])
_OUTRIGHT, _ONE_PART, _EXCEPTION, _SICKNESS, _WAS = (
    re.compile(GROUPS[name])
    for name in ("outright", "one_part", "exception", "sickness", "said_past")
)


class Segment(NamedTuple):
    """A segment of a report: its number, its text, the text before it, and whether both are in one
    sentence."""

    number: int
    text: str
    before: str
    goes_on: bool

    def speaks_of_the_past(self, end: int) -> bool:
        """Whether what stands before a place in the segment, also in the same sentence, is about an
        earlier time."""
        return bool((self.goes_on and _WAS.search(self.before)) or _WAS.search(self.text, 0, end))


class Statement(NamedTuple):
    """What a segment says of a finding. ``refers``: the words do not name the finding, but refer
    to one that was named before ("it", "none", "the former")."""

    segment: Segment
    mention: Match
    polarity: str
    cue: Match | None
    refers: bool

    @property
    def asks(self) -> bool:
        """Whether it is a question."""
        text, cue = self.segment.text, self.cue
        return self.polarity == "uncertain" and (
            text.endswith("?") or (cue is not None and _ASKS.match(text, cue.start) is not None)
        )


class Verdicts:
    """What the segments of a report, in order, say of each finding."""

    def __init__(self) -> None:
        self._deciding: dict[str, Statement] = {}
        self._before_addendum: dict[str, str] = {}

    def begin_addendum(self) -> None:
        """From here on, statements replace those before."""
        self._before_addendum = self.polarities()
        self._deciding = {}

    def polarities(self) -> dict[str, str]:
        """Return the polarity of each finding."""
        return self._before_addendum | {
            finding: statement.polarity for finding, statement in self._deciding.items()
        }

    def hear(self, finding: str, statement: Statement) -> None:
        """Take the next statement about a finding."""
        earlier = self._deciding.get(finding)
        if earlier is None or _replaces(finding, statement, earlier):
            self._deciding[finding] = statement


def _replaces(finding: str, statement: Statement, earlier: Statement) -> bool:
    """Whether a statement about a finding decides instead of an earlier one."""
    if earlier.polarity == "negative" or earlier.asks:
        return True
    distance = statement.segment.number - earlier.segment.number
    if statement.refers and distance <= 2:  # "None is seen now."
        return True
    in_one_sentence = distance == 0 or (distance == 1 and statement.segment.goes_on)
    if (
        statement.polarity == "negative"
        and in_one_sentence
        and _takes_back(finding, statement, earlier)
    ):
        return True
    return (
        statement.polarity != "uncertain"
        and distance == 1
        and _ANOTHER.search(statement.segment.before) is not None
    )


def _takes_back(finding: str, denial: Statement, earlier: Statement) -> bool:
    """Whether a denial of a finding is of all that the sentence has affirmed before ("a fracture
    was feared, no fracture is seen"), and not of a part ("left effusion, no right effusion")."""
    said, where = earlier.mention, earlier.segment.text
    text, mention, cue = denial.segment.text, denial.mention, denial.cue
    findings, name = mention.row.findings, where[said.start : said.end]
    in_one_segment = earlier.segment.number == denial.segment.number
    if (
        (findings == ("support devices",) and not name.startswith("intubat"))
        or _ONE_PART.search(text, said.end if in_one_segment else 0)
        or _EXCEPTION.match(text)
    ):
        return False
    if cue is None or mention.row.says == "denies":
        return finding in ("cardiomegaly", "enlarged mediastinum")
    # "congestion, no edema"
    if findings and finding in ("edema", "lung opacity", "lung lesion"):
        noun = text[mention.start : mention.end].split()[-1][:5]
        if not name.split()[-1].startswith(noun) and not _SICKNESS.search(name):
            return False
    return _OUTRIGHT.fullmatch(text, min(cue.start, mention.start)) is not None
