"""Agreement of two reports in side, severity and course of the findings that both affirm."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import polars as pl

from pacer.commitments.attributes import Attributes, read_attributes
from pacer.commitments.rules.extract import extract_anchor
from pacer.core.contexts import availability

KINDS = Attributes._fields


def attribute_counts(cases: pl.DataFrame) -> list[list[int]]:
    """Return for each case how often ``hypothesis`` agrees with ``reference`` in each of :data:`KINDS`, over findings
    that both affirm, then how often the reference names it; ``[n, 6]``."""
    counts = []
    for reference, hypothesis in cases.select("reference", "hypothesis").iter_rows():
        both = set(extract_anchor(reference).positive) & set(extract_anchor(hypothesis).positive)
        expected, stated = read_attributes(reference), read_attributes(hypothesis)
        counts.append(_counts((expected[finding], stated[finding]) for finding in both))
    return counts


def _counts(pairs: Iterable[tuple[Attributes, Attributes]]) -> list[int]:
    """Count agreement, then names, over pairs of what is expected and what is stated. The sides must be the same; a
    severity, and a course, among those expected."""
    counts = np.zeros((2, len(KINDS)), dtype=int)
    for expected, stated in pairs:
        named = np.array([bool(one) for one in expected])
        among = [bool(one) and one <= known for one, known in zip(stated[1:], expected[1:], strict=True)]
        agreed = [expected.side == stated.side, *among]
        counts += named & np.array([agreed, named])
    return counts.ravel().tolist()


def attribute_share(sums: np.ndarray, kind: str | None = None) -> np.ndarray:
    """Return the share that agrees from sums of :func:`attribute_counts`, ``[..., 6]`` -> ``[...]``; without a ``kind``
    the mean over the kinds that the references name; NaN without any."""
    agreed, named = sums[..., : len(KINDS)], sums[..., len(KINDS) :]
    with np.errstate(invalid="ignore"):
        shares = agreed / named
        if kind is not None:
            return shares[..., KINDS.index(kind)]
        return np.where(named > 0, shares, 0).sum(axis=-1) / (named > 0).sum(axis=-1)


def true_attribute_counts(cases: pl.DataFrame) -> np.ndarray:
    """Return the same sums over all cases of a generated corpus: how often a report names an attribute of a present
    finding as the truth has it (``states``), then how often it names one. Only contexts with a previous report have a
    course."""
    total = np.zeros(2 * len(KINDS), dtype=int)
    for report, context, states in cases.select("hypothesis", "context", "states").iter_rows():
        stated = read_attributes(report)
        affirmed = {state["finding"]: state for state in states if state["finding"] in extract_anchor(report).positive}
        if not availability(context)[1]:
            stated = {finding: one._replace(course=frozenset()) for finding, one in stated.items()}
        total += _counts((stated[finding], _latent(state)) for finding, state in affirmed.items())
    return total


def _latent(state: dict[str, str | None]) -> Attributes:
    side = ("left", "right") if state["side"] == "bilateral" else (state["side"],)
    return Attributes(*(frozenset(filter(None, one)) for one in (side, (state["severity"],), (state["course"],))))
