"""Do the reports vary with the case? Shares that give away a model that repeats itself, or its training reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence


def variety_scores(
    references: Sequence[str], hypotheses: Sequence[str], train: Collection[str] | None
) -> dict[str, float | None]:
    """Shares of distinct reports, of the most frequent one and of those that stand word for word in ``train`` (``None``
    leaves these out), the same of the references, and words of all reports per word of the references."""
    scores: dict[str, float | None] = {}
    for side, texts in (("", hypotheses), ("reference_", references)):
        counts = Counter(texts)
        scores[f"{side}distinct_share"] = len(counts) / len(texts)
        scores[f"{side}most_frequent_share"] = max(counts.values()) / len(texts)
        if train is not None:
            scores[f"{side}copied_share"] = sum(text in train for text in texts) / len(texts)
    written, expected = (sum(len(text.split()) for text in texts) for texts in (hypotheses, references))
    scores["length_ratio"] = written / expected if expected else None
    return scores
