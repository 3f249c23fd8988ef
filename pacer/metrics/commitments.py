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
from pacer.metrics.clinical import label_counts

#: The state of a finding that is not mentioned.
ABSENT = len(POLARITIES)


def anchor_columns(texts: Iterable[str], side: str) -> list[pl.Series]:
    """Return what the rules read in each text, as three columns of lists, ``{side}_{polarity}``."""
    anchors = [extract_anchor(text).as_dict() for text in texts]
    lists = {polarity: [anchor[polarity] for anchor in anchors] for polarity in POLARITIES}
    return [pl.Series(f"{side}_{polarity}", lists[polarity], dtype=pl.List(pl.String)) for polarity in POLARITIES]


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


def polarity_rows(cases: pl.DataFrame, polarity: str, side: str) -> np.ndarray:
    """Return hits, findings of a ``side`` and findings of the reference with one polarity, by case, ``[n, 39]``; 0
    where the side has no lists."""
    state = POLARITIES.index(polarity)
    rows = label_counts(*(states(cases, of) == state for of in ("reference", side)))
    rows[cases[f"{side}_positive"].is_null().to_numpy()] = 0
    return rows


def followed_rows(cases: pl.DataFrame) -> np.ndarray:
    """Return how many of a commitment's statements its report makes with the same polarity, and how many there are, by
    case, ``[n, 2]``."""
    anchor, report = states(cases, "anchor"), states(cases, "report")
    stated = anchor != ABSENT
    return np.stack([(stated & (anchor == report)).sum(axis=1), stated.sum(axis=1)], axis=1)
