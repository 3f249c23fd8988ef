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


def _branches(phrase: str) -> list[str]:
    """A phrase that begins with alternatives as several phrases, each beginning with a letter.

    Phrases must not have alternatives outside parentheses.
    """
    if not phrase.startswith("(?:"):
        return [phrase]
    depth, cuts, end = 0, [2], 0
    for end, sign in enumerate(phrase):
        depth += (sign == "(") - (sign == ")")
        if depth == 0:
            break
        if sign == "|" and depth == 1:
            cuts.append(end)
    options = [phrase[start + 1 : stop] for start, stop in zip(cuts, [*cuts[1:], end])]
    rest = phrase[end + 1 :]
    if rest.startswith("?"):
        options, rest = [*options, ""], rest[1:]
    return [branch for option in options for branch in _branches(option + rest)]


def _tree(phrases: list[str]) -> str:
    """One pattern for phrases in order of preference, those with a common beginning together.

    At every word only the few phrases are tried that begin like it.
    """
    if len(phrases) == 1:
        return phrases[0]
    by_letter: dict[str, list[str]] = {}
    for phrase in phrases:
        literal = re.match(r"[a-z](?![?*+{])", phrase)
        by_letter.setdefault(literal[0] if literal else "", []).append(phrase)
    others = by_letter.pop("", [])
    parts = [letter + _tree([phrase[1:] for phrase in group]) for letter, group in by_letter.items()]
    return f"(?:{'|'.join(parts + others)})"


def _compile() -> tuple[re.Pattern[str], dict[str, str]]:
    """The pattern, and the rule that each of its groups stands for; phrases without comparison have no group."""
    rules: dict[str, str] = {}
    phrases: list[str] = []
    for name, own in _RULES.items():
        for branch in (branch for phrase in own for branch in _branches(phrase)):
            group = f"g{len(rules)}"
            rules[group] = name
            phrases.append(f"{branch}(?P<{group}>)")
    hidden = [branch for phrase in _NO_COMPARISON for branch in _branches(phrase)]
    return re.compile(rf"\b(?:{_tree(hidden)}|{_tree(phrases)})"), rules


_PATTERN, _RULE_OF_GROUP = _compile()


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
    found = []
    for match in _PATTERN.finditer(normal):
        if match.lastgroup is not None:
            end = places[match.end() - 1] + 1
            end += len([*takewhile(str.isalnum, text[end:])])  # it can end within a number or before an ending
            found.append((places[match.start()], end, _RULE_OF_GROUP[match.lastgroup]))
    return found


def compares_with_prior(text: str) -> bool:
    """Whether wording of a report, raw or cleaned, presupposes a previous examination."""
    return any(match.lastgroup for match in _PATTERN.finditer(_normal(text)))


def _normal(text: str) -> str:
    """Lower case, single blanks: what the rules are written for."""
    return " ".join(text.lower().split())
