"""The tables in use: names of findings, cues, values and headings of reports, words of
attributes."""

from pathlib import Path

from pacer.data.findings import FINDINGS
from pacer.text.rules.tables import Forms, Phrases, Row, own_table, read_table, wordings

POSITIVE, NEGATIVE, UNCERTAIN = "positive", "negative", "uncertain"
_SIGNS = {"+": POSITIVE, "-": NEGATIVE, "?": UNCERTAIN}
#: The finding of an organ that is enlarged, widened or engorged.
_ENLARGED = {
    "heart": ("cardiomegaly",),
    "vessels": ("edema",),
    "mediastinum": ("enlarged mediastinum",),
    "both": ("cardiomegaly", "enlarged mediastinum"),
}


class Entry(Row):
    """A row of ``names.tsv`` or ``cues.tsv``, and what it says of findings."""

    def __init__(self, row: Row, is_name: bool):
        super().__init__(row.phrase, row.meaning, row.reach, row.example)
        #: The findings of a name or an organ; look-alikes have none.
        self.findings: tuple[str, ...] = ()
        #: The state of a name without a cue.
        self.base = POSITIVE
        #: The finding's state for each organ ("large": a positive one for the heart).
        self.values: dict[str, str] = {}
        if self.kind == "organ":
            self.findings = _ENLARGED.get(self.detail, ())
        elif self.kind == "state":
            pairs = [pair for pair in self.detail.split() if pair[-1] in _SIGNS]
            self.values = {pair[:-1]: _SIGNS[pair[-1]] for pair in pairs}
        elif is_name:
            self.kind = "name"
            first, _, others = row.meaning.partition(" ")
            self.base = {"no": NEGATIVE, "maybe": UNCERTAIN}.get(first, POSITIVE)
            named = {*(row.meaning if self.base == POSITIVE else others).split(" + ")}
            known = [finding for finding in FINDINGS if finding in named]
            self.findings = (*known, *sorted(named - {"nothing", *known}))


class Lexicon:
    """The tables in use.

    Args:
        more_findings: a table like ``names.tsv`` with names of further findings. Where both have a
            phrase, its row counts.
    """

    def __init__(self, more_findings: Path | None = None):
        further = read_table(more_findings) if more_findings else []
        self.names = [Entry(row, is_name=True) for row in own_table("names") + further]
        self.cues = [Entry(row, is_name=False) for row in own_table("cues")]
        self.phrases = Phrases((row.phrase, row) for row in self.names + self.cues)
        forms = own_table("forms")
        self.sections, self.values, self.fillers = (
            Phrases((row.phrase, row.detail or kind) for row in forms if row.kind == kind)
            for kind in ("section", "value", "filler")
        )
        self.keys = frozenset(row.phrase for row in forms if row.kind == "key")
        self.attributes = Phrases(
            (row.phrase, frozenset(row.meaning.split())) for row in own_table("attributes")
        )
        tries = (self.phrases, self.sections, self.values, self.fillers, self.attributes)
        self.forms = Forms(self.keys.union(*(one.vocabulary for one in tries)))

        #: A word of each name, without which a sentence does not have it.
        self.name_words = frozenset(
            max(wording.split(), key=len) for row in self.names for wording in wordings(row.phrase)
        )


OWN = Lexicon()
