"""Report cleaning, and sentences in raw and cleaned text.

Two cleaners follow upstream's rules exactly, and one leaves numbers as they are. All return the
form used for training and scoring: lower-case sentences, each followed by ``" ."``.

``upstream`` is LLM-RG4's cleaner for MIMIC. The paper scores "Clean NLG" on text in this form, so
every quirk is kept: ``1. `` is removed everywhere ("in 2021. New" becomes "in 202new"), decimals
lose their point, slashes join words, a space left by a removed underscore stays, and an empty
sentence stays as a space between two periods. Cleaning is not idempotent: do it once, at reading,
and never again.

``iu_xray`` is the cleaner of R2Gen, and of LLM-RG4 after it, for IU X-Ray (Open-I). It has the same
quirks with three differences: line breaks, underscores and runs of spaces are unchanged until
underscores are deleted; three passes shorten runs of periods; colons and ``< = > @`` are removed.

``decimals`` is for corpora that were never released in upstream's form. A mark within a number
stays (``2.5 cm``, ``1/2``, ``9:30``), the number of a list item is distinguished from a number that
ends a sentence, and no other mark joins two words or sentences when it is removed
(``cleaners.yaml``): a question mark and a slash between words become words, and the lines of a list
are sentences. All spaces are single, so that cleaning twice has no further effect.

Scores of different cleaners are not comparable.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from pacer.core.io import yaml_beside

#: (run, replacement, maximum number of passes). A run longer than 2**passes is not reduced to one
#: character.
_RUNS: tuple[tuple[str, str, int], ...] = (("__", "_", 7), ("  ", " ", 6), ("..", ".", 8))

#: Enumeration marks in the order of their removal.
_MARKS = [f". {number}. " for number in range(2, 6)] + [f" {number}. " for number in range(2, 6)]

_QUOTES_AND_SLASHES = str.maketrans("", "", "\"/\\'")
_PUNCTUATION = str.maketrans("", "", ".,?;*!%^&_+()[]{}")
#: IU X-Ray's character class contains the range ``:-\[``: these characters, and capitals, which are
#: already lower-case.
_IU_PUNCTUATION = _PUNCTUATION | str.maketrans("", "", ":<=>@")


def clean_report(text: str) -> str:
    """Return the report as lower-case sentences, each followed by ``" ."`` (``" ."`` for an empty
    text). The result equals that of LLM-RG4's MIMIC cleaner on every input."""
    text = text.replace("\n", " ")
    for run, single, times in _RUNS:
        while times and run in text:
            text = text.replace(run, single)
            times -= 1
    return _sentences(_without_marks(text).replace(":", " :"), _PUNCTUATION)


def clean_report_iu_xray(text: str) -> str:
    """Return the report in the form of :func:`clean_report`, by R2Gen's rules for IU X-Ray (the
    same in LLM-RG4). The result equals that of R2Gen's ``clean_report_iu_xray`` on every input."""
    for _ in range(3):
        text = text.replace("..", ".")
    return _sentences(_without_marks(text), _IU_PUNCTUATION)


def _without_marks(text: str) -> str:
    text = text.replace("1. ", "")
    for mark in _MARKS:
        text = text.replace(mark, ". ")
    return text


def _sentences(text: str, punctuation: dict[int, Any]) -> str:
    """Return the sentences in lower case, without quotes, slashes and ``punctuation``, each
    followed by ``" ."``."""
    sentences = [
        sentence.translate(_QUOTES_AND_SLASHES).strip()
        for sentence in text.strip().lower().split(". ")
    ]
    return " . ".join(sentence.translate(punctuation) for sentence in sentences) + " ."


#: The number of a list item: ``2.``, ``2)`` or ``(2)``. A letter may follow at once
#: ("2.Clear").
_ITEM = re.compile(r"(?<![\w.,/:(-])\(?(\d{1,2})[.)](?=\s|[^\W\d_]|$)")
#: A number as it is written: with its point or comma, or as a fraction or date.
_NUMBER = re.compile(r"(?:(?<![\w.])\.)?\d+(?:[.,/]\d+)*")
_TEXT = yaml_beside(__file__, "cleaners.yaml")
#: The replacements of ``decimals``, by table: the signs that a text needs, a pattern, and its
#: replacement.
_REPLACED: dict[str, list[tuple[list[str], re.Pattern[str], str]]] = {
    name: [
        (signs, re.compile(pattern, re.MULTILINE), new) for signs, pattern, new, *_ in _TEXT[name]
    ]
    for name in ("letters and bullets", "lines", "marks")
}
#: Pattern of each kind of mark by which a cleaner can change the meaning of a text.
MARKS: dict[str, str] = _TEXT["causes"]
#: Text whose longest line has fewer characters than this is a list; no paragraph is wrapped at so
#: few.
_NARROW = 50


def clean_report_decimals(text: str) -> str:
    """Return the report in the form of :func:`clean_report`, with its numbers as they are
    written."""
    lines = _replaced("lines", without_item_numbers(_replaced("letters and bullets", text)))
    if text != text.lower():
        # a sentence begins with a capital
        lines = re.sub(r"\n[ \t]*(?=(?!no )[a-z])", " ", lines)
    text = _replaced("marks", lines.replace("\n", ". " if _is_list(text) else " ")).lower()
    pieces = re.split(r"\.+(?:\s+|$)", re.sub(r"\.(?![\d\s.]|$)", "", text))
    sentences = [" ".join(piece.split()) for piece in pieces]
    return " . ".join(sentence for sentence in sentences if sentence) + " ."


def _replaced(table: str, text: str) -> str:
    for signs, pattern, new in _REPLACED[table]:
        if not signs or any(map(text.__contains__, signs)):
            text = pattern.sub(new, text)
    return text


def _is_list(text: str) -> bool:
    """Whether the line ends of a text are intended, rather than those of a wrapped paragraph: its
    lines are short, or the first word of the next line would have fitted into one of them."""
    lines = [line.strip() for line in text.split("\n")]
    width = max(map(len, lines))
    return width < _NARROW or any(
        line[-1] not in ".!?;" and len(line) + len(after.split()[0]) < width
        for line, after in pairwise(lines)
        if line and after
    )


def without_item_numbers(text: str) -> str:
    """Return a text without the numbers of list items: at its beginning, after the end of a line or
    sentence, and, if they continue a count, before a capital ("1. No edema 2. Clear")."""
    # add the space that is missing after a sentence
    text = re.sub(r"\.(?:(?<=[^\W\d_]\.)(?=\d)|(?<=\d\.)(?=[^\W\d_]{3}))", ". ", text)
    cased = text != text.lower()
    last_number = 0
    end = 0
    parts: list[str] = []
    for match in _ITEM.finditer(text):
        number = int(match[1])
        before = text[end : match.start()]
        after = text[match.end() : match.end() + 9].lstrip()
        text_before = before.rstrip()
        sign = text_before[-1:]
        space = before[len(text_before) :]
        begins = not sign or sign in ".!?;" or "\n" in space or (sign == ":" and number == 1)
        follows = (
            last_number > 0 and number == last_number + 1 and (after[:1].isupper() or not cased)
        )
        if begins or follows:
            parts += [text_before, " " if not sign or sign in ".!?;:" else ". "]
            last_number = number
            end = match.end()
    return "".join(parts) + text[end:]


def changed_number(raw: str, cleaned: str) -> str | None:
    """Return the first number of a report that its cleaned form lacks, or None. The numbers of list
    items do not count."""
    left = Counter(_NUMBER.findall(cleaned))
    for number in _NUMBER.findall(without_item_numbers(raw)):
        if not left[number]:
            return number
        left[number] -= 1
    return None


#: The report cleaners by name.
CLEANERS: Mapping[str, Callable[[str], str]] = {
    "upstream": clean_report,
    "iu_xray": clean_report_iu_xray,
    "decimals": clean_report_decimals,
}
#: Divides raw text into pieces; a piece can be a part of a sentence.
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
#: An abbreviation that does not end a sentence.
_UNFINISHED = re.compile(r"\b(?:Drs?|Mrs?|Ms|St|[Vv]s|[Aa]pprox|i\.e|e\.g)\.$")
#: A word too long to be an abbreviation, except for those above.
_WHOLE_WORD = re.compile(r"[A-Za-z]{5}[.!?]$")
_TIME_OF_DAY = re.compile(r"\b[AaPp]\.[Mm]\.$")  # ends a sentence only before a capital
_CLEANED_END = re.compile(r" \.(?= |$)")


def raw_sentences(text: str) -> list[str]:
    """Return the sentences of a raw text; the items of a list lose their numbers."""
    cased = text != text.lower()
    sentences: list[str] = []
    for piece in _SENTENCE_END.split(without_item_numbers(text).strip()):
        if sentences and _continues(sentences[-1], piece, cased):
            sentences[-1] += f" {piece}"
        else:
            sentences.append(piece)
    return sentences


def without_sentences(text: str, unwanted: Callable[[str], object]) -> str | None:
    """Return the sentences of a raw text that are not ``unwanted``, joined by single spaces; None
    if no text is left. If sentences are removed, the items of a list lose their numbers."""
    sentences = raw_sentences(text)
    wanted = [sentence for sentence in sentences if not unwanted(sentence)]
    joined = " ".join(_SENTENCE_END.split(text.strip()) if wanted == sentences else wanted)
    return joined if has_content(joined) else None


def _continues(sentence: str, piece: str, cased: bool) -> bool:
    """Whether a piece continues the preceding sentence. ``cased``: the text has capitals, so
    sentences begin with one."""
    begins_small = piece[:1].islower() or piece[:1].isdigit()
    is_after_time = _TIME_OF_DAY.search(sentence) is not None and not piece[:1].isupper()
    may_be_abbreviated = begins_small and _WHOLE_WORD.search(sentence) is None
    is_unfinished = _UNFINISHED.search(sentence) is not None
    return (cased and may_be_abbreviated) or is_after_time or is_unfinished


def has_content(text: str) -> bool:
    """Whether a text contains a letter or digit."""
    return any(character.isalnum() for character in text)


def sentence_ends(report: str) -> list[int]:
    """Return the end of each sentence of a cleaned report: after its ``" ."``; for the last, the
    end of the text. The space between two sentences belongs to the second."""
    ends = [match.end() for match in _CLEANED_END.finditer(report)]
    return ends if ends and ends[-1] == len(report) else [*ends, len(report)]


def token_marks(
    ends: Sequence[int], marked: Sequence[bool], token_ends: Sequence[int]
) -> list[float]:
    """Return emphasis as released (``new_scores``) for ``<s> report </s>``: 1.0 for every token
    whose last character is in a marked sentence, else 0.0; BOS and EOS are 0.0. Sentences end at
    ``ends`` (:func:`sentence_ends`), the tokens of the report, in ascending order, at
    ``token_ends``."""
    sentences = [min(bisect_left(ends, end), len(ends) - 1) for end in token_ends]
    return [0.0, *(float(marked[sentence]) for sentence in sentences), 0.0]
