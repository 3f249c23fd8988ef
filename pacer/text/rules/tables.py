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
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
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
        self._root: dict = {}
        self.vocabulary: set[str] = set()
        for phrase, meaning in meanings:
            for wording in wordings(phrase):
                node = self._root
                for word in wording.split():
                    if word[0] == "~":
                        node = node.setdefault("~", {}).setdefault(int(word[1:]), {})
                    else:
                        node = node.setdefault(word, {})
                        self.vocabulary.add(word)
                node[""] = meaning

    def longest(self, words: Sequence[str], place: int) -> tuple[int, Any]:
        """Return the end and the meaning of the longest phrase that begins at a place; None if
        there is none."""
        if place < len(words) and (words[place] in self._root or "~" in self._root):
            return _longest(self._root, words, place)
        return place, None


def _longest(node: dict, words: Sequence[str], begin: int) -> tuple[int, Any]:
    end, meaning, last = begin, node.get(""), len(words)
    for place in range(begin, last + 1):
        for gap, behind in node["~"].items() if "~" in node else ():
            for skipped in range(min(gap, last - place) + 1):
                if skipped and words[place + skipped - 1] in MARKS:
                    break
                far, found = _longest(behind, words, place + skipped)
                if found is not None and far > end:
                    end, meaning = far, found
        node = node.get(words[place]) if place < last else None
        if node is None:
            break
        if "" in node and place + 1 >= end:
            end, meaning = place + 1, node[""]
    return end, meaning


#: Plural endings and British spellings, and what the tables have instead.
_ENDINGS = (("", ""), ("ies", "y"), ("ses", "sis"), ("ces", "x"), ("es", ""), ("s", ""))
_BRITISH = (("oe", "e"), ("ae", "e"), ("our", "or"), ("ise", "ize"), ("isation", "ization"))


class Forms(dict[str, str]):
    """The form in which the tables have a word: singular and American. Other words stay as they
    are."""

    def __init__(self, vocabulary: Iterable[str]):
        self._vocabulary = frozenset(vocabulary)

    def __missing__(self, word: str) -> str:
        american = word
        for british, spelling in _BRITISH:
            american = american.replace(british, spelling)
        forms = (
            form[: len(form) - len(ending)] + new
            for form in (word, american)
            for ending, new in _ENDINGS
            if form.endswith(ending)
        )
        self[word] = next((form for form in forms if form in self._vocabulary), word)
        return self[word]


#: Words and marks of a sentence. A dash between blanks is a mark; other dashes join words.
_TOKEN = re.compile(
    r"\d+(?:[.,:]\d+)*%?|[a-z0-9ø]+(?:'[a-z]+)?|[,/():?=|✓✗☐☒]|(?:(?<=\s)|^)[-–—]+(?=\s)"
)
#: Words without meaning here: articles, degrees, and what stands for a removed word.
_DROPPED = frozenset(("a", "an", "the", "xxxx", "very", "quite"))
_SHORTENED = {"ca": "can", "wo": "will"}


def tokens(sentence: str, forms: Forms) -> tuple[list[str], list[tuple[int, int]]]:
    """Return the words and marks of a sentence in lower case, and their places. A number is
    ``#``, a dash ``–``."""
    words, places = [], []
    for token in _TOKEN.finditer(sentence):
        word, place = token[0], token.span()
        if word in _DROPPED:
            continue
        if "'" in word:
            word = word.removesuffix("'s")
            if word.endswith("n't"):
                words.append(_SHORTENED.get(word[:-3], word[:-3]))
                places.append(place)
                word = "not"
        first = word[0]
        words.append("#" if "0" <= first <= "9" else "–" if first in "-–—" else forms[word])
        places.append(place)
    return words, places
