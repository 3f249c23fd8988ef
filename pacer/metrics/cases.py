"""The evaluation table, one row per record: texts, labels and row scores. It is saved as
``cases.parquet``.

It begins with reports paired strictly with their records: exactly one for each, none left over.
:mod:`pacer.metrics.table` adds all further columns. The file holds what other evaluation
packages read (``reference``, ``hypothesis``) and what `pacer compare` and `pacer show` need; other
columns, such as ``prior_report``, serve only until the case is scored.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
import polars as pl

from pacer.core.anchor import POLARITIES
from pacer.core.contexts import CONTEXTS

#: Context name for reports whose inputs are unknown.
UNKNOWN = "all"
#: Name of the row that averages the contexts.
MEAN = "mean"

#: A list of names of findings, or of other words.
WORDS = pl.List(pl.String)
#: CheXbert's class of each observation; null without a labeller.
LABELS = pl.List(pl.Int64)
#: Columns made from the texts of a case by :mod:`pacer.metrics.reading`. The texts are
#: ``reference``, ``hypothesis`` (the system's report) and, where there are any, others such as
#: ``prior_report``. Among the columns are:
#:
#: - ``report_positive`` and so on: what the rules read in the system's report;
#: - ``exact_positive``: affirmed findings that the report describes as the reference does;
#: - ``attributes``: how often side, severity and course agree, then how often the reference names
#:   them;
#: - ``contradictions``: findings in which a report contradicts its commitment;
#: - ``prior_positive``, ``no_prior_positive``: the findings that the previous report affirms, and
#:   the report that was written without it;
#: - ``hypothesis_wording``: rules of comparison that match in the report.
DERIVED: dict[str, pl.DataType] = {
    **{f"report_{polarity}": WORDS for polarity in POLARITIES},
    **dict.fromkeys(
        (
            "exact_positive",
            "contradictions",
            "prior_positive",
            "no_prior_positive",
            "hypothesis_wording",
        ),
        WORDS,
    ),
    "attributes": pl.List(pl.Int64),
    **dict.fromkeys(("hypothesis_repetition", "reference_repetition", "rougeL"), pl.Float64()),
}
#: Columns that every ``cases.parquet`` has. ``anchor_positive`` and so on: the generated
#: commitment; ``reference_positive`` and so on: what the rules read in the uncleaned reference;
#: ``gate``: the mean gate of the calibrator; ``fallback``: the output has no marked report, so
#: the raw text is scored.
COLUMNS: dict[str, pl.DataType] = {
    **dict.fromkeys(
        (
            "record_id",
            "context",
            "study_id",
            "subject_id",
            "reference",
            "hypothesis",
            "findings_original",
        ),
        pl.String(),
    ),
    **dict.fromkeys(("reference_labels", "hypothesis_labels"), LABELS),
    "meteor": pl.Float64(),
    "meteor_statistics": pl.List(pl.Float64),
    **{f"{side}_{name}": WORDS for side in ("anchor", "reference") for name in POLARITIES},
    **DERIVED,
    "gate": pl.Float64(),
    "fallback": pl.Boolean(),
}
#: Columns that some files have: the texts before they were cleaned and put on one line (null: the
#: same), a property by which records can be grouped (``view``), the findings of a generated world
#: (``truth``), and the probabilities of findings.
OPTIONAL = ("reference_raw", "hypothesis_raw", "view", "truth", "present", "absent")


def case_table(cases: pl.DataFrame, columns: Iterable[str]) -> pl.DataFrame:
    """Select the columns that ``cases.parquet`` keeps; ``columns``: those of the user. Of each
    control it keeps the labels of its report, and whether this equals the report from the case's
    own sources."""
    of_controls = [
        f"{control}_{what}" for control in controls_of(cases) for what in ("unchanged", "labels")
    ]
    names = dict.fromkeys((*COLUMNS, *OPTIONAL, *of_controls, *columns))
    changed = [
        pl.when(pl.col(f"{side}_raw") != pl.col(side)).then(f"{side}_raw").alias(f"{side}_raw")
        for side in ("reference", "hypothesis")
        if f"{side}_raw" in cases.columns
    ]
    table = cases.select(name for name in names if name in cases.columns).with_columns(changed)
    return table.cast(pl.Schema(COLUMNS))


def controls_of(cases: pl.DataFrame) -> list[str]:
    """Return the controls whose texts the table holds, as ``{control}_hypothesis``: reports that
    the same system wrote from changed sources, such as those of another patient."""
    return [
        name.removesuffix("_hypothesis") for name in cases.columns if name.endswith("_hypothesis")
    ]


def contexts_of(cases: pl.DataFrame) -> list[str]:
    """Return the contexts of the cases, in the paper's order."""
    present = set(cases["context"])
    return [name for name in (*CONTEXTS, UNKNOWN) if name in present]


def row_name(context: str) -> str:
    """Return a context in capitals, or ``Mean``."""
    return "Mean" if context == MEAN else context.upper()


def by_context(cases: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Return the cases of each context, in the paper's order."""
    names = contexts_of(cases)
    if len(names) == 1:
        return {names[0]: cases}  # a filter would copy all texts
    return {name: cases.filter(context=name) for name in names}


def is_labelled(cases: pl.DataFrame) -> bool:
    """Return whether the cases were scored with a labeller."""
    return cases["hypothesis_labels"].null_count() == 0


def is_empty(side: str) -> pl.Expr:
    """Return whether a text consists only of spaces and periods."""
    return pl.col(side).str.strip_chars(" .") == ""


def labels_of(cases: pl.DataFrame, texts: str) -> np.ndarray:
    """Return CheXbert's labels ``[n, 14]`` of the ``reference``, the ``hypothesis`` or a control's
    report."""
    return np.array(cases[f"{texts}_labels"].to_list())


def plain_mean(values: Sequence[float | None]) -> float | None:
    """Return the mean; ``None`` if there are no values or any value is undefined."""
    known = [value for value in values if value is not None]
    return sum(known) / len(values) if values and len(known) == len(values) else None


def with_mean(
    scores: Mapping[str, dict[str, float | None]], counts: Collection[str]
) -> dict[str, dict[str, float | None]]:
    """Add ``mean`` to the scores of contexts: each score that all of them have, averaged over them.
    The ``counts`` have no mean. Nothing is added if the cases are not divided into the four
    contexts."""
    contexts = list(scores.values())
    if not set(scores) <= set(CONTEXTS):
        return dict(scores)
    mean = {
        name: plain_mean([context[name] for context in contexts])
        for name in contexts[0]
        if name not in counts and all(name in context for context in contexts)
    }
    return {**scores, MEAN: mean}
