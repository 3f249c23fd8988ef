"""The rules of the anchors as a plain loop, which tests compare :mod:`pacer.commitments.rules` with.

It shares the tables of surface patterns with ``pacer.commitments.rules`` and nothing else: every pattern is searched
for by itself in every sentence, no sentence is remembered, segmentation and scope are written independently.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from pacer.commitments.anchor import POLARITIES, Anchor
from pacer.commitments.rules.cues import CUES
from pacer.commitments.rules.mentions import FINDINGS_OF, MENTIONS, NORMALITY

_MENTIONS = [(pattern.name, re.compile(pattern.expression)) for pattern in MENTIONS]
_CUES = [(pattern.name, re.compile(pattern.expression)) for pattern in CUES]
_COURSES = re.compile(
    r" ((has|have) ((\w+ly|now|since) )?(increased|decreased|improved|worsened|progressed)"
    r"|((has|have) )?(developed|appeared|formed|accumulated)|(has|have) (\w+ly|now|since) (developed|appeared|formed"
    r"|accumulated)|now (seen|present|evident|visible|noted)"
    r"|(is|are|remain|remains|appear|appears) (\w+ly )?(stable|unchanged|increased|decreased|improved|larger|smaller"
    r"|persistent|similar|again|still|now|small|moderate|large|mild|severe|minimal|new|worse|better)|persist|persists"
    r"|(stable|unchanged|improved|worse|larger|smaller)(?=$| (from|since|compared|in|as|when|and)\b))\b"
)
_STEERS = {"exception", "clause", "statement", "degree"}
_SITED = re.compile(
    r"\b(left|right|bilateral|bas\w+|bibas\w+|retrocardiac|perihilar|apical|lobe|due|from|secondary|related|reflect\w*"
    r"|represent\w*)\b"
)
_VERBS = {"is", "are", "was", "were", "has", "have", "appear", "appears", "remain", "remains"}

#: A device's part before and after its name, a place that is spoken of, its placing.
_PARTS = r"(tip|tips|side ?ports?|side-ports?|side- ports?|side-? ?holes?|course"
_OF_PART = re.compile(
    rf"{_PARTS}|end|ends|position|malposition\w*) of( \w+){{0,4}}|kink\w* (of|in)( \w+){{0,4}}"
    r"|complications?( \w+){0,4}|side"
)
_NEXT_PART = re.compile(rf"( (line|tube|catheter|lead|distal|proximal))? {_PARTS})\b")
_PLACES = re.compile(
    r" (below|beyond|past|distal\w*|within|above|ends?|ending|(terminat|project|coil|curl|loop|locat|position)\w*"
    r"|(in|at)( the)?( \w+){0,2} (stomach|esophagus|oesophagus|svc|vena|(atri|ventric)\w+|duodenum|trachea|bronchus"
    r"|jejunum|junction|level|carina))\b"
)
_PLACING = re.compile(r"( (line|tube|catheter|lead))?[ -](placement|insertion|associated|related)\b")


class Span(NamedTuple):
    """A mention or cue in a sentence, and the name of its pattern."""

    start: int
    end: int
    name: str


def plain_anchor(report: str) -> Anchor:
    """What :func:`pacer.commitments.rules.extract.extract_anchor` gives."""
    verdict: dict[str, str] = {}
    for sentence in plain_sentences(report):
        for name, polarity in plain_mentions(sentence):
            for finding in FINDINGS_OF[name]:
                if polarity and verdict.get(finding, "negative") == "negative":
                    verdict[finding] = polarity
    return Anchor.of(**{state: [f for f in verdict if verdict[f] == state] for state in POLARITIES})


def plain_sentences(report: str) -> list[str]:
    """Lower case, cut at sentence ends, semicolons and paragraphs, without punctuation."""
    text = report.lower()
    if len(text) != len(report):
        text = "".join(letter if len(letter.lower()) > 1 else letter.lower() for letter in report)
    text = re.sub(r"(?<=\w\?)\s", "\0", text)
    text = re.sub(r"\n(?=\s*(\n|[-*•] |\d{1,2}[.)] ))", "\0", text).replace("!", "\0")
    parts, last = [], 0
    for mark in re.finditer(r"[.;\0]", text):
        place = mark.start()
        decimal = text[place + 1 : place + 2].isdecimal()
        abbreviated = mark[0] == "." and re.search(r"\b(vs ?|dr)$", text[max(0, place - 4) : place])
        if mark[0] == "\0" or not (decimal or abbreviated):
            parts.append(text[last:place])
            last = place + 1
    parts.append(text[last:])
    return [" ".join(re.sub(r'[,:/\\()\[\]{}"_*&+]', " ", part).split()) for part in parts]


def plain_mentions(sentence: str) -> list[tuple[str, str | None]]:
    """Name and polarity of every mention of a sentence."""
    mentions, cues = _search(sentence, _MENTIONS), _search(sentence, _CUES)
    return [(mention.name, _polarity(sentence, mentions, place, cues)) for place, mention in enumerate(mentions)]


def _search(sentence: str, table: list[tuple[str, re.Pattern[str]]]) -> list[Span]:
    """All matches of all patterns; of overlapping ones the first, then the one that stands earlier in the table."""
    matches = []
    for rank, (name, pattern) in enumerate(table):
        for match in pattern.finditer(f" {sentence}"):
            blank = match[0].startswith(" ")
            matches.append((match.start() - (not blank), rank, match.end() - 1, name))
    spans: list[Span] = []
    for start, _, end, name in sorted(matches):
        if not spans or start >= spans[-1].end:
            spans.append(Span(start, end, name))
    return spans


def _polarity(sentence: str, mentions: list[Span], place: int, cues: list[Span]) -> str | None:
    start, end, name = mentions[place]
    before = [cue for cue in cues if cue.start < end and not cue.name.endswith("_after")]
    after = [cue for cue in cues if cue.start >= end and not cue.name.endswith("_before")]
    for cue in cues:
        if cue.end <= start and cue.name == "clause":
            before = [other for other in before if other.start >= cue.end]
        if cue.end <= start and cue.name == "instead":
            before = [other for other in before if other.start >= cue.start]
    stops = [cue.start for cue in cues if cue.start >= end and cue.name in ("clause", "statement", "degree", "instead")]
    stops += [end + 60, _end_of_list(sentence, mentions, place)]
    after = [cue for cue in after if cue.start < min(stops)]
    for following in mentions[place + 1 : place + 2]:
        words = sentence[end : following.start].split()
        if any(word == "and" and words[at + 1 : at + 2] != ["or"] for at, word in enumerate(words)):
            after = [cue for cue in after if cue.name != "uncertain_between" or cue.start < following.end]
    before = [cue for cue in before if cue.start >= start - 150 and not _used_up(sentence, mentions, place, cue, cues)]
    if name == "device":
        before = [cue for cue in before if _meets_device(sentence, mentions, place, cue)]
        after = [cue for cue in after if _meets_device(sentence, mentions, place, cue)]
    places: dict[str, list[int]] = {kind: [] for kind in ("uncertain", "negative", "instead", "hint", "silent")}
    for cue in before + after:
        places.setdefault(cue.name.split("_")[0], []).append(cue.start)
    negative = places["negative"] + places["instead"]
    uncertain = places["uncertain"] or ([] if negative else places["hint"])
    if places["silent"] and max(uncertain or negative or [-1]) <= max(places["silent"]):
        return None
    if uncertain:
        return "uncertain"
    return "negative" if negative or name in NORMALITY else "positive"


def _end_of_list(sentence: str, mentions: list[Span], place: int) -> int:
    """Where the findings listed with a mention end: the list must hold a conjunction, or a second name of one thing."""
    joined = False
    for mention, following in zip(mentions[place:], mentions[place + 1 :], strict=False):
        between = sentence[mention.end : following.start]
        if not _listed(between):
            return following.start if joined else mentions[place + 1].start
        same = FINDINGS_OF[mention.name] == FINDINGS_OF[following.name]
        joined = joined or between.split()[:1] in (["or"], ["and"], ["nor"], ["andor"]) or (between == " " and same)
    return len(sentence) if joined or place == len(mentions) - 1 else mentions[place + 1].start


def _listed(between: str) -> bool:
    """May this stand between two findings of one list?"""
    words = between.split()
    rest = words[1:] if words and words[0] in ("or", "and", "nor", "andor") else words
    if not between.startswith(" ") or not between.endswith(" ") or len(rest) > 3:
        return False
    return all(
        re.fullmatch(r"[\w-]+", word) and not re.match(r"(is|are|no|but|there|the)\b|with", word) for word in rest
    )


def _list_goes_on(sentence: str, mentions: list[Span], cue: Span, degree: Span, cues: list[Span]) -> bool:
    """Is a degree word in the midst of the cue's list, with the first "or" of that list behind it?"""
    ends = [mention.end for mention in mentions if cue.end <= mention.start and mention.end <= degree.start]
    if not ends or not _listed(sentence[ends[-1] : degree.start]):
        return False
    if re.search(r"\b(and|or|nor|andor)\b", sentence[cue.end : degree.start]):
        return False
    place = degree.end
    for start, end, _ in [mention for mention in mentions if mention.end > degree.start]:
        between = sentence[place:start]
        if start > degree.start and not _listed(between):
            return False
        joined = re.search(r"\b(or|nor|andor)\b", between)
        if joined:
            stop = place + joined.start()
            others = [other for other in cues if degree.start < other.start < stop and other.name not in _STEERS]
            return not others and not _SITED.search(sentence[degree.start : stop])
        place = end
    return False


def _used_up(sentence: str, mentions: list[Span], place: int, cue: Span, cues: list[Span]) -> bool:
    """Has the cue met an earlier mention after which something new is stated?"""
    start, end, _ = mentions[place]
    if cue.end > start:
        return False
    earlier = [mention for mention in mentions[:place] if mention.start >= cue.end]
    for other in [other for other in cues if cue.end <= other.start <= start]:
        denial = other.name == "negative_before" and cue.name.split("_")[0] != "negative"
        goes_on = other.name == "degree" and _list_goes_on(sentence, mentions, cue, other, cues)
        new = other.name in ("statement", "degree") and not goes_on
        met = any(mention.end <= other.start for mention in earlier)
        if (new and met) or (denial and (met or sentence[cue.end : other.start].count(" ") > 2)):
            return True
    if earlier and _VERBS & set(sentence[start:end].split()[1:-1]):
        return True
    if earlier and _COURSES.match(sentence, end):
        return not re.search(r"\b(or|nor|andor)\b", sentence[earlier[-1].end : start])
    return False


def _meets_device(sentence: str, mentions: list[Span], place: int, cue: Span) -> bool:
    """Does a cue that reaches a device speak of the device, and not of its tip, its place or another finding?"""
    start, end, _ = mentions[place]
    last = mentions[place - 1] if place else None
    words = sentence[last.end if last else 0 : start].split()
    if cue.name.startswith("silent"):
        return True
    if any(_OF_PART.fullmatch(" ".join(words[first:])) for first in range(len(words))):
        return False
    if _NEXT_PART.match(sentence, end):
        return False
    if cue.start >= end:
        return not _PLACES.match(sentence, cue.end)
    if cue.name != "negative_before" or cue.end > start:
        return True
    if _PLACING.match(sentence, end):
        return False
    if last is None or last.name == "device" or last.end <= cue.end:
        return True
    return re.search(r"\b(or|nor|andor)\b", sentence[last.end : start]) is not None
