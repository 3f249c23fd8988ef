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

#: How generation and extraction ended, by case; null: not known. ``fallback``: no report could be extracted, so the raw
#: text is used; ``unclosed``: the last ``<REPORT>`` has no ``</REPORT>``; ``empty_anchor``: the commitment names no
#: finding; ``truncated``: the text has as many tokens as the decoder allows, ``token_limit`` (including texts that
#: happen to end exactly there).
EXTRACTION = {
    "fallback": pl.col("fallback"),
    "unclosed": pl.col("unclosed"),
    "empty_anchor": pl.sum_horizontal(
        *(pl.col(f"anchor_{polarity}").list.len() for polarity in POLARITIES), ignore_nulls=False
    )
    == 0,
    "truncated": pl.col("tokens") >= pl.col("token_limit"),
}
#: Whether a report compares with an earlier examination, and whether its context has none. For reports of an unknown
#: context it is not known what the model was given.
COMPARES = pl.col("hypothesis_wording").list.len() > 0
UNFOUNDED = pl.when(pl.col("context").is_in([name for name in CONTEXTS if not availability(name)[1]])).then(COMPARES)


def is_empty(side: str) -> pl.Expr:
    """Return whether a text consists only of blanks and periods."""
    return pl.col(side).str.strip_chars(" .") == ""


def extraction_counts(cases: pl.DataFrame) -> dict[str, int]:
    """Count :data:`EXTRACTION`; counts that the prediction lines do not allow are left out."""
    flags = cases.select(flag.cast(pl.UInt32).alias(what) for what, flag in EXTRACTION.items())
    return {flag.name: int(flag.sum()) for flag in flags if flag.count()}


def variety_scores(cases: pl.DataFrame) -> dict[str, float | None]:
    """Return scores that expose a model that repeats itself: the shares of distinct reports and of the most frequent
    one, the same of the references, and the words in all reports per word in the references."""
    scores: dict[str, float | None] = {}
    for prefix, side in (("", "hypothesis"), ("reference_", "reference")):
        counts = Counter(cases[side])
        scores[f"{prefix}distinct_share"] = len(counts) / len(cases)
        scores[f"{prefix}most_frequent_share"] = max(counts.values()) / len(cases)
    written, expected = (sum(len(text.split()) for text in cases[side]) for side in ("hypothesis", "reference"))
    scores["length_ratio"] = written / expected if expected else None
    return scores
