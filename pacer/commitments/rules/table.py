"""The tables of the rules: names of findings (``names.tsv``), cues about them (``cues.tsv``),
``abbreviations.tsv``; and the search for their rows in a text.

A row is one name or cue. Its words are a short regular expression for lower-case text without
punctuation; ``{degree}`` stands for a group of ``words.tsv``. Matches begin at the start of a word.
Every row has an example with its reading, which the tests check, and ``docs/commitments.md``
explains the columns.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, reduce
from importlib import resources
from operator import or_
from typing import NamedTuple


class Rule(NamedTuple):
    """One row of a table.

    ``says`` is the meaning: of a cue ``negative``, ``uncertain``, ``hint``, ``silent``,
    ``instead``, ``nothing``, or ``clause``, ``statement``, ``degree``, which end the reach of
    others; of a name ``names``, ``denies`` (without a finding, it takes back the statement
    before), ``cleared`` (lungs that are clear now: it denies a finding of the past), ``same`` (the
    finding named last), ``latter`` and ``former`` (that one, and the one named before it; they
    replace what was said of it) or ``nothing`` (a look-alike). ``side`` is where a cue stands:
    ``before`` or ``after`` the finding, ``around`` (either), ``between`` two. ``reach``: in how
    many characters a finding after and before the cue must stand. The name of a finding has no
    comma in it, unless ``with_commas``. ``pieces``: at most three sets of pieces of words; every
    match contains a piece of each set, so other texts need not be searched. A piece after ``_`` is
    the start of a word.
    """

    says: str
    words: str
    example: str
    reading: str
    findings: tuple[str, ...] = ()
    anywhere: bool = False
    with_commas: bool = True
    side: str = ""
    reach: tuple[int, int] = (0, 0)
    pieces: tuple[frozenset[str], ...] = ()


def lines(name: str, package: str = "pacer.commitments.rules") -> list[dict[str, str]]:
    """Read a table of a package. The first line has the names of the columns; lines with # are
    comments."""
    text = resources.files(package).joinpath(name).read_text(encoding="utf-8")
    head, *lines = [
        line.split("\t") for line in text.splitlines() if line and not line.startswith("#")
    ]
    return [dict(zip(head, line, strict=True)) for line in lines]


#: The groups of ``words.tsv``; a group may use those above it.
GROUPS: dict[str, str] = {}


def expand(words: str, groups: Mapping[str, str] = GROUPS) -> str:
    """Write the groups of a pattern in full."""
    return re.sub(r"\{([a-z]\w*)\}", lambda group: groups[group[1]], words)


for _line in lines("words.tsv"):
    GROUPS[_line["group"]] = f"(?:{expand(_line['words'])})"


def pieces(column: str) -> tuple[frozenset[str], ...]:
    """Parse the column of pieces, such as ``no, without & effusion``. If it is empty, every text is
    searched."""
    return tuple(frozenset(choices.split(", ")) for choices in column.split(" & ") if choices)


def _row(line: dict[str, str]) -> Rule:
    side, numbers = (
        line.get("side", ""),
        [int(number) for number in line.get("reach", "").split(", ") if number],
    )
    return Rule(
        *(line["says"], expand(line["words"]), line["example"], line["reading"]),
        findings=tuple(filter(None, line.get("findings", "").split(", "))),
        anywhere=line["start"] == "anywhere",
        with_commas=line["says"] != "names" or line["start"] == "word, with commas",
        side=side,
        reach=(
            numbers[0] if side and side != "after" else 0,
            numbers[-1] if side and side != "before" else 0,
        ),
        pieces=pieces(line["pieces"]),
    )


#: The words in full of each abbreviation.
ABBREVIATIONS = {
    short: line["words"]
    for line in lines("abbreviations.tsv")
    for short in line["short"].split(", ")
}
NAMES, CUES = (tuple(map(_row, lines(table))) for table in ("names.tsv", "cues.tsv"))


#: The start of a word, also behind a sign such as a hyphen.
_START = re.compile(r"\b(?=\w)")
#: How many sets of pieces a row may have.
_SETS = 3
#: Maximum number of distinct words whose rows are cached.
_WORDS = 1 << 16


class Match(NamedTuple):
    """The place of a row's words in a text."""

    start: int
    end: int
    row: Rule


class _Known(dict[str, int]):
    """What a function returns for each word. A look-up takes half the time of ``lru_cache``."""

    def __init__(self, function: Callable[[str], int]):
        super().__init__()
        self._function = function

    def __missing__(self, word: str) -> int:
        if len(self) >= _WORDS:
            self.clear()
        self[word] = found = self._function(word)
        return found


class Patterns:
    """The rows of a table. If two matches overlap, the earlier start wins, then the earlier row.

    The words of a text determine which rows can match, and this is cached by word: so a text costs
    one look-up per word, and only the few searches that its words require.
    """

    def __init__(self, rows: Sequence[Rule], before: str = " "):
        """``before``: the character before the words of a row, unless it begins anywhere."""
        self._rows = rows
        expressions = [f"{'' if row.anywhere else before}(?:{row.words})" for row in rows]
        self._searches = [(rank, re.compile(text)) for rank, text in enumerate(expressions)]
        self._bits: dict[str, int] = {}
        for rank, row in enumerate(rows):
            in_every_word = [frozenset([""])] * (_SETS - len(row.pieces))
            for place, choices in enumerate([*row.pieces, *in_every_word]):
                for piece in choices:
                    self._bits[piece] = self._bits.get(piece, 0) | 1 << rank + place * len(rows)
        self._short = [piece for piece in self._bits if 0 < len(piece) < 3]
        #: Longer pieces by their first three letters.
        self._long: dict[str, list[str]] = {}
        for piece in self._bits:
            if len(piece) > 2:
                self._long.setdefault(piece[:3], []).append(piece)
        self._candidate_rows = _Known(self._rows_of).__getitem__
        self._of_mask = lru_cache(maxsize=_WORDS)(self._searches_of)

    def find(self, text: str, words: list[str], commas: Sequence[int] = ()) -> list[Match]:
        """Find the matches in ``text`` (``words`` joined by single blanks), in order and without
        overlaps. The name of a finding has no comma, which may stand at the blanks ``commas``."""
        bits = reduce(or_, map(self._candidate_rows, words), 0)
        count = len(self._rows)
        mask = bits & bits >> count & bits >> 2 * count
        if not mask:
            return []
        padded, hits = f" {text}", []
        for rank, pattern in self._of_mask(mask):
            match = pattern.search(padded)
            while match:
                start, end = match.span()
                match = pattern.search(padded, end)
                if commas and not self._rows[rank].with_commas:
                    comma = next((comma for comma in commas if start < comma < end - 1), None)
                    if comma is not None:
                        # what stands before the comma may be a name
                        shorter = pattern.match(padded, start, comma + 1)
                        if shorter is None:
                            continue
                        end = shorter.end()
                if self._rows[rank].anywhere and padded[start] != " ":
                    start -= 1
                hits.append((start, rank, end - 1))
        free, matches = 0, []
        for start, rank, end in sorted(hits):
            if start >= free:
                matches.append(Match(start, end, self._rows[rank]))
                free = end
        return matches

    def _searches_of(self, mask: int) -> list[tuple[int, re.Pattern[str]]]:
        """Return the ranks and patterns of the rows in a bit mask."""
        rest, searches = mask & (1 << len(self._rows)) - 1, []
        while rest:
            rank = (rest & -rest).bit_length() - 1
            searches.append(self._searches[rank])
            rest &= rest - 1
        return searches

    def _rows_of(self, word: str) -> int:
        """Return a bit mask of the rows for which the word contains a piece of the first set; above
        it, those of the second and the third set."""
        bits = self._bits.get("", 0)
        as_written = "" if word.isalnum() else word  # for pieces with signs, which have no mark
        word = _START.sub("_", word) + as_written
        for piece in self._short:
            if piece in word:
                bits |= self._bits[piece]
        # looking up every three letters is faster than searching the word for every piece
        for start in range(len(word) - 2):
            for piece in self._long.get(word[start : start + 3], ()):
                if word.startswith(piece, start):
                    bits |= self._bits[piece]
        return bits
