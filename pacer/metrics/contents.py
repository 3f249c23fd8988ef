"""Properties of reports other than their findings: how generation ended, whether reports vary with the case, and
whether they compare with an earlier examination.

The rules of :mod:`pacer.data.wording` detect wording of comparison. In a context without a previous report nothing can
be "unchanged": such wording is invented, whatever the images show.
"""

from __future__ import annotations

from collections import Counter

import polars as pl

from pacer.commitments.anchor import POLARITIES
from pacer.core.contexts import CONTEXTS, availability


def extraction_counts(cases: pl.DataFrame, max_new_tokens: int | None) -> dict[str, int]:
    """Count how generation and extraction ended; counts that the prediction lines do not allow are left out.

    Args:
        max_new_tokens: the decoder's limit; ``None`` if it is not known.

    Returns:
        ``fallback``: no report could be extracted, so the raw text is used; ``unclosed``: the last ``<REPORT>`` has no
        ``</REPORT>``; ``empty_anchor``: the commitment names no finding; ``truncated``: the text has as many tokens as
        the decoder allows (including texts that happen to end exactly there).
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


def extraction_scores(cases: pl.DataFrame, max_new_tokens: int | None) -> dict[str, float | None]:
    """Return the shares of :func:`extraction_counts`, and that of reports without a word."""
    counts = extraction_counts(cases, max_new_tokens) | {"empty": count_empty(cases["hypothesis"])}
    return {f"{what}_rate": count / len(cases) for what, count in counts.items()}


def count_empty(texts: pl.Series) -> int:
    """Count the texts that consist only of blanks and periods."""
    return sum(not text.strip(" .") for text in texts)


def variety_scores(cases: pl.DataFrame) -> dict[str, float | None]:
    """Return scores that expose a model that repeats itself or its training reports. They are the shares of distinct
    reports, of the most frequent one, and of those copied verbatim from the training split (``hypothesis_copied``, if
    known); the same shares of the references; and the words in all reports per word in the references."""
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
    """Return the scores of the wording of comparison in one context.

    Args:
        context: one of the four contexts; for any other name it is not known what the model was given.
        cases: ``reference_wording`` and ``hypothesis_wording``: the rules that match in each text, each rule once.

    Returns:
        ``prior_wording_rate`` and ``reference_prior_wording_rate``: share of the reports with any such wording. In
        contexts without a previous report also ``unfounded_prior_wording_rate``, the same share: there, the input
        cannot support such wording.
    """
    rate, expected = (int((cases[f"{side}_wording"].list.len() > 0).sum()) for side in ("hypothesis", "reference"))
    scores: dict[str, float | None] = {
        "prior_wording_rate": rate / len(cases),
        "reference_prior_wording_rate": expected / len(cases),
    }
    if context in CONTEXTS and not availability(context)[1]:
        scores["unfounded_prior_wording_rate"] = rate / len(cases)
    return scores
