"""Comparison with an earlier examination: how many reports make one, and how many of them without a prior?

Read by the rules of :mod:`pacer.data.wording`. In a context without a previous report nothing can be
"unchanged": such wording is invented whatever the images show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pacer.core.contexts import CONTEXTS, availability


def wording_scores(
    context: str, references: Sequence[Sequence[str]], hypotheses: Sequence[Sequence[str]]
) -> dict[str, float | None]:
    """Scores of the wording of comparison in one context.

    Args:
        context: one of the four contexts; any other name: it is not known what the model was given.
        references, hypotheses: rules that fire in each report, each once; row by row the same records.

    Returns:
        ``prior_wording_rate`` and ``reference_prior_wording_rate``: share of the reports with any such wording; in
        contexts without a previous report ``unfounded_prior_wording_rate``, the same share: what it counts there was
        not in the input.
    """
    rate = sum(map(bool, hypotheses)) / len(hypotheses)
    scores: dict[str, float | None] = {
        "prior_wording_rate": rate,
        "reference_prior_wording_rate": sum(map(bool, references)) / len(references),
    }
    if context in CONTEXTS and not availability(context)[1]:
        scores["unfounded_prior_wording_rate"] = rate
    return scores


def wording_counts(
    references: Sequence[Sequence[str]], hypotheses: Sequence[Sequence[str]]
) -> dict[str, dict[str, int]]:
    """In how many reports each rule fires: references, hypotheses, and both of a pair."""
    both = [set(a) & set(b) for a, b in zip(references, hypotheses, strict=True)]
    counts = [Counter(rule for rules in side for rule in rules) for side in (references, hypotheses, both)]
    names = sorted(set().union(*counts))
    return {
        name: dict(zip(("reference", "generated", "both"), (c[name] for c in counts), strict=True)) for name in names
    }
