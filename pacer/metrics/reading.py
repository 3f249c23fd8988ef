"""Reading of each pair of texts by the rules: columns of the cases, each made by the function of
its name, and their ledger of findings.

Worker processes import this module, so it does not import the configuration.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import polars as pl

from pacer.core.anchor import POLARITIES
from pacer.metrics.cases import DERIVED
from pacer.metrics.language import rouge_l
from pacer.metrics.ledger import (
    CONTRADICTS,
    IS_EXACT,
    WORDS,
    attribute_counts,
    findings_of,
    lists_by_row,
    read_findings,
)
from pacer.text.cleaning.repetition import repetition
from pacer.text.cleaning.wording import prior_wording
from pacer.text.rules import extract_anchor


class Read(NamedTuple):
    """Some pairs of texts, and what the rules read in them. ``cases``: the pairs, with the findings
    of their references (``reference_positive`` and so on). ``report``: the findings of the reports.
    ``findings``: the ledger, with the ``row`` of the case."""

    cases: pl.DataFrame
    report: pl.DataFrame
    findings: pl.DataFrame

    def lists(self, rows: pl.DataFrame, chosen: pl.Expr) -> pl.Series:
        """Return the findings of the ``chosen`` rows for each case."""
        return lists_by_row(rows, chosen, len(self.cases))


def read_pairs(cases: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return new columns of the cases, and the ledger.

    The columns are :data:`~cases.DERIVED`, and ``reference_positive`` and so on if the cases lack
    them. The states of a reference's findings are those of its uncleaned text; attributes and
    places are those of the text that is scored. Nothing depends on other pairs.
    """
    listed = [] if "reference_positive" in cases.columns else reference_lists(cases)
    cases = cases.with_columns(listed)
    report = read_findings(cases["hypothesis"])
    findings = findings_of(cases, read_findings(cases["reference"]), report)
    read = Read(cases, report, findings)
    # polars infers the types of lists faster than it converts them one by one
    columns = [pl.Series(name, COLUMNS[name](read)).cast(kind) for name, kind in DERIVED.items()]
    return pl.DataFrame([*listed, *columns]), findings.drop("row")


def reference_lists(cases: pl.DataFrame) -> list[pl.Series]:
    """Return what the rules read in the uncleaned references, by polarity."""
    anchors = [extract_anchor(text) for text in cases["reference_raw"]]
    return [
        pl.Series(f"reference_{name}", [getattr(anchor, name) for anchor in anchors]).cast(WORDS)
        for name in POLARITIES
    ]


def report_positive(read: Read) -> pl.Series:
    """Return the findings that the report affirms."""
    return read.lists(read.report, pl.col("state") == "positive")


def report_negative(read: Read) -> pl.Series:
    """Return the findings that the report denies."""
    return read.lists(read.report, pl.col("state") == "negative")


def report_uncertain(read: Read) -> pl.Series:
    """Return the findings that the report leaves uncertain."""
    return read.lists(read.report, pl.col("state") == "uncertain")


def exact_positive(read: Read) -> pl.Series:
    """Return the affirmed findings that the report describes as the reference does."""
    return read.lists(read.findings, IS_EXACT)


def contradictions(read: Read) -> pl.Series:
    """Return the findings in which the report contradicts its commitment; null without one."""
    has_commitment = read.cases["anchor_positive"].is_not_null()
    found = read.lists(read.findings, CONTRADICTS)
    return pl.select(pl.when(has_commitment).then(found)).to_series()


def prior_positive(read: Read) -> list[Any]:
    """Return the findings that the previous report affirms; null where there is none."""
    return _affirmed_in(read.cases, "prior_report")


def no_prior_positive(read: Read) -> list[Any]:
    """Return the findings affirmed by the report that was written without the previous report."""
    return _affirmed_in(read.cases, "no_prior_hypothesis")


def _affirmed_in(cases: pl.DataFrame, column: str) -> list[Any]:
    if column not in cases.columns:
        return [None] * len(cases)
    return [None if text is None else extract_anchor(text).positive for text in cases[column]]


def hypothesis_wording(read: Read) -> list[Any]:
    """Return the rules of comparison that match in the report."""
    return [prior_wording(text) for text in read.cases["hypothesis"]]


def attributes(read: Read) -> Iterable[Any]:
    """Return how often side, severity and course agree, then how often the reference names them."""
    return attribute_counts(read.findings, len(read.cases))


def hypothesis_repetition(read: Read) -> list[float | None]:
    """Return the share of the report's words that repeat."""
    return [repetition(text) for text in read.cases["hypothesis"]]


def reference_repetition(read: Read) -> list[float | None]:
    """Return the share of the reference's words that repeat."""
    return [repetition(text) for text in read.cases["reference"]]


def rouge_l_of_pairs(read: Read) -> list[float]:
    """Return ROUGE-L of each pair."""
    return list(map(rouge_l, read.cases["reference"], read.cases["hypothesis"]))


#: The function of each column of :data:`~cases.DERIVED`.
COLUMNS: dict[str, Callable[[Read], Any]] = {
    function.__name__: function
    for function in (
        report_positive,
        report_negative,
        report_uncertain,
        exact_positive,
        contradictions,
        prior_positive,
        no_prior_positive,
        hypothesis_wording,
        attributes,
        hypothesis_repetition,
        reference_repetition,
    )
} | {"rougeL": rouge_l_of_pairs}
