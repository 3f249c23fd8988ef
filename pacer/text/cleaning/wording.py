"""Rules for wording in raw or cleaned chest radiograph reports that presupposes a previous
examination.

A report written without a previous examination should not contain such wording: "unchanged" would
refer to nothing. History is not a comparison ("status post sternotomy", "old fracture", "chronic"),
nor is the present state ("increased interstitial markings", "decreased lung volumes"), a statement
that no earlier examination is available, or follow-up advice.

The phrases are in ``wording.yaml``. They form one alternation. Phrases without comparison come
first and so mask the words inside them ("in stable condition" masks "stable").
"""

import re
from functools import lru_cache
from itertools import chain

from pacer.core.io import yaml_beside

#: The fragments, the phrases without comparison by kind, and the phrases of each rule.
_TEXT = yaml_beside(__file__, "wording.yaml")
_FRAGMENTS: dict[str, str] = {}


def _whole(phrase: str) -> str:
    """Join a phrase of ``wording.yaml`` to one line and insert its fragments."""
    return re.sub(r"<(\w+)>", lambda match: _FRAGMENTS[match[1]], phrase.replace("\n", ""))


for _name, _fragment in _TEXT["fragments"].items():
    _FRAGMENTS[_name] = _whole(_fragment)

#: Phrases that contain a word of comparison but make no comparison.
_NO_COMPARISON = [
    _whole(phrase) for phrases in _TEXT["no comparison"].values() for phrase in phrases
]
#: Name and phrases of each rule.
_RULES: dict[str, list[str]] = {
    name: [*map(_whole, phrases)] for name, phrases in _TEXT["rules"].items()
}
#: The rule of each group in the pattern; phrases without comparison have no group.
_RULE_OF_GROUP = {f"rule{number}": name for number, name in enumerate(_RULES)}
#: All phrases begin with a letter or digit, so the search can skip the ends of words.
_PATTERN = re.compile(
    rf"\b(?=\w)(?:{'|'.join(_NO_COMPARISON)}|"
    + "|".join(f"(?P<{group}>{'|'.join(_RULES[name])})" for group, name in _RULE_OF_GROUP.items())
    + ")"
)

_SENTENCE_END = re.compile(r"(?<=\.) ")


def prior_wording(text: str) -> tuple[str, ...]:
    """Return the rules that match in a raw or cleaned report ("comparison", "unchanged", "again"),
    each once, in order of their first match."""
    normal = " ".join(text.split()).lower()  # as in :func:`find_wording`
    # no phrase goes on after a full stop, and sentences occur again and again
    return tuple(dict.fromkeys(chain.from_iterable(map(_rules_in, _SENTENCE_END.split(normal)))))


@lru_cache(100_000)
def _rules_in(sentence: str) -> tuple[str, ...]:
    """Return the rules that match in a sentence with its full stop."""
    matches = _PATTERN.finditer(sentence)
    return tuple(_RULE_OF_GROUP[match.lastgroup] for match in matches if match.lastgroup)


def find_wording(text: str) -> list[tuple[int, int, str]]:
    """Return (start, end, rule) of each match: ``text[start:end]`` is the phrase, to the end of its
    last word."""
    normal = ""
    places: list[int] = []
    for word in re.finditer(r"\S+", text):
        if places:
            normal += " "
            places.append(places[-1] + 1)
        lowered = word[0].lower()  # can be longer than the word
        normal += lowered
        places += [min(word.start() + at, word.end() - 1) for at in range(len(lowered))]
    phrases = []
    for match in _PATTERN.finditer(normal):
        if match.lastgroup is not None:
            end = places[match.end() - 1] + 1
            # a match can end within a number or before a suffix
            while end < len(text) and text[end].isalnum():
                end += 1
            phrases.append((places[match.start()], end, _RULE_OF_GROUP[match.lastgroup]))
    return phrases


def compares_with_prior(text: str) -> bool:
    """Whether the wording of a raw or cleaned report presupposes a previous examination."""
    return bool(prior_wording(text))
