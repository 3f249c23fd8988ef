"""The tables of phrases, the search for the longest phrase at a word, and the words of a
sentence.

A table has one phrase a line, in lower case. ``{name}`` stands for any phrase of a group of
``words.tsv``, and ``~2`` for up to two words of any kind. Empty lines and lines that begin with
``#`` are skipped. Plurals and British spellings need no rows of their own.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from pacer.core.errors import DataError

#: Marks that no gap of a phrase skips.
MARKS = frozenset(",/():?=|–✓✗☐☒")
POSITIVE, NEGATIVE, UNCERTAIN = "positive", "negative", "uncertain"
#: The state of a value that states nothing.
UNKNOWN = "unknown"
_SIGNS = {"+": POSITIVE, "-": NEGATIVE, "?": UNCERTAIN}
#: The finding of an organ that is enlarged, widened or engorged.
_ENLARGED = {
    "heart": ("cardiomegaly",),
    "vessels": ("edema",),
    "mediastinum": ("enlarged mediastinum",),
    "both": ("cardiomegaly", "enlarged mediastinum"),
}
#: The reach of a cue without a limit, in words.
_FAR = 99


class Row:
    """A row of a table: a phrase, its meaning, its reach and an example.

    The meaning is a kind and a detail, with a colon between them. The reach says where a cue looks
    for findings: ``<`` before it, ``>`` behind it, ``>2`` at most two words behind it.
    """

    def __init__(self, phrase: str, meaning: str, reach: str = "", example: str = ""):
        self.phrase, self.example = phrase, example
        self.kind, _, self.detail = meaning.partition(":")
        before, _, after = reach.partition(">")
        self.before = int(before[1:] or _FAR) if "<" in before else 0
        self.after = int(after or _FAR) if ">" in reach else 0
        #: The findings of a name or an organ; look-alikes have none.
        self.findings: tuple[str, ...] = ()
        #: The state of a name without a cue.
        self.base = POSITIVE
        #: The states of organs: "heart+" is a positive one of the heart's finding.
        self.values: dict[str, str] = {}
        if self.kind == "organ":
            self.findings = _ENLARGED.get(self.detail, ())
        elif self.kind == "state":
            self.values = {one[:-1]: _SIGNS[one[-1]] for one in self.detail.split()}
        elif self.kind == "name":
            sign, names = self.detail[:1], self.detail
            if sign in _SIGNS:
                self.base, names = _SIGNS[sign], names[2:]
            self.findings = tuple(name for name in names.split(" + ") if name != "nothing")


def read_table(path: Path, kind: str = "") -> list[Row]:
    """Return the rows of a table. Raises a DataError if a line does not have two to four columns.

    Args:
        kind: the kind of the meanings that have none.
    """
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").split("\n"), 1):
        if line and not line.startswith("#"):
            cells = line.split("\t")
            if not 2 <= len(cells) <= 4:
                raise DataError(
                    f"{path}, line {number}: {len(cells)} columns; expected a phrase and its "
                    "meaning, then its reach and an example, with tabs between them"
                )
            if kind and ":" not in cells[1]:
                cells[1] = f"{kind}:{cells[1]}"
            rows.append(Row(*cells))
    return rows


def own_table(name: str, kind: str = "") -> list[Row]:
    """Return the rows of one of the package's tables."""
    return read_table(Path(__file__).with_name(f"{name}.tsv"), kind)


def wordings(phrase: str) -> list[str]:
    """Return the phrases that a phrase with groups stands for. Raises a DataError if there is no
    such group."""
    choices = []
    for word in phrase.split():
        choices.append([word] if word[0] != "{" else _GROUPS.get(word[1:-1], []))
        if not choices[-1]:
            raise DataError(f"{phrase}: unknown group {word}; words.tsv has the groups")
    return [" ".join(words) for words in product(*choices)]


_GROUPS: dict[str, list[str]] = {}
for _row in own_table("words", "words"):
    for _words in _row.detail.split("|"):
        _GROUPS.setdefault(_row.phrase, []).extend(wordings(_words))


def trie(meanings: Iterable[tuple[str, Any]]) -> dict:
    """Return a trie of phrases. A node has the node behind each word, the nodes behind gaps by
    their length under ``"~"``, and under ``""`` the meaning of a phrase that ends there."""
    root: dict = {}
    for phrase, meaning in meanings:
        for wording in wordings(phrase):
            node = root
            for word in wording.split():
                if word[0] == "~":
                    node = node.setdefault("~", {}).setdefault(int(word[1:]), {})
                else:
                    node = node.setdefault(word, {})
            node[""] = meaning
    return _with_shared_ends(root, {})


def _with_shared_ends(node: dict, known: dict) -> dict:
    """Return a trie in which equal nodes are one object: a tenth of the memory."""
    for word, behind in node.items():
        if isinstance(behind, dict):
            node[word] = _with_shared_ends(behind, known)
    return known.setdefault(tuple((word, id(behind)) for word, behind in node.items()), node)


def longest(node: dict, words: Sequence[str], begin: int) -> tuple[int, Any]:
    """Return the end and the meaning of the longest phrase of a trie that begins at a place; None
    if there is none."""
    place, last = begin, len(words)
    end, meaning = begin, None
    while True:
        if "" in node and place >= end:
            end, meaning = place, node[""]
        if "~" in node:
            for gap, behind in node["~"].items():
                for skipped in range(min(gap, last - place) + 1):
                    if skipped and words[place + skipped - 1] in MARKS:
                        break
                    far, found = longest(behind, words, place + skipped)
                    if found is not None and far > end:
                        end, meaning = far, found
        if place == last or words[place] not in node:
            return end, meaning
        node = node[words[place]]
        place += 1


#: Plural endings and British spellings, and what the tables have instead.
_ENDINGS = (("ies", "y"), ("ses", "sis"), ("ces", "x"), ("es", ""), ("s", ""))
_BRITISH = (("oe", "e"), ("ae", "e"), ("our", "or"), ("ise", "ize"), ("isation", "ization"))


#: The verbs of "isn't", "don't" and so on, which are words by themselves.
_BEFORE_NOT = {
    f"{verb}n": verb for verb in ("is", "are", "was", "were", "has", "do", "does", "did")
}


class Forms(dict[str, str]):
    """The form of each token in the tables: singular and American. A dash is ``–``, and articles
    and what stands for a removed word are empty. Two names that a cleaner has joined
    ("atelectasisscarring") are two words, with the stroke between them."""

    def __init__(self, vocabulary: Iterable[str]):
        super().__init__({word: word for word in vocabulary}, **_BEFORE_NOT)
        self._vocabulary = frozenset(self)
        self.update(dict.fromkeys(("a", "an", "the", "xxxx", "very", "quite", "'s"), ""))
        self["'t"] = "not"

    def __missing__(self, token: str) -> str:
        if token[0].isdigit():
            return _number(token)
        if not token[0].isalpha():
            return "–" if token[0] in "-–—" else token
        self[token] = self._known(token) or self._joined(token) or token
        return self[token]

    def _known(self, word: str) -> str | None:
        american = word
        for british, spelling in _BRITISH:
            american = american.replace(british, spelling)
        for form in (word, american):
            if form in self._vocabulary:
                return form
            for ending, new in _ENDINGS if form[-1] == "s" else ():
                if form.endswith(ending):
                    singular = form.removesuffix(ending) + new
                    if singular in self._vocabulary:
                        return singular
        return None

    def _joined(self, word: str) -> str | None:
        halves = ((word[:cut], word[cut:]) for cut in range(_HALF, len(word) - _HALF + 1))
        known = (map(self._known, both) for both in halves)
        return next((f"{one} / {other}" for one, other in known if one and other), None)


_FIRST_NUMBER = re.compile("[,:%]")


def _number(token: str) -> str:
    """Return what stands for a number: 0, 1, a low or high share, or any other."""
    first = _FIRST_NUMBER.split(token)[0]
    if first.count(".") > 1:  # a date, as in 03.07.2024
        return "#"
    share = float(first) / (100 if token[-1] == "%" else 1)
    if share in (0, 1):
        return "01"[int(share)]
    if share > 1:
        return "#"
    return "%high" if share >= 0.5 else "%low"


#: The shortest name that is looked for in words that a cleaner has joined, in letters.
_HALF = 7
#: Words and marks of a sentence. A dash between blanks is a mark; other dashes join words.
_TOKEN = re.compile(
    r"[a-zø][a-z0-9ø]*|'[st]\b|\d+(?:[.,:]\d+)*%?|[,/():?=|✓✗☐☒]|(?:(?<=\s)|^)[-–—]+(?=\s)"
)


def words_of(sentence: str, forms: Forms) -> tuple[str, ...]:
    """Return the words and marks of a sentence in lower case, in the form of the tables."""
    return tuple(" ".join(map(forms.__getitem__, _TOKEN.findall(sentence))).split())


def places_of(sentence: str, words: Sequence[str], forms: Forms) -> list[tuple[int, int]]:
    """Return the places of the words of a sentence."""
    places = [token.span() for token in _TOKEN.finditer(sentence) if forms[token[0]]]
    if len(places) == len(words):
        return places
    return [token.span() for token in _TOKEN.finditer(sentence) for _ in forms[token[0]].split()]


class Lexicon:
    """The tables in use: names of findings, cues, values, headings, words of attributes.

    Args:
        more_findings: a table like ``names.tsv`` with names of further findings. Where both have a
            phrase, its row counts.
    """

    def __init__(self, more_findings: Path | None = None):
        self.names = own_table("names", "name")
        self.names += read_table(more_findings, "name") if more_findings else []
        cues, forms, attributes = map(own_table, ("cues", "forms", "attributes"))
        self.phrases = trie((row.phrase, row) for row in self.names + cues)
        self.sections, self.values, self.fillers = (
            trie((row.phrase, row.detail or kind) for row in forms if row.kind == kind)
            for kind in ("section", "value", "filler")
        )
        #: Words that only announce a value ("status: absent").
        self.keys = {row.phrase for row in forms if row.kind == "key"}
        self.attributes = trie((row.phrase, frozenset(row.kind.split())) for row in attributes)
        rows = [*self.names, *cues, *forms, *attributes]
        self.forms = Forms(" ".join(text for row in rows for text in wordings(row.phrase)).split())
        #: A word of each name, without which a sentence does not have it.
        self.name_words = {
            max(text.split(), key=len) for row in self.names for text in wordings(row.phrase)
        }


OWN = Lexicon()
