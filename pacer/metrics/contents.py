"""What reports are like beside their findings: how generation ended, whether they vary with the case, and whether they
compare with an earlier examination.

Wording of comparison is read by the rules of :mod:`pacer.data.wording`. In a context without a previous report nothing
can be "unchanged": such wording is invented whatever the images show.
"""

from __future__ import annotations

from collections import Counter

import polars as pl

from pacer.commitments.anchor import POLARITIES
from pacer.core.contexts import CONTEXTS, availability


def extraction_counts(cases: pl.DataFrame, max_new_tokens: int | None) -> dict[str, int]:
    """How generation and extraction ended, in counts; what the prediction lines do not say is left out.

    Args:
        max_new_tokens: the decoder's limit, ``None`` where it is not known.

    Returns:
        ``fallback``: no report could be extracted and the raw text stands for it; ``unclosed``: the last ``<REPORT>``
        has no ``</REPORT>``; ``empty_anchor``: a commitment that names no finding; ``truncated``: as many tokens as
        the decoder allows (an end that falls exactly there is counted too).
    """
    counts = {"fallback": int(cases["fallback"].sum())}
    if not cases["unclosed"].null_count():
        counts["unclosed"] = int(cases["unclosed"].sum())
    committed = cases.filter(pl.col("anchor_positive").is_not_null())
    if len(committed):
        findings = pl.sum_horizontal(pl.col(f"anchor_{polarity}").list.len() for polarity in POLARITIES)
        counts["empty_anchor"] = committed.filter(findings == 0).height
    if max_new_tokens is not None and not cases["tokens"].null_count():
        counts["truncated"] = int((cases["tokens"] >= max_new_tokens).sum())
    return counts


def variety_scores(cases: pl.DataFrame) -> dict[str, float | None]:
    """Shares of distinct reports, of the most frequent one and of those that stand word for word in the training split
    (``hypothesis_copied``, where it is known), the same of the references, and words of all reports per word of the
    references: what gives away a model that repeats itself, or its training reports."""
    scores: dict[str, float | None] = {}
    for prefix, side in (("", "hypothesis"), ("reference_", "reference")):
        counts = Counter(cases[side])
        scores[f"{prefix}distinct_share"] = len(counts) / len(cases)
        scores[f"{prefix}most_frequent_share"] = max(counts.values()) / len(cases)
        if f"{side}_copied" in cases.columns:
            scores[f"{prefix}copied_share"] = int(cases[f"{side}_copied"].sum()) / len(cases)
    written, expected = (sum(len(text.split()) for text in cases[side]) for side in ("hypothesis", "reference"))
    scores["length_ratio"] = written / expected if expected else None
    return scores


def wording_scores(context: str, cases: pl.DataFrame) -> dict[str, float | None]:
    """Scores of the wording of comparison in one context.

    Args:
        context: one of the four contexts; any other name: it is not known what the model was given.
        cases: ``reference_wording`` and ``hypothesis_wording``, the rules that fire in each text, each once.

    Returns:
        ``prior_wording_rate`` and ``reference_prior_wording_rate``: share of the reports with any such wording; in
        contexts without a previous report ``unfounded_prior_wording_rate``, the same share: what it counts there was
        not in the input.
    """
    rate, expected = (int((cases[f"{side}_wording"].list.len() > 0).sum()) for side in ("hypothesis", "reference"))
    scores: dict[str, float | None] = {
        "prior_wording_rate": rate / len(cases),
        "reference_prior_wording_rate": expected / len(cases),
    }
    if context in CONTEXTS and not availability(context)[1]:
        scores["unfounded_prior_wording_rate"] = rate / len(cases)
    return scores
