"""Reading of each pair of texts by the rules: columns of the cases, and their ledger of findings.

Worker processes import this module, so it does not import the configuration.
"""

from typing import Any

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


def read_pairs(cases: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return new columns of the cases, and the ledger.

    The columns are :data:`~cases.DERIVED`, and ``reference_positive`` and so on if the cases lack
    them. The states of a reference's findings are those of its uncleaned text; attributes and
    places are those of the text that is scored. Nothing depends on other pairs.
    """
    count, references, reports = len(cases), cases["reference"], cases["hypothesis"]
    listed = (
        []
        if "reference_positive" in cases.columns
        else _listed_in_references(cases["reference_raw"])
    )
    report = read_findings(reports)
    findings = findings_of(cases.with_columns(listed), read_findings(references), report)
    contradicted = lists_by_row(findings, CONTRADICTS, count)
    has_commitment = cases["anchor_positive"].is_not_null()
    columns: dict[str, Any] = {
        f"report_{name}": lists_by_row(report, pl.col("state") == name, count)
        for name in POLARITIES
    }
    columns |= {
        "exact_positive": lists_by_row(findings, IS_EXACT, count),
        "contradictions": pl.select(pl.when(has_commitment).then(contradicted)).to_series(),
        "prior_positive": _affirmed_in(cases, "prior_report"),
        "no_prior_positive": _affirmed_in(cases, "no_prior_hypothesis"),
        "hypothesis_wording": list(map(prior_wording, reports)),
        "attributes": attribute_counts(findings, count),
        "hypothesis_repetition": list(map(repetition, reports)),
        "reference_repetition": list(map(repetition, references)),
        "rougeL": list(map(rouge_l, references, reports)),
    }
    # polars infers the types of lists faster than it converts them one by one
    derived = [pl.Series(name, columns[name]).cast(kind) for name, kind in DERIVED.items()]
    return pl.DataFrame([*listed, *derived]), findings.drop("row")


def _listed_in_references(texts: pl.Series) -> list[pl.Series]:
    """Return the lists of findings that the rules read in uncleaned references, by polarity."""
    anchors = list(map(extract_anchor, texts))
    return [
        pl.Series(f"reference_{name}", [getattr(anchor, name) for anchor in anchors]).cast(WORDS)
        for name in POLARITIES
    ]


def _affirmed_in(cases: pl.DataFrame, column: str) -> list[Any]:
    """Return the findings that the texts of a column affirm; null where there is none."""
    if column not in cases.columns:
        return [None] * len(cases)
    return [None if text is None else extract_anchor(text).positive for text in cases[column]]
