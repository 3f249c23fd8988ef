"""The sentences that the rules are held to, with their readings."""

import re
from pathlib import Path
from typing import NamedTuple

from pacer.commitments.anchor import POLARITIES, Anchor

_TABLE = Path(__file__).parents[1] / "unit" / "commitments" / "rules" / "sentences.tsv"
_SIGNS = {"n": "\n", "t": "\t", "-": "\xad", "\\": "\\"}


class Sentence(NamedTuple):
    """A sentence and its reading; ``cleaned``: the cleaned sentence says the same."""

    kind: str
    cleaned: bool
    reading: str
    text: str


def _sentence(line: str) -> Sentence:
    kind, text, reading, sentence = line.split("\t")
    return Sentence(kind, text == "both", reading, re.sub(r"\\(.)", lambda sign: _SIGNS[sign[1]], sentence))


SENTENCES = [_sentence(line) for line in _TABLE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]


def anchor_of(notation: str) -> Anchor:
    """``+`` positive, ``-`` negative, ``?`` uncertain."""
    fields: dict[str, list[str]] = {name: [] for name in POLARITIES}
    for part in notation.replace("+", "|+").replace("?", "|?").replace("- ", "|- ").split("|"):
        if part.strip():
            name = {"+": "positive", "-": "negative", "?": "uncertain"}[part[0]]
            fields[name] += [finding.strip() for finding in part[1:].split(",")]
    return Anchor.of(**fields)
