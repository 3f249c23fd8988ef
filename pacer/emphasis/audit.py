"""Audit of the marks: counts by split and context, and the agreement of computed with released marks."""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from pacer.config.anchors import Emphasis
from pacer.core.audits import Check, counted, number, share
from pacer.data.schemas import SPLITS as ALL_SPLITS

#: The splits that training reads.
SPLITS = ALL_SPLITS[:2]


class Audit:
    """Counts of marks, and of the agreement between computed and released marks if both exist.

    Attributes:
        counts: by split and context, the number of records, sentences and so on.
        agreement: by split, the number of sentences with each pair (computed, released) of marks.
    """

    def __init__(self, config: Emphasis):
        self.config = config
        self.counts: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self.agreement: defaultdict[str, Counter[tuple[bool, bool]]] = defaultdict(Counter)

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
        marked = _marked_sentences(chosen, ends, token_ends)
        counts.update(records_with_marks=any(marked), sentences=len(marked), marked_sentences=sum(marked))
        if self.config.source == "computed" and released is not None:
            self.agreement[row["split"]].update(zip(marked, _marked_sentences(released, ends, token_ends)))

    def content(self) -> dict[str, object]:
        """Return the content of ``audit.json``: the counts of each context by split, and the lines of the audit."""
        by_split: dict[str, dict[str, Counter[str]]] = {split: {} for split in SPLITS}
        for (split, context), counts in sorted(self.counts.items()):
            by_split[split][context] = counts
        return {**by_split, "checks": [check._asdict() for check in self._checks()]}

    def _checks(self) -> Iterator[Check]:
        totals: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for (split, _), counts in self.counts.items():
            totals[split].update(counts)
        train, both = totals["train"], totals["train"] + totals["val"]
        doubt, source = self.doubt(), self.config.source
        marked = doubt or f"{share(train['marked_sentences'], train['sentences'])} sentences"
        yield Check(f"Emphasis in training ({source})", marked, not doubt or source == "none")
        changed = counted({name.replace("_", " "): both[name] for name in ("shortened", "dropped", "not_binary")})
        if changed:
            yield Check("Records whose released emphasis was changed", changed, not both["dropped"])
        for split, pairs in self.agreement.items():
            agreeing, computed, released = pairs[True, True], pairs[True, False], pairs[False, True]
            precision, recall = (agreeing / max(agreeing + wrong, 1) for wrong in (computed, released))
            name = f"Precision and recall of computed emphasis against released, by sentence ({split})"
            yield Check(name, f"{number(precision)} and {number(recall)}")

    def doubt(self) -> str | None:
        """Return the reason to doubt the marks, or None."""
        if any(counts["marked_sentences"] for (split, _), counts in self.counts.items() if split == "train"):
            return None
        return f"emphasis.source: {self.config.source} emphasises no tokens of any training record, so L_TLW is 0"


def _marked_sentences(marks: Sequence[float], ends: Sequence[int], token_ends: Sequence[int]) -> list[bool]:
    """Return whether each sentence has a marked token, of the sentences that tokens with a mark, 0 or not, end in."""
    sentences: defaultdict[int, bool] = defaultdict(bool)
    for end, value in zip(token_ends, marks[1:]):
        sentences[bisect_left(ends, end)] |= value > 0
    return list(sentences.values())
