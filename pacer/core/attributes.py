"""Side, severity and course of a finding, as rules read them in a text.

They are not in the paper (``docs/readings.md``). A list of findings can state the side alone
(:mod:`pacer.core.anchor`).
"""

from collections.abc import Collection
from typing import NamedTuple


class Attributes(NamedTuple):
    """Attributes of a finding. An empty set means that the attribute is unknown."""

    #: left, right; both: bilateral.
    side: frozenset[str] = frozenset()
    #: mild, moderate, severe.
    severity: frozenset[str] = frozenset()
    #: new, worse, stable, improved.
    course: frozenset[str] = frozenset()

    def only(self, kinds: Collection[str]) -> "Attributes":
        """Return these kinds alone."""
        return Attributes(**{kind: getattr(self, kind) for kind in kinds})


#: The values of each kind, from left to right, from mild to severe, from worse to better.
VALUES: dict[str, tuple[str, ...]] = {
    "side": ("left", "right"),
    "severity": ("mild", "moderate", "severe"),
    "course": ("new", "worse", "stable", "improved"),
}
KINDS = Attributes._fields
BILATERAL = "bilateral"
_WRITTEN = ("course", "severity", "side")


def words(attributes: Attributes) -> list[str]:
    """Return the words for attributes: course, severity, side. Words of the same kind are in the
    order of :data:`VALUES`, so two severities are "mild moderate"; both sides are "bilateral"."""
    chosen = {
        kind: [value for value in VALUES[kind] if value in getattr(attributes, kind)]
        for kind in _WRITTEN
    }
    if len(chosen["side"]) == len(VALUES["side"]):
        chosen["side"] = [BILATERAL]
    return [word for kind in _WRITTEN for word in chosen[kind]]
