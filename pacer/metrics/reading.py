"""Reading of each pair of texts by the rules: columns of the cases, and their ledger of findings.

Worker processes import this module, so it does not import the configuration.
"""

from typing import Any

import polars as pl

from pacer.core.anchor import POLARITIES
from pacer.metrics.cases import DERIVED
from pacer.metrics.commitments import AFFIRMED_IN, side_switches
from pacer.metrics.ledger import (
    CONTRADICTS,
    IS_EXACT,
    WORDS,
    attribute_counts,
    compared,
    findings_of,
    lists_by_row,
    read_findings,
    with_states_of,
)
from pacer.metrics.nlg import with_word_scores
from pacer.text.cleaning.repetition import repetition
from pacer.text.cleaning.wording import prior_wording
from pacer.text.rules import extract_anchor

#: The control with another patient's sources, whose attributes agree only by chance.
_CHANCE = "another_patient_hypothesis"


def read_pairs(cases: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return new columns of the cases, and the ledger.

    The columns are :data:`~cases.DERIVED`; those of ROUGE-L and (still null) of METEOR; and
    ``reference_positive`` and so on if the cases lack them. The states of a reference's findings
    are those of its uncleaned text; attributes and places are those of the text that is scored.
    Nothing depends on other pairs.
    """
    before = cases.columns
    count = len(cases)
    if "reference_positive" not in cases.columns:
        anchors = [extract_anchor(text) for text in cases["reference_raw"]]
        cases = cases.with_columns(
            pl.Series(f"reference_{name}", [getattr(anchor, name) for anchor in anchors]).cast(
                WORDS
            )
            for name in POLARITIES
        )
    reference = read_findings(cases["reference"])
    report = read_findings(cases["hypothesis"])
    findings = findings_of(cases, reference, report)
    columns: dict[str, Any] = {
        "exact_positive": lists_by_row(findings, IS_EXACT, count),
        "copy_positive": lists_by_row(reference, pl.col("state") == "positive", count),
        "attributes": attribute_counts(findings, count),
        "contradictions": lists_by_row(findings, CONTRADICTS, count),
    }
    if _CHANCE in cases.columns:
        expected = with_states_of(cases, reference)
        chance = attribute_counts(compared(expected, read_findings(cases[_CHANCE])), count)
        columns["chance_attributes"] = chance
    for name in POLARITIES:
        columns[f"report_{name}"] = lists_by_row(report, pl.col("state") == name, count)
    for name, source in AFFIRMED_IN.items():
        if source in cases.columns:
            texts = cases[source]
            columns[name] = [None if one is None else extract_anchor(one).positive for one in texts]
    for side in ("hypothesis", "reference"):
        columns[f"{side}_wording"] = [prior_wording(text) for text in cases[side]]
        columns[f"{side}_side_switches"] = [side_switches(text) for text in cases[side]]
        columns[f"{side}_repetition"] = [repetition(text) for text in cases[side]]
    empty = [None] * count
    # polars infers the types of lists faster than it converts them one by one
    series = (pl.Series(name, columns.get(name, empty)) for name in DERIVED)
    derived = pl.DataFrame(series).cast(pl.Schema(DERIVED))
    # null, not empty, in records without a commitment or control
    where_known = {"contradictions": "anchor_positive", "chance_attributes": _CHANCE}
    cases = cases.hstack(derived).with_columns(
        pl.when(pl.col(source).is_not_null()).then(name)
        for name, source in where_known.items()
        if source in cases.columns
    )
    return with_word_scores(cases).drop(before), findings.drop("row")
