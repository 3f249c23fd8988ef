"""Polarity-aware scores of commitments and reports: is each finding affirmed, denied, left uncertain or not mentioned?

There are three comparisons: the generated with the reference commitment; the generated report with its own commitment
(does the model follow what it committed to?); and, for any system, the generated report with the reference commitment.
The rules that read the reports are those that produced the training commitments.
"""

from collections.abc import Iterable

import numpy as np
import polars as pl

from pacer.commitments.anchor import FINDINGS, POLARITIES, Anchor
from pacer.commitments.rules.extract import extract_anchor
from pacer.metrics.clinical import label_counts, ratios

#: The state of a finding that is not mentioned.
ABSENT = len(POLARITIES)


def anchor_columns(texts: Iterable[str], side: str) -> list[pl.Series]:
    """Return what the rules read in each text, as three columns of lists, ``{side}_{polarity}``."""
    anchors = [extract_anchor(text).as_dict() for text in texts]
    lists = {polarity: [anchor[polarity] for anchor in anchors] for polarity in POLARITIES}
    return [pl.Series(f"{side}_{polarity}", lists[polarity], dtype=pl.List(pl.String)) for polarity in POLARITIES]


def commitment_scores(cases: pl.DataFrame) -> dict[str, float | None]:
    """Return scores by name, ``None`` if undefined, from the lists ``{side}_{polarity}`` of the ``reference`` and the
    generated commitment (``anchor``, null without one) and of what the rules read in the generated ``report``.

    ``report_*``: generated report against reference commitment, over all records. The others are over records with a
    generated commitment, and are left out if there are none. ``anchor_*``: generated against reference commitment;
    ``report_follows_anchor``: share of the commitment's statements that the report makes with the same polarity.
    """
    f1 = polarity_f1(states(cases, "reference"), states(cases, "report"))
    scores = {f"report_{name}": value for name, value in f1.items()}
    committed = cases.filter(pl.col("anchor_positive").is_not_null())
    if committed.is_empty():
        return scores
    reference, anchor, report = (states(committed, side) for side in ("reference", "anchor", "report"))
    scores |= {f"anchor_{name}": value for name, value in polarity_f1(reference, anchor).items()}
    stated = anchor != ABSENT
    return scores | {"report_follows_anchor": float((anchor == report)[stated].mean()) if stated.any() else None}


def contradictions(cases: pl.DataFrame) -> list[tuple[str, ...] | None]:
    """Return the findings that a generated report affirms and its commitment denies, or the reverse, of each case; None
    without a commitment."""
    sides = (cases.select(pl.col(f"{side}_{name}" for name in POLARITIES)).iter_rows() for side in ("anchor", "report"))
    return [
        None if listed[0] is None else Anchor.of(*listed).contradicted(Anchor.of(*read))
        for listed, read in zip(*sides, strict=True)
    ]


def states(cases: pl.DataFrame, side: str) -> np.ndarray:
    """Return the state of each finding ``[n, 13]``, an index into :data:`POLARITIES` or :data:`ABSENT`, from the lists
    ``{side}_{polarity}``. Positive takes precedence over uncertain, and uncertain over negative."""

    def state(finding: str) -> pl.Expr:
        stated = (
            pl.when(pl.col(f"{side}_{polarity}").list.contains(finding)).then(POLARITIES.index(polarity))
            for polarity in ("positive", "uncertain", "negative")
        )
        return pl.coalesce(*stated, ABSENT).alias(finding)

    return cases.select(map(state, FINDINGS)).to_numpy()


def polarity_rows(cases: pl.DataFrame, polarity: str) -> np.ndarray:
    """Return hits, findings of the report and findings of the reference with one polarity, by case, ``[n, 39]``."""
    state = POLARITIES.index(polarity)
    return label_counts(*(states(cases, side) == state for side in ("reference", "report")))


def polarity_f1(expected: np.ndarray, generated: np.ndarray) -> dict[str, float | None]:
    """Return micro F1 of each polarity, ``positive_f1`` and so on, of two arrays of :func:`states`, over records x
    findings; ``None`` if neither side uses the polarity."""
    return {
        f"{polarity}_f1": ratios(expected == state, generated == state)["f1"]
        for state, polarity in enumerate(POLARITIES)
    }
