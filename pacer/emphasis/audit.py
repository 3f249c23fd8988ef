"""What was marked: counts by split and context, and how marks by the recipe agree with released ones."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from typing import Any

from pacer.config.anchors import Emphasis
from pacer.data.schemas import SPLITS as ALL_SPLITS

#: The splits that training reads.
SPLITS = ALL_SPLITS[:2]


class Audit:
    """Counts marks, and where there are both computed and released ones, how often they agree."""

    def __init__(self, config: Emphasis):
        self.config = config
        self._counts: dict[tuple[str, str], Counter[str]] = {}
        self._agreement: dict[tuple[str, str], Counter[tuple[bool, bool]]] = {}

    def counts(self, split: str, context: str) -> Counter[str]:
        """What was counted of a split's context, by name."""
        return self._counts.setdefault((split, context), Counter())

    def add(
        self,
        split: str,
        context: str,
        ends: Sequence[int],
        token_ends: Sequence[int],
        marks: Sequence[float] | None,
        released: Sequence[float] | None,
    ) -> None:
        """Count a record, given where its sentences and its tokens end (:mod:`pacer.data.emphasis`)."""
        counts = self.counts(split, context)
        counts.update(records=1)
        if marks is None:
            return
        tokens, sentences = _marked(ends, token_ends, marks)
        counts.update(records_with_marks=any(tokens))
        counts.update(tokens=len(tokens), marked_tokens=sum(tokens))
        counts.update(sentences=len(sentences), marked_sentences=sum(sentences))
        if self.config.source == "computed" and released is not None:
            for unit, own, given in zip(
                ("tokens", "sentences"), (tokens, sentences), _marked(ends, token_ends, released)
            ):
                self._agreement.setdefault((split, unit), Counter()).update(zip(own, given, strict=False))

    def found(self) -> dict[str, Any]:
        """``audit.json``: the settings in use, what speaks against the marks, then for every split its contexts, and
        precision and recall of computed marks against the released ones."""
        computed = self.config.source == "computed"
        used = self.config.model_dump(include=None if computed else {"source"})
        found: dict[str, Any] = {"settings": used, "doubt": self._doubt(), "agreement": {}}
        for split in SPLITS:
            found[split] = {c: dict(counts) for (s, c), counts in sorted(self._counts.items()) if s == split}
        for (split, unit), pairs in self._agreement.items():
            both, own, given = pairs[True, True], pairs[True, False], pairs[False, True]
            found["agreement"].setdefault(split, {})[unit] = {
                "precision": both / max(both + own, 1),
                "recall": both / max(both + given, 1),
            }
        return found

    def _train(self) -> Counter[str]:
        return sum((counts for (split, _), counts in self._counts.items() if split == "train"), Counter())

    def _doubt(self) -> str | None:
        if self._train()["marked_tokens"]:
            return None
        remedy = {
            "corpus": "; emphasis.source: computed marks tokens by the recipe",
            "computed": "; look whether CheXbert labels these reports well",
            "none": "",
        }[self.config.source]
        return f"no train record has emphasised tokens, so L_TLW is 0{remedy}"

    def summary(self) -> str:
        """A line or two for whoever runs the stage."""
        if doubt := self._doubt():
            return doubt
        train = self._train()
        said = (
            f"{train['records_with_marks']:,} of {train['records']:,} train records have emphasised tokens: "
            f"{train['marked_tokens'] / train['tokens']:.1%} of all tokens"
        )
        for split, units in self.found()["agreement"].items():
            own = ", ".join(f"{unit} {v['precision']:.3f} and {v['recall']:.3f}" for unit, v in units.items())
            said += f"\nprecision and recall against the released marks in {split}: {own}"
        return said


def _marked(ends: Sequence[int], token_ends: Sequence[int], marks: Sequence[float]) -> tuple[list[bool], list[bool]]:
    """Of the report's tokens as far as ``marks`` go, and of the sentences that these touch: is it marked?"""
    tokens = [value > 0 for _, value in zip(token_ends, marks[1:], strict=False)]
    sentences: dict[int, bool] = {}
    for end, marked in zip(token_ends, tokens, strict=False):
        sentence = bisect_left(ends, end)
        sentences[sentence] = marked or sentences.get(sentence, False)
    return tokens, list(sentences.values())
