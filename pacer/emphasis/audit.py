"""What was marked: counts by split and context, and how marks by the recipe agree with released ones."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Sequence

from pacer.config.anchors import Emphasis
from pacer.data.schemas import SPLITS as ALL_SPLITS

#: The splits that training reads.
SPLITS = ALL_SPLITS[:2]


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

    def add(
        self,
        row: dict[str, str],
        chosen: Sequence[float] | None,
        released: Sequence[float] | None,
        ends: Sequence[int],
        token_ends: Sequence[int],
    ) -> None:
        """Count a record: the marks that training will read, and the released ones, given where sentences and tokens
        end (:mod:`pacer.data.emphasis`)."""
        counts = self.counts[row["split"], row["context"]]
        counts["records"] += 1
        if chosen is None:
            return
        marked = _marked(chosen, ends, token_ends)
        counts["records_with_marks"] += any(marked["tokens"])
        for unit, values in marked.items():
            counts.update({unit: len(values), f"marked_{unit}": sum(values)})
            if self.config.source == "computed" and released is not None:
                known = _marked(released, ends, token_ends)[unit]
                self.agreement[row["split"], unit].update(zip(values, known))

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
        if any(counts["marked_tokens"] for (split, _), counts in self.counts.items() if split == "train"):
            return None
        return f"emphasis.source: {self.config.source} gives no train record emphasised tokens, so L_TLW is 0"


def _marked(marks: Sequence[float], ends: Sequence[int], token_ends: Sequence[int]) -> dict[str, list[bool]]:
    """Of the tokens of a report, as far as marks go, and of the sentences that these touch: is it marked?"""
    tokens = [value > 0 for _, value in zip(token_ends, marks[1:])]
    sentences: defaultdict[int, bool] = defaultdict(bool)
    for end, marked in zip(token_ends, tokens):
        sentences[bisect_left(ends, end)] |= marked
    return {"tokens": tokens, "sentences": list(sentences.values())}
