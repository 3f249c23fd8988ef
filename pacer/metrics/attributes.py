"""Side, severity and course: agreement of two reports, of a report with its commitment, and of its sentences."""

from collections.abc import Iterable

import numpy as np
import polars as pl

from pacer.commitments.attributes import read_attributes, sentence_attributes
from pacer.commitments.description import KINDS, Attributes, split_words
from pacer.commitments.rules.extract import extract_anchor
from pacer.core.contexts import availability

#: Numbers of each case; None: a case without them.
Counts = list[list[int] | None]


def attribute_counts(cases: pl.DataFrame, reports: str = "hypothesis", mirrored: bool = False) -> Counts:
    """Return for each case how often a report agrees with ``reference``, or that of a ``mirrored`` picture, in each of
    :data:`KINDS`, over findings that both affirm, then how often the reference names it, ``[n, 6]``; None where the
    column ``reports`` has none."""
    turned = {"left": "right", "right": "left"} if mirrored else {"left": "left", "right": "right"}
    counts: Counts = []
    for reference, report in zip(cases["reference"], cases.get_column(reports, default=[None] * len(cases))):
        both = set(extract_anchor(reference).positive) & set(extract_anchor(report or "").positive)
        expected, stated = read_attributes(reference), read_attributes(report or "")
        sides = {finding: frozenset(turned[side] for side in expected[finding].side) for finding in both}
        pairs = ((expected[finding]._replace(side=side), stated[finding]) for finding, side in sides.items())
        counts.append(None if report is None else _counts(pairs))
    return counts


def uncommitted_sides(cases: pl.DataFrame) -> Counts:
    """Return for each case how many sides ``hypothesis`` states, of the findings that its commitment affirms with
    attributes, that are not in the commitment, then how many it states; None without such a commitment."""
    counts: Counts = []
    for report, *lists in cases.select("hypothesis", "anchor_positive", "anchor_attributes").iter_rows():
        affirmed, described = lists
        pairs = (split_words(text, KINDS) for text in described or ())
        known = {finding: attributes for attributes, finding in pairs if finding in affirmed}
        stated = read_attributes(report) if known else {}
        sides = [(stated.get(finding, Attributes()).side, one.side) for finding, one in known.items()]
        apart = sum(len(said - listed) for said, listed in sides)
        counts.append([apart, sum(len(said) for said, _ in sides)] if known else None)
    return counts


def side_switches(report: str) -> list[str]:
    """Return the findings that a report has on the left in one sentence and on the right in another, but in none on
    both sides."""
    sides = {finding: {" ".join(sorted(one.side)) for one in of} for finding, of in sentence_attributes(report).items()}
    return [name for name, known in sides.items() if {"left", "right"} <= known and "left right" not in known]


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
