"""The rules that read reports: which findings a text affirms, denies or leaves uncertain, where it
says so, and with which side, severity and course.

The tables have the words (``names.tsv``, ``cues.tsv``, ``forms.tsv``, ``attributes.tsv``, with the
groups of ``words.tsv``); ``docs/commitments.md`` shows how to add one. Reading goes through these
modules in order:

- ``layout``: a report to its sentences and list items, without markup and other sections;
- ``tables``: a sentence to words, and the longest phrases of the tables in them;
- ``scope``: the mentions of findings, and how far a cue reaches;
- ``sentence``, ``attributes``: everything that one sentence says;
- ``report``: everything that the report says.

``paper`` is the paper's own fallback, which has words of its own.
"""

from pathlib import Path

from pacer.text.rules.paper import extract_paper_anchor
from pacer.text.rules.report import (
    Mention,
    extract_anchor,
    find_mentions,
    find_more,
    read_attributes,
    read_more,
)
from pacer.text.rules.tables import Lexicon

#: Raised by a person when readings change; signatures name it.
VERSION = int(Path(__file__).with_name("VERSION").read_text())
#: The choices of ``anchors.rules``.
EXTRACTORS = {"careful": extract_anchor, "paper": extract_paper_anchor}

__all__ = [
    "EXTRACTORS",
    "VERSION",
    "Lexicon",
    "Mention",
    "extract_anchor",
    "find_mentions",
    "find_more",
    "read_attributes",
    "read_more",
]
