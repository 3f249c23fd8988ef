"""The tables of the rules: names of findings (``names.tsv``), cues about them (``cues.tsv``), ``abbreviations.tsv``.

A row is one name or cue. Its words are a short regular expression for lower-case text without punctuation; ``{degree}``
stands for a group of ``words.tsv``. Matches begin at the start of a word. Every row has an example with its reading,
which the tests check, and ``docs/commitments.md`` explains the columns.
"""

from __future__ import annotations

import re
from importlib import resources
from typing import NamedTuple


class Row(NamedTuple):
    """One row of a table.

    ``says`` is the meaning: of a cue ``negative``, ``uncertain``, ``hint``, ``silent``, ``instead``, ``nothing``, or
    ``clause``, ``statement``, ``degree``, which end the reach of others; of a name ``names``, ``denies``, ``same`` (the
    finding named last) or ``nothing`` (a look-alike). ``side`` is where a cue stands: ``before`` or ``after`` the
    finding, ``around`` (either), ``between`` two. ``reach``: in how many characters a finding after and before the cue
    must stand. The name of a finding has no comma in it, unless ``with_commas``.
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


def lines(name: str) -> list[dict[str, str]]:
    """Read a table of this package. The first line has the names of the columns; lines with # are comments."""
    text = resources.files("pacer.commitments.rules").joinpath(name).read_text(encoding="utf-8")
    head, *lines = [line.split("\t") for line in text.splitlines() if line and not line.startswith("#")]
    return [dict(zip(head, line, strict=True)) for line in lines]


def expand(words: str) -> str:
    """Write the groups of a pattern in full."""
    return re.sub(r"\{([a-z]\w*)\}", lambda group: GROUPS[group[1]], words)


#: The groups of ``words.tsv``; a group may use those above it.
GROUPS: dict[str, str] = {}
for _line in lines("words.tsv"):
    GROUPS[_line["group"]] = f"(?:{expand(_line['words'])})"


def _row(line: dict[str, str]) -> Row:
    side, numbers = line.get("side", ""), [int(number) for number in line.get("reach", "").split(", ") if number]
    return Row(
        *(line["says"], expand(line["words"]), line["example"], line["reading"]),
        findings=tuple(filter(None, line.get("findings", "").split(", "))),
        anywhere=line["start"] == "anywhere",
        with_commas=line["says"] != "names" or line["start"] == "word, with commas",
        side=side,
        reach=(numbers[0] if side and side != "after" else 0, numbers[-1] if side and side != "before" else 0),
    )


#: The words in full of each abbreviation.
ABBREVIATIONS = {short: line["words"] for line in lines("abbreviations.tsv") for short in line["short"].split(", ")}
NAMES, CUES = (tuple(map(_row, lines(table))) for table in ("names.tsv", "cues.tsv"))
