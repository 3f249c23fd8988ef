"""The rules of the anchors as a plain loop: every pattern by itself, on every sentence of every report.

For each finding by itself, the sentences are searched for its names; one that has some is read in full (all names,
because scope depends on the other findings, and all cues). The loop shares the tables of surface patterns with
``pacer/rules`` and nothing else: no look-up by word, no memory of sentences, its own segmentation and its own reading
of scope. `bench/anchors.py` times it, and the tests hold the extractor to its output.
"""

from __future__ import annotations

import re

from pacer.anchors.anchor import Anchor
from pacer.anchors.vocabulary import FINDINGS
from pacer.rules.cues import CUES
from pacer.rules.mentions import FINDINGS_OF, MENTIONS, NORMALITY

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


def plain_anchor(report: str) -> Anchor:
    """What :func:`pacer.rules.extract.extract_anchor` gives."""
    sentences = plain_sentences(report)
    fields: dict[str, list[str]] = {"positive": [], "negative": [], "uncertain": []}
    for finding in FINDINGS:
        own = [pattern for name, pattern in _MENTIONS if finding in FINDINGS_OF[name]]
        denied, decided = False, None
        for sentence in sentences:
            if decided or not any(pattern.search(f" {sentence}") for pattern in own):
                continue
            for name, polarity in plain_mentions(sentence):
                if decided or finding not in FINDINGS_OF[name] or polarity is None:
                    continue
                if polarity == "negative":
                    denied = True
                else:
                    decided = polarity
        state = decided or ("negative" if denied else None)
        if state:
            fields[state].append(finding)
    return Anchor(*(tuple(fields[name]) for name in ("positive", "negative", "uncertain")))


def shared_pass(report: str) -> None:
    """A loop that reads each sentence once for all findings, the frugal form of the plain loop; for timing alone."""
    for sentence in plain_sentences(report):
        plain_mentions(sentence)


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
    return [(mention[2], _polarity(sentence, mentions, place, cues)) for place, mention in enumerate(mentions)]


def _search(sentence: str, table: list[tuple[str, re.Pattern[str]]]) -> list[tuple[int, int, str]]:
    """All matches of all patterns; of overlapping ones the first, then the one that stands earlier in the table."""
    found = []
    for rank, (name, pattern) in enumerate(table):
        for match in pattern.finditer(f" {sentence}"):
            blank = match[0].startswith(" ")
            found.append((match.start() - (not blank), rank, match.end() - 1, name))
    kept: list[tuple[int, int, str]] = []
    for start, _, end, name in sorted(found):
        if not kept or start >= kept[-1][1]:
            kept.append((start, end, name))
    return kept


def _polarity(sentence: str, mentions: list, place: int, cues: list) -> str | None:
    start, end, name = mentions[place]
    before = [cue for cue in cues if cue[0] < end and not cue[2].endswith("_after")]
    after = [cue for cue in cues if cue[0] >= end and not cue[2].endswith("_before")]
    for cue in cues:
        if cue[1] <= start and cue[2] == "clause":
            before = [other for other in before if other[0] >= cue[1]]
        if cue[1] <= start and cue[2] == "instead":
            before = [other for other in before if other[0] >= cue[0]]
    stops = [cue[0] for cue in cues if cue[0] >= end and cue[2] in ("clause", "statement", "degree", "instead")]
    stops += [end + 60, _end_of_list(sentence, mentions, place)]
    after = [cue for cue in after if cue[0] < min(stops)]
    for following in mentions[place + 1 : place + 2]:
        words = sentence[end : following[0]].split()
        if any(pair[0] == "and" and pair[1:] != ["or"] for pair in (words[i : i + 2] for i in range(len(words)))):
            after = [cue for cue in after if cue[2] != "uncertain_between" or cue[0] < following[1]]
    before = [cue for cue in before if cue[0] >= start - 150 and not _used_up(sentence, mentions, place, cue, cues)]
    if name == "device":
        before = [cue for cue in before if _meets_device(sentence, mentions, place, cue)]
        after = [cue for cue in after if _meets_device(sentence, mentions, place, cue)]
    said = [(cue[0], cue[2].split("_")[0]) for cue in before + after]
    uncertain = [where for where, kind in said if kind == "uncertain"]
    negative = [where for where, kind in said if kind in ("negative", "instead")]
    hints = [where for where, kind in said if kind == "hint"]
    silent = [where for where, kind in said if kind == "silent"]
    if not uncertain and not negative:
        uncertain = hints
    if silent and not [where for where in (uncertain or negative) if where > max(silent)]:
        return None
    if uncertain:
        return "uncertain"
    return "negative" if negative or name in NORMALITY else "positive"


def _end_of_list(sentence: str, mentions: list, place: int) -> int:
    """Where the findings listed with a mention end: the list must hold a conjunction, or a second name of one thing."""
    joined, at = False, place
    while at + 1 < len(mentions):
        between = sentence[mentions[at][1] : mentions[at + 1][0]]
        if not _listed(between):
            break
        conjunction = between.split()[:1] in (["or"], ["and"], ["nor"], ["andor"])
        same = FINDINGS_OF[mentions[at][2]] == FINDINGS_OF[mentions[at + 1][2]]
        joined = joined or conjunction or (between == " " and same)
        at += 1
    if at + 1 == len(mentions):
        return len(sentence) if joined or at == place else mentions[place + 1][0]
    return mentions[at + 1][0] if joined else mentions[place + 1][0]


def _listed(between: str) -> bool:
    """May this stand between two findings of one list?"""
    words = between.split()
    rest = words[1:] if words and words[0] in ("or", "and", "nor", "andor") else words
    if not between.startswith(" ") or not between.endswith(" ") or len(rest) > 3:
        return False
    return all(
        re.fullmatch(r"[\w-]+", word) and not re.match(r"(is|are|no|but|there|the)\b|with", word) for word in rest
    )


def _list_goes_on(sentence: str, mentions: list, cue: tuple, degree: tuple, cues: list) -> bool:
    """Is a degree word in the midst of the cue's list, with the first "or" of that list behind it?"""
    begin, place, _ = degree
    ends = [mention[1] for mention in mentions if cue[1] <= mention[0] and mention[1] <= begin]
    if not ends or not _listed(sentence[ends[-1] : begin]):
        return False
    if re.search(r"\b(and|or|nor|andor)\b", sentence[cue[1] : begin]):
        return False
    for start, end, _ in [mention for mention in mentions if mention[1] > begin]:
        between = sentence[place:start]
        if start > begin and not _listed(between):
            return False
        joined = re.search(r"\b(or|nor|andor)\b", between)
        if joined:
            stop = place + joined.start()
            spoken = [other for other in cues if begin < other[0] < stop and other[2] not in _STEERS]
            return not spoken and not _SITED.search(sentence[begin:stop])
        place = end
    return False


def _used_up(sentence: str, mentions: list, place: int, cue: tuple, cues: list) -> bool:
    """Has the cue met an earlier mention after which something new is stated?"""
    start, end, _ = mentions[place]
    if cue[1] > start:
        return False
    earlier = [mention for mention in mentions[:place] if mention[0] >= cue[1]]
    for begin, last, kind in cues:
        denial = kind == "negative_before" and cue[2].split("_")[0] != "negative"
        spoken_of = [m for m in earlier if m[1] <= begin] or (denial and sentence[cue[1] : begin].count(" ") > 2)
        new = kind == "statement" or (
            kind == "degree" and not _list_goes_on(sentence, mentions, cue, (begin, last, kind), cues)
        )
        if cue[1] <= begin <= start and (denial or new) and spoken_of:
            return True
    if earlier and _VERBS & set(sentence[start:end].split()[1:-1]):
        return True
    if earlier and _COURSES.match(sentence, end):
        return not re.search(r"\b(or|nor|andor)\b", sentence[earlier[-1][1] : start])
    return False


def _meets_device(sentence: str, mentions: list, place: int, cue: tuple) -> bool:
    """Does a cue that reaches a device speak of the device, and not of its tip, its place or another finding?"""
    start, end, _ = mentions[place]
    last = mentions[place - 1] if place else None
    words = sentence[last[1] if last else 0 : start].split()
    part = any(_OF_PART.fullmatch(" ".join(words[first:])) for first in range(len(words)))
    if cue[2].startswith("silent"):
        return True
    if part or _NEXT_PART.match(sentence, end):
        return False
    if cue[0] >= end:
        return not _PLACES.match(sentence, cue[1])
    if cue[2] != "negative_before" or cue[1] > start:
        return True
    if _PLACING.match(sentence, end):
        return False
    listed = last is None or last[2] == "device" or last[1] <= cue[1]
    return listed or not {"or", "nor", "andor"}.isdisjoint(re.findall(r"\w+", sentence[last[1] : start]))
