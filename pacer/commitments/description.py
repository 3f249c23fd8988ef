"""Side, severity and course of a finding, and the words that stand for them before its name in a commitment.

    described finding = course... severity... side finding      stable mild left pleural effusion

The words of a kind stand in the order of :data:`VALUES`, so two severities are "mild moderate"; both sides are
"bilateral". Not in the paper (``docs/readings.md``).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple


class Attributes(NamedTuple):
    """What is known of a finding: ``side`` (left, right; both: bilateral), ``severity`` (mild, moderate, severe) and
    ``course`` (new, worse, stable, improved); empty: nothing."""

    side: frozenset[str] = frozenset()
    severity: frozenset[str] = frozenset()
    course: frozenset[str] = frozenset()

    def only(self, kinds: Collection[str]) -> Attributes:
        """Return these kinds alone."""
        return Attributes(**{kind: getattr(self, kind) for kind in kinds})


#: The values of each kind, from left to right, from mild to severe, from worse to better.
VALUES: dict[str, tuple[str, ...]] = {
    "side": ("left", "right"),
    "severity": ("mild", "moderate", "severe"),
    "course": ("new", "worse", "stable", "improved"),
}
KINDS = Attributes._fields
_WRITTEN = ("course", "severity", "side")
_BOTH = "bilateral"
_KIND = {value: kind for kind, values in VALUES.items() for value in values} | {_BOTH: "side"}


def words(attributes: Attributes) -> list[str]:
    """Return the words for attributes, in writing order."""
    said = {kind: [value for value in VALUES[kind] if value in getattr(attributes, kind)] for kind in _WRITTEN}
    if len(said["side"]) == len(VALUES["side"]):
        said["side"] = [_BOTH]
    return [word for kind in _WRITTEN for word in said[kind]]


def split_words(text: str, kinds: Collection[str]) -> tuple[Attributes, str]:
    """Split a described finding into its attributes of these ``kinds``, in any order, and the remaining text.

    >>> split_words("stable mild left pleural effusion", ["side", "severity", "course"])[1]
    'pleural effusion'
    """
    rest, values = text.split(), set[str]()
    while len(rest) > 1 and _KIND.get(rest[0].lower()) in kinds:
        word = rest.pop(0).lower()
        values |= set(VALUES["side"]) if word == _BOTH else {word}
    return Attributes(*(frozenset(values.intersection(VALUES[kind])) for kind in KINDS)), " ".join(rest)
