"""What was marked: counts by split and context, and how marks by the recipe agree with released ones."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from pacer.config.anchors import Emphasis
from pacer.data.schemas import SPLITS as ALL_SPLITS

#: The splits that training reads.
SPLITS = ALL_SPLITS[:2]

_REMEDIES = {
    "corpus": "; emphasis.source: computed marks tokens by the recipe",
    "computed": "; look whether CheXbert labels these reports well",
    "none": "",
}


class Marked(NamedTuple):
    """Of the tokens of a report, as far as marks go, and of the sentences that these touch: is it marked?"""

    tokens: list[bool]
    sentences: list[bool]

    @classmethod
    def of(cls, marks: Sequence[float], ends: Sequence[int], token_ends: Sequence[int]) -> Marked:
        """From marks in the released form, given where sentences and tokens end (:mod:`pacer.data.emphasis`)."""
        tokens = [value > 0 for _, value in zip(token_ends, marks[1:], strict=False)]
        sentences: defaultdict[int, bool] = defaultdict(bool)
        for end, marked in zip(token_ends, tokens, strict=False):
            sentences[bisect_left(ends, end)] |= marked
        return cls(tokens, list(sentences.values()))


class Audit:
    """Counts marks, and where there are both computed and released ones, how often they agree.

    Attributes:
        counts: by split and context, the number of records, tokens, sentences and so on.
        agreement: by split and unit (tokens or sentences), how many are marked (computed, released).
    """

    def __init__(self, config: Emphasis):
        self.config = config
        self.counts: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self.agreement: defaultdict[tuple[str, str], Counter[tuple[bool, bool]]] = defaultdict(Counter)

    def add(self, split: str, context: str, marks: Marked | None, released: Marked | None) -> None:
        """Count a record: the marks that training will read, and the released ones."""
        counts = self.counts[split, context]
        counts["records"] += 1
        if marks is None:
            return
        counts["records_with_marks"] += any(marks.tokens)
        for unit, values in marks._asdict().items():
            counts.update({unit: len(values), f"marked_{unit}": sum(values)})
            if self.config.source == "computed" and released is not None:
                self.agreement[split, unit].update(zip(values, getattr(released, unit), strict=False))

    def content(self) -> dict[str, object]:
        """``audit.json``: the settings in use, what speaks against the marks, precision and recall of computed marks
        against the released ones, and for every split the counts of its contexts."""
        settings = self.config.model_dump(include=None if self.config.source == "computed" else {"source"})
        agreement: defaultdict[str, dict[str, dict[str, float]]] = defaultdict(dict)
        for (split, unit), pairs in self.agreement.items():
            both, computed, released = pairs[True, True], pairs[True, False], pairs[False, True]
            precision, recall = both / max(both + computed, 1), both / max(both + released, 1)
            agreement[split][unit] = {"precision": precision, "recall": recall}
        by_split: dict[str, dict[str, Counter[str]]] = {split: {} for split in SPLITS}
        for (split, context), counts in sorted(self.counts.items()):
            by_split[split][context] = counts
        return {"settings": settings, "doubt": self.doubt(), "agreement": agreement, **by_split}

    def doubt(self) -> str | None:
        """What speaks against the marks."""
        if self._train()["marked_tokens"]:
            return None
        return f"no train record has emphasised tokens, so L_TLW is 0{_REMEDIES[self.config.source]}"

    def summary(self) -> str:
        """A line for whoever runs the stage."""
        train = self._train()
        return self.doubt() or (
            f"{train['records_with_marks']:,} of {train['records']:,} train records have emphasised tokens: "
            f"{train['marked_tokens'] / train['tokens']:.1%} of all tokens"
        )

    def _train(self) -> Counter[str]:
        return sum((counts for (split, _), counts in self.counts.items() if split == "train"), Counter())
