"""Wording that presupposes a previous examination, found by rules in raw or cleaned chest radiograph reports.

A report written without a previous study should hold none: there is nothing that "unchanged" could refer to. History
is no comparison ("status post sternotomy", "old fracture", "chronic"), nor is the state of the day ("increased
interstitial markings", "decreased lung volumes"), a statement that no earlier study is at hand, or advice on follow-up.

The phrases are in ``wording.yaml``. They make one alternation in which phrases without comparison come first and so
hide the words inside them ("in stable condition" hides "stable").
"""

from __future__ import annotations

import re
from itertools import takewhile
from pathlib import Path

from ruamel.yaml import YAML

#: The fragments, the phrases without comparison by kind, and the phrases of each rule.
_TEXT = YAML(typ="safe").load(Path(__file__).with_name("wording.yaml"))
_FRAGMENTS: dict[str, str] = {}


def _whole(phrase: str) -> str:
    """A phrase of ``wording.yaml`` in one line, with its fragments."""
    return re.sub(r"<(\w+)>", lambda match: _FRAGMENTS[match[1]], phrase.replace("\n", ""))


for _name, _fragment in _TEXT["fragments"].items():
    _FRAGMENTS[_name] = _whole(_fragment)

#: Phrases that hold a word of comparison and compare with nothing.
_NO_COMPARISON = [_whole(phrase) for phrases in _TEXT["no comparison"].values() for phrase in phrases]
#: Each rule's name and phrases.
_RULES: dict[str, list[str]] = {name: [*map(_whole, phrases)] for name, phrases in _TEXT["rules"].items()}


#: The rule that each group of the pattern stands for; phrases without comparison have no group.
_RULE_OF_GROUP = {f"rule{number}": name for number, name in enumerate(_RULES)}
_PATTERN = re.compile(
    rf"\b(?:{'|'.join(_NO_COMPARISON)}|"
    + "|".join(f"(?P<{group}>{'|'.join(_RULES[name])})" for group, name in _RULE_OF_GROUP.items())
    + ")"
)


def prior_wording(text: str) -> tuple[str, ...]:
    """The rules that fire in a report, each once, in the order in which they do.

    Args:
        text: report text, raw or cleaned.

    Returns:
        Names such as "comparison", "unchanged" or "again"; empty when nothing presupposes a previous examination.
    """
    return tuple(dict.fromkeys(rule for _, _, rule in find_wording(text)))


def find_wording(text: str) -> list[tuple[int, int, str]]:
    """Where which rule fires: ``text[start:end]`` is the phrase of the rule, to the end of its last word."""
    normal, places = "", []
    for word in re.finditer(r"\S+", text):
        if places:
            normal += " "
            places.append(places[-1] + 1)
        lowered = word[0].lower()  # which can be longer than the word
        normal += lowered
        places += [min(word.start() + at, word.end() - 1) for at in range(len(lowered))]
    phrases = []
    for match in _PATTERN.finditer(normal):
        if match.lastgroup is not None:
            end = places[match.end() - 1] + 1
            end += len([*takewhile(str.isalnum, text[end:])])  # it can end within a number or before an ending
            phrases.append((places[match.start()], end, _RULE_OF_GROUP[match.lastgroup]))
    return phrases


def compares_with_prior(text: str) -> bool:
    """Whether wording of a report, raw or cleaned, presupposes a previous examination."""
    normal = " ".join(word.lower() for word in text.split())  # as :func:`find_wording`
    return any(match.lastgroup is not None for match in _PATTERN.finditer(normal))
