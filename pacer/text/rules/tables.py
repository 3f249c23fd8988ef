"""The tables of phrases, and the search for the longest phrase that begins at a word.

A table has one phrase a line, in lower case. ``{name}`` stands for any phrase of a group of
``words.tsv``, and ``~2`` for up to two words of any kind. Empty lines and lines that begin with
``#`` are skipped. Plurals and British spellings need no rows of their own.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from pacer.core.errors import DataError

#: Marks that no gap of a phrase skips.
MARKS = frozenset(",/():?=|–✓✗☐☒")
#: The reach of a cue without a limit, in words.
_FAR = 99


class Row:
    """A row of a table: a phrase, its meaning, its reach and an example.

    The meaning is a kind and a detail, with a colon between them. The reach says where a cue looks
    for findings: ``<`` before it, ``>`` behind it, ``>2`` at most two words behind it.
    """

    def __init__(self, phrase: str, meaning: str, reach: str = "", example: str = ""):
        self.phrase, self.meaning, self.reach, self.example = phrase, meaning, reach, example
        self.kind, _, self.detail = meaning.partition(":")
        before, _, after = reach.partition(">")
        self.before = int(before[1:] or _FAR) if "<" in before else 0
        self.after = int(after or _FAR) if ">" in reach else 0


def read_table(path: Path) -> list[Row]:
    """Return the rows of a table. Raises a DataError if a line does not have two to four
    columns."""
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").split("\n"), 1):
        if line and not line.startswith("#"):
            cells = line.split("\t")
            if not 2 <= len(cells) <= 4:
                raise DataError(
                    f"{path}, line {number}: {len(cells)} columns; expected a phrase and its "
                    "meaning, then its reach and an example, with tabs between them"
                )
            rows.append(Row(*cells))
    return rows


def own_table(name: str) -> list[Row]:
    """Return the rows of one of the package's tables."""
    return read_table(Path(__file__).with_name(f"{name}.tsv"))


@cache
def _groups() -> Mapping[str, Sequence[str]]:
    groups: dict[str, list[str]] = {}
    for row in own_table("words"):
        for words in row.meaning.split("|"):
            groups.setdefault(row.phrase, []).extend(_expanded(words, groups))
    return groups


def _expanded(phrase: str, groups: Mapping[str, Sequence[str]]) -> Iterator[str]:
    try:
        parts = [groups[word[1:-1]] if word[0] == "{" else [word] for word in phrase.split()]
    except KeyError as error:
        raise DataError(f"{phrase}: unknown group {error}; words.tsv has the groups") from None
    return map(" ".join, product(*parts))


def wordings(phrase: str) -> list[str]:
    """Return the phrases that a phrase with groups stands for."""
    return list(_expanded(phrase, _groups()))


class Phrases:
    """A trie of phrases. A node has the node behind each word, the nodes behind gaps by their
    length under ``"~"``, and under ``""`` the meaning of a phrase that ends there."""

    def __init__(self, meanings: Iterable[tuple[str, Any]]):
        self.root: dict = {}
        self.vocabulary: set[str] = set()
        for phrase, meaning in meanings:
            for wording in wordings(phrase):
                node = self.root
                for word in wording.split():
                    if word[0] == "~":
                        node = node.setdefault("~", {}).setdefault(int(word[1:]), {})
                    else:
                        node = node.setdefault(word, {})
                        self.vocabulary.add(word)
                node[""] = meaning
        self.root = _with_shared_ends(self.root, {})

    def longest(self, words: Sequence[str], place: int) -> tuple[int, Any]:
        """Return the end and the meaning of the longest phrase that begins at a place; None if
        there is none."""
        if place < len(words) and (words[place] in self.root or "~" in self.root):
            return _longest(self.root, words, place)
        return place, None


def _with_shared_ends(node: dict, known: dict) -> dict:
    """Return a trie in which equal nodes are one object: a tenth of the memory."""
    for word, behind in node.items():
        if isinstance(behind, dict):
            node[word] = _with_shared_ends(behind, known)
    return known.setdefault(tuple((word, id(behind)) for word, behind in node.items()), node)


def _longest(node: dict, words: Sequence[str], begin: int) -> tuple[int, Any]:
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
                    far, found = _longest(behind, words, place + skipped)
                    if found is not None and far > end:
                        end, meaning = far, found
        if place == last or words[place] not in node:
            return end, meaning
        node = node[words[place]]
        place += 1


#: Plural endings and British spellings, and what the tables have instead.
_ENDINGS = (("", ""), ("ies", "y"), ("ses", "sis"), ("ces", "x"), ("es", ""), ("s", ""))
_BRITISH = (("oe", "e"), ("ae", "e"), ("our", "or"), ("ise", "ize"), ("isation", "ization"))


class Forms(dict[str, str]):
    """The form of each token in the tables: singular and American. A number is ``#``, a dash ``–``;
    articles and what stands for a removed word are empty; a negated verb is two words, and so are
    two names that a cleaner has joined ("atelectasisscarring"), with the stroke between them."""

    def __init__(self, vocabulary: Iterable[str]):
        super().__init__(dict.fromkeys(("a", "an", "the", "xxxx", "very", "quite"), ""))
        self._vocabulary = frozenset(vocabulary)

    def __missing__(self, token: str) -> str:
        if not token[0].isalpha():
            return "#" if token[0].isdigit() else "–" if token[0] in "-–—" else token
        self[token] = self._known(token) or self._negated(token) or self._joined(token) or token
        return self[token]

    def _known(self, word: str) -> str | None:
        american = word
        for british, spelling in _BRITISH:
            american = american.replace(british, spelling)
        forms = (
            form[: len(form) - len(ending)] + new
            for form in (word, american)
            for ending, new in _ENDINGS
            if form.endswith(ending)
        )
        return next((form for form in forms if form in self._vocabulary), None)

    def _negated(self, word: str) -> str | None:
        if word.endswith("n't"):
            return f"{self[{'ca': 'can', 'wo': 'will'}.get(word[:-3], word[:-3])]} not"
        return self[word.removesuffix("'s")] if word.endswith("'s") else None

    def _joined(self, word: str) -> str | None:
        halves = ((word[:cut], word[cut:]) for cut in range(_HALF, len(word) - _HALF + 1))
        known = ((self._known(one), self._known(other)) for one, other in halves)
        return next((f"{one} / {other}" for one, other in known if one and other), None)


#: The shortest name that is looked for in words that a cleaner has joined, in letters.
_HALF = 7
#: Words and marks of a sentence. A dash between blanks is a mark; other dashes join words.
_TOKEN = re.compile(
    r"[a-zø][a-z0-9ø]*(?:'[a-z]+)?|\d+(?:[.,:]\d+)*%?|[,/():?=|✓✗☐☒]|(?:(?<=\s)|^)[-–—]+(?=\s)"
)


def words_of(sentence: str, forms: Forms) -> tuple[str, ...]:
    """Return the words and marks of a sentence in lower case, in the form of the tables."""
    return tuple(" ".join(map(forms.__getitem__, _TOKEN.findall(sentence))).split())


def places_of(sentence: str, forms: Forms) -> list[tuple[int, int]]:
    """Return the places of the words of a sentence."""
    places = []
    for token in _TOKEN.finditer(sentence):
        form = forms[token[0]]
        if form:
            places.append(token.span())
            if " " in form:
                places += [token.span()] * form.count(" ")
    return places
