"""Audit of the marks: counts by split and context, and the agreement of computed with released marks."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from pacer.config.anchors import Emphasis
from pacer.core.audits import Check, counted, number, share
from pacer.data.schemas import SPLITS as ALL_SPLITS

#: The splits that training reads.
SPLITS = ALL_SPLITS[:2]


class Audit:
    """Counts of marks, and of the agreement between computed and released marks if both exist.

    Attributes:
        counts: by split and context, the number of records, tokens, sentences and so on.
        agreement: by split and unit (tokens or sentences), the number of each pair (computed, released) of marks.
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
        """Count a record: the ``chosen`` marks, which training reads, and the ``released`` ones. Its sentences end at
        ``ends``, its tokens at ``token_ends`` (:mod:`pacer.data.sentences`)."""
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
        """Return the content of ``audit.json``: the settings in use, any doubt about the marks, precision and recall of
        computed against released marks, the counts of each context by split, and the lines of the audit."""
        settings = self.config.model_dump(include=None if self.config.source == "computed" else {"source"})
        agreement: defaultdict[str, dict[str, dict[str, float]]] = defaultdict(dict)
        for (split, unit), pairs in self.agreement.items():
            both, computed, released = pairs[True, True], pairs[True, False], pairs[False, True]
            precision, recall = both / max(both + computed, 1), both / max(both + released, 1)
            agreement[split][unit] = {"precision": precision, "recall": recall}
        by_split: dict[str, dict[str, Counter[str]]] = {split: {} for split in SPLITS}
        for (split, context), counts in sorted(self.counts.items()):
            by_split[split][context] = counts
        checks = [check._asdict() for check in self._checks(agreement)]
        return {"settings": settings, "doubt": self.doubt(), "agreement": agreement, **by_split, "checks": checks}

    def _checks(self, agreement: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Iterator[Check]:
        totals: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for (split, _), counts in self.counts.items():
            totals[split].update(counts)
        train, both = totals["train"], totals["train"] + totals["val"]
        doubt, source = self.doubt(), self.config.source
        marked = doubt or f"{share(train['marked_sentences'], train['sentences'])} sentences"
        yield Check(f"Emphasis in training ({source})", marked, not doubt or source == "none")
        changed = counted({name.replace("_", " "): both[name] for name in ("shortened", "dropped", "not_binary")})
        if changed:
            yield Check("Released emphasis that was changed, records", changed, not both["dropped"])
        for split, units in agreement.items():
            ratios = (f"{unit} {number(of['precision'])} and {number(of['recall'])}" for unit, of in units.items())
            name = f"Precision and recall of computed emphasis against released, {split}"
            yield Check(name, ", ".join(ratios))

    def doubt(self) -> str | None:
        """Return the reason to doubt the marks, or None."""
        if any(counts["marked_tokens"] for (split, _), counts in self.counts.items() if split == "train"):
            return None
        return f"emphasis.source: {self.config.source} gives no train record emphasised tokens, so L_TLW is 0"


def _marked(marks: Sequence[float], ends: Sequence[int], token_ends: Sequence[int]) -> dict[str, list[bool]]:
    """Return whether each token is marked, as far as there are marks, and each sentence that these tokens end in."""
    tokens = [value > 0 for _, value in zip(token_ends, marks[1:])]
    sentences: defaultdict[int, bool] = defaultdict(bool)
    for end, marked in zip(token_ends, tokens):
        sentences[bisect_left(ends, end)] |= marked
    return {"tokens": tokens, "sentences": list(sentences.values())}
