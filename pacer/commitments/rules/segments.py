"""Segmentation of a report into lower-case sentences, clauses and items, with their positions in
the report."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from string import punctuation

from pacer.commitments.rules.plain import has_any, plain, substitute
from pacer.commitments.rules.table import ABBREVIATIONS, GROUPS

#: The segment that marks the start of an addendum.
ADDENDUM = "§"
#: Ends of segments; the name in a line of a name and its value.
_END, _PAIR = re.compile(GROUPS["end"]), re.compile(GROUPS["pair"])
#: Other punctuation becomes spaces, and all digits become 0, because no rule uses the value of a
#: number.
_SPACED = {*punctuation, *map(chr, range(32))} - set(".,;!?-='/()")
_PLAIN = str.maketrans(dict.fromkeys(_SPACED, " ") | dict.fromkeys("123456789", "0"))
_COMMAS = str.maketrans("()", ",,")
_LOOSE, _ASIDE, _HISTORY, _ADDENDUM, _NUMBERED, _PAIRS = (
    re.compile(GROUPS[name])
    for name in ("loose", "aside_section", "history", "addendum", "numbered", "pairs")
)
_DIVIDED, _HEDGED, _VALUES, _NORMAL, _BREAK, _DASH, _ITEM, _UNFINISHED = (
    re.compile(GROUPS[name])
    for name in (
        "divided",
        "hedged",
        "values",
        "value_normal",
        "break",
        "dash",
        "item",
        "unfinished",
    )
)
_PARENTHESIS, _BETWEEN_DASHES = (
    re.compile(GROUPS[name]) for name in ("parenthesis", "between_dashes")
)
_ABBREVIATION = re.compile(
    rf"(?<![^\s?/,])(?:{'|'.join(sorted(map(re.escape, ABBREVIATIONS), reverse=True))})(?![^\s/?,])"
)
_STROKE = re.compile(" ?(?P<stroke>/) ?")
#: A question mark before a word, whose name begins behind a space: "?mass".
_QUERY = re.compile(r"(?<!\S)\?(?=[a-z])")
#: First words of all abbreviations, with and without an adjacent comma.
_ABBREVIATED = frozenset(
    before + short.split()[0] + after
    for short in ABBREVIATIONS
    for before in ("", ",")
    for after in ("", ",")
)
#: A phrase between commas; a comma inside a number.
_PHRASE, _IN_NUMBER = re.compile(r"[^, ](?:[^,]*[^, ])?"), re.compile(r",(?=\d)")
_DASHED, _WORD = re.compile(r"\s*[-*]"), re.compile(r"\S+")
#: Maximum length of a line in a list of short lines; minimum width of wrapped text.
_ITEM_LENGTH, _WIDTH = 40, 30
#: A line break inside a sentence, and the first word (or its part before a hyphen) behind it.
_WRAP, _FIRST_WORD = re.compile(r"\n(?=[ \t]*[a-z\d(])(?<![.;:!?]\n)"), re.compile(r"[^\s-]*-?")
#: A text is searched for an addendum, for divided words, for values and so on only if it contains
#: one of these.
_HEADED = ("correct", "amend", "errat", "revis")
_IN_DIVIDED = ("\xad", "-\n", "'t", "snt ", "rent ", "dnt ", "cant ", "wont ")
_IN_VALUES = (":", "(", "|", "•", "\t", "?!", "+", "- ", "-ve", "-,", "-;", " 0 ", " 0,", " 0%")
_IN_HEDGED = ("likely", "bly)")
#: The same for texts with a comma.
_IN_LISTED_VALUES = (
    " no,",
    " yes,",
    "sent,",
    "tive,",
    "tain,",
    "mentioned,",
    " nil,",
    " none,",
    "neg,",
    "pos,",
)
_IN_LISTED_HEDGES = (
    "egarding ",
    "oncerning ",
    "as to ",
    "as for ",
    "as regards ",
    " to the q",
    " to your q",
    "suspected,",
    "sumed,",
    "vocal,",
    "vored,",
    "voured,",
    "ble,",
    "tful,",
    "excluded,",
)
_IN_ASIDES = (" -", ", which ", " far as ", ", as best ")
_IN_SERIES = (", resol", ", clear", ", disap", ", vanish", ", drain")


def located_segments(report: str) -> Iterator[tuple[str, Sequence[int]]]:
    """Yield the lower-case segments of a report that are not empty, without punctuation and spaces
    at their ends, and the place in the report of each of their characters."""
    text, origin = _normalise(report)
    begins = 0
    for end in (*_END.finditer(text), None):
        segment = text[begins : end.start() if end else None].rstrip()
        words = segment.lstrip()
        if words:
            last = begins + len(segment)
            places = origin[last - len(words) : last]
            if "(" in words or ")" in words:
                yield from _with_asides(words, places)
            else:
                yield words, places
        begins = end.end() if end else 0


def _with_asides(segment: str, places: Sequence[int]) -> Iterator[tuple[str, Sequence[int]]]:
    """Yield a segment without the statements in its brackets, then each of them. No cue reaches
    out of a statement such as "(the left is free of consolidation)", and none reaches in. Other
    brackets become commas."""
    main, origin, asides, begins = "", list[int](), [], 0
    for aside in _PARENTHESIS.finditer(segment):
        start, end = aside.span("aside")
        main += segment[begins:start]
        origin += places[begins:start]
        asides.append((aside["aside"], places[start:end]))
        begins = aside.end()
    main += segment[begins:]
    origin += places[begins:]
    for text, where in [(main, origin), *asides]:
        words = text.translate(_COMMAS).lstrip(" ,")
        first = len(text) - len(words)
        words = words.rstrip(" ,")
        if words:
            yield words, where[first : first + len(words)]


def expand_abbreviations(segment: str) -> tuple[str, Sequence[int], list[int]]:
    """Write the abbreviations of a segment in full, strokes without spaces, and commas and
    consecutive spaces as one space. Return the text, the place in the segment of each of its
    characters, and where the commas stood."""
    words = segment.split()
    text = " ".join(words)
    places: Sequence[int] = range(len(text))
    if text != segment:
        places = _places_of_words(segment)
    if "/" in text or "?" in text or not _ABBREVIATED.isdisjoint(words):
        text, places = substitute(
            _ABBREVIATION, lambda short: ABBREVIATIONS[short[0]], text, places
        )
        text, places = substitute(_STROKE, lambda _: "/", text, places)
        text, places = substitute(_QUERY, lambda _: "? ", text, places)
    if "," not in text:
        return text, places, []
    expanded, origin, commas = "", list[int](), list[int]()
    for phrase in _PHRASE.finditer(text):
        if expanded:
            commas.append(len(expanded))
            expanded += " "
        origin += places[phrase.start() - bool(commas) : phrase.end()]
        expanded += phrase[0]
    return expanded, origin, commas


def _unwrapped(report: str) -> str:
    """Join the lines of a report that an editor has wrapped: before each break there is no room for
    the next word. A line that needs another goes on, too ("Bones: no")."""
    if _PAIRS.fullmatch(report):
        return report
    report = _UNFINISHED.sub(_joined, report)
    lines = [line.strip() for line in report.split("\n")]
    width = max(map(len, lines))
    if width >= _WIDTH and all(
        not line or not after or len(line) + 1 + _first_length(after) > width
        for line, after in pairwise(lines)
    ):
        report = _WRAP.sub(" ", report)
    return report


def _joined(end: re.Match[str]) -> str:
    """Return the end of a line that goes on, without its break: a label gets a colon."""
    bare = end.lastgroup in ("named", "organ") and ":" not in end[0]
    return end[0].replace("\n", ":" if bare else " ")


def _first_length(line: str) -> int:
    word = _FIRST_WORD.match(line)
    return len(word[0]) if word else 0


def _places_of_words(segment: str) -> list[int]:
    """Return the places of the words of a segment and of one space between them."""
    places = list[int]()
    for word in _WORD.finditer(segment):
        if places:
            places.append(places[-1] + 1)
        places += range(*word.span())
    return places


def _normalise(report: str) -> tuple[str, Sequence[int]]:
    """Lower-case a report, mark ends of segments, replace punctuation and digits; return the places
    of letters too."""
    if "\n" in report:
        report = _unwrapped(report)
    text, places = plain(report)
    dashed = _DASHED.match(text)
    if "\n" in text and _PAIRS.fullmatch(text):
        text, places = substitute(_PAIR, lambda pair: pair["name"] + ":", text, places)
    if ":" in text:
        text = _ASIDE.sub(_end, text)
    if "istory" in text or "h/o" in text or "hx" in text:
        text = _HISTORY.sub(_end, text)
    if (
        "\n" in text
        or "?" in text
        or ":" in text
        or " -" in text
        or ("," in text and has_any(text, _IN_SERIES))
    ):
        text = _BREAK.sub(_end, text)
    if ") " in text:
        text = _NUMBERED.sub(_end, text)
    if dashed:
        text = _DASH.sub(_end, text)
    if text.count("\n") > 1 and max(map(len, text.splitlines())) <= _ITEM_LENGTH:
        text = _ITEM.sub(_end, text)
    lower = text.lower()
    if len(lower) != len(text):  # a few capitals become two characters in lower case
        lower = "".join(letter.lower() if len(letter.lower()) == 1 else letter for letter in text)
    if "addend" in lower or (":" in lower and has_any(lower, _HEADED)):
        lower = _ADDENDUM.sub(lambda heading: f"!{ADDENDUM}!".ljust(len(heading[0])), lower)
    if has_any(lower, _IN_ASIDES):
        lower = _BETWEEN_DASHES.sub(_bracketed, lower)
    if has_any(lower, _IN_DIVIDED):
        lower, places = substitute(_DIVIDED, _edited, lower, places)
    has_comma = "," in lower
    if has_any(lower, _IN_HEDGED) or (has_comma and has_any(lower, _IN_LISTED_HEDGES)):
        lower, places = substitute(_HEDGED, _edited, lower, places)
    if "=" in lower:  # the rules write their own sign before values
        lower = lower.replace("=", ":")
    if has_any(lower, _IN_VALUES) or (has_comma and has_any(lower, _IN_LISTED_VALUES)):
        lower, places = substitute(_VALUES, _edited, lower, places)
    if "-" in lower or "'" in lower or "?" in lower:
        lower = _LOOSE.sub(_loose, lower)
    if "," in lower:
        lower = _IN_NUMBER.sub(" ", lower)
    return lower.translate(_PLAIN), places


def _loose(mark: re.Match[str]) -> str:
    """Return the replacement of a loose mark: a comma for a dash after a space, else a space."""
    return (
        ","
        if mark[0] == "-" and mark.string[max(0, mark.start() - 1) : mark.start()].isspace()
        else " "
    )


def _bracketed(words: re.Match[str]) -> str:
    """Return words between dashes or commas in brackets, at the same places."""
    first, last = words.span("aside")
    return "(".rjust(first - words.start()) + words["aside"] + ")".ljust(words.end() - last)


def _end(gap: re.Match[str]) -> str:
    """Return the mark of a segment's end, padded to the length of the text that it replaces."""
    return "!".ljust(len(gap[0]))


def _edited(match: re.Match[str]) -> str:
    kind, words = match.lastgroup, match[match.lastgroup or 0]
    if kind in ("joined", "label"):
        return " " * (kind == "label")
    if kind == "verb":
        return {"ca": "can", "wo": "will"}.get(words, words) + " not"
    if kind in ("hedge", "last"):  # "suspected, the film" hedges no film
        return words + " here" + match[0][-1]
    if kind == "zero":  # a measure: "now 0 cm"
        return "nil"
    if kind in ("each", "head", "asked"):
        return words + {"each": "!", "head": "= ", "asked": "?!"}[kind]
    words = words.strip("() ")
    if kind == "sign":
        return "no " if words[0] == "-" else "! "
    if _NORMAL.fullmatch(words):  # "heart size: normal" is a name that denies
        return f" {words} =normal!"
    return f" ={'+' if words[0] == '1' else words}!"
