"""The tables in use."""

from pathlib import Path

from pacer.text.rules.tables import Forms, Phrases, own_table, read_table, wordings


class Lexicon:
    """The tables in use: names of findings, cues, values, headings, words of attributes.

    Args:
        more_findings: a table like ``names.tsv`` with names of further findings. Where both have a
            phrase, its row counts.
    """

    def __init__(self, more_findings: Path | None = None):
        self.names = own_table("names", "name")
        self.names += read_table(more_findings, "name") if more_findings else []
        self.phrases = Phrases((row.phrase, row) for row in self.names + own_table("cues"))
        forms = own_table("forms")
        self.sections, self.values, self.fillers = (
            Phrases((row.phrase, row.detail or kind) for row in forms if row.kind == kind)
            for kind in ("section", "value", "filler")
        )
        #: Words that only announce a value ("status: absent").
        self.keys = frozenset(row.phrase for row in forms if row.kind == "key")
        self.attributes = Phrases(
            (row.phrase, frozenset(row.kind.split())) for row in own_table("attributes")
        )
        tries = (self.phrases, self.sections, self.values, self.fillers, self.attributes)
        self.forms = Forms(self.keys.union(*(one.vocabulary for one in tries)))
        #: A word of each name, without which a sentence does not have it.
        self.name_words = frozenset(
            max(wording.split(), key=len) for row in self.names for wording in wordings(row.phrase)
        )


OWN = Lexicon()
