"""A clinical commitment (the code says anchor): positive, negative and uncertain findings of one report."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pacer.commitments.vocabulary import FINDINGS

_RANK = {finding: rank for rank, finding in enumerate(FINDINGS)}


@dataclass(frozen=True)
class Anchor:
    """``q = (q_pos, q_neg, q_unc)``: each a tuple of findings in the vocabulary's order, no finding twice.

    Raises:
        ValueError: a finding is unknown, stands twice, or a field is out of order; :meth:`of` puts findings right.
    """

    positive: tuple[str, ...] = ()
    negative: tuple[str, ...] = ()
    uncertain: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        fields = (self.positive, self.negative, self.uncertain)
        every = [finding for field in fields for finding in field]
        unknown = sorted(set(every) - _RANK.keys())
        if unknown:
            raise ValueError(f"unknown findings {', '.join(unknown)}; expected {', '.join(FINDINGS)}")
        if len(set(every)) != len(every):
            raise ValueError("a finding stands in an anchor twice; build it with Anchor.of")
        if any(list(field) != sorted(field, key=_RANK.__getitem__) for field in fields):
            raise ValueError("findings must be in the vocabulary's order; build the anchor with Anchor.of")

    @classmethod
    def of(cls, positive: Iterable[str] = (), negative: Iterable[str] = (), uncertain: Iterable[str] = ()) -> Anchor:
        """Order and deduplicate known findings; one named in several fields is positive before uncertain before
        negative (paper, labelling rule 21)."""
        sure, unsure = set(positive), set(uncertain)
        fields = sure, set(negative) - sure - unsure, unsure - sure
        return cls(*(tuple(sorted(field, key=lambda finding: _RANK.get(finding, -1))) for field in fields))

    def polarity(self, finding: str) -> str | None:
        """positive, negative or uncertain; None for a finding that the anchor does not mention."""
        for name in ("positive", "negative", "uncertain"):
            if finding in getattr(self, name):
                return name
        return None

    def as_dict(self) -> dict[str, list[str]]:
        """The three fields as lists, for JSON and tables."""
        return {"positive": list(self.positive), "negative": list(self.negative), "uncertain": list(self.uncertain)}
