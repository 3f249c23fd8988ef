"""The evaluation table: the pairs of texts with all columns that scores need, put together in one
place, :func:`evaluation_table`. Each other function here returns the columns that it makes.

Texts are put on one line, labelled (if there is a labeller), read by the rules, and compared word
by word. METEOR's program runs beside all this.
"""

from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

import polars as pl

from pacer.core.errors import DataError
from pacer.core.findings import FINDINGS
from pacer.core.schemas import TRUTH_SCHEMA, read_table
from pacer.metrics.cases import COLUMNS, LABELS, OPTIONAL, controls_of
from pacer.metrics.chunks import read_in_chunks
from pacer.metrics.columns import check_names, metric_columns, metrics_of
from pacer.metrics.language import meteor_columns, rouge_l, single_line
from pacer.metrics.meteor import MeteorError, meteor_run
from pacer.metrics.options import Scoring
from pacer.metrics.scores import SCORE_OF
from pacer.tables.columns import read_columns
from pacer.tables.ids import format_ids
from pacer.tables.values import mapped
from pacer.text.cleaning.cleaners import CLEANERS

#: The cleaner of original findings. The paper does not state in which form it used them; with their
#: raw text, rows of its Table 2 are hardly possible (docs/readings.md, Original references).
ORIGINALS = "upstream"
#: Names that would be mistaken for ids or row numbers, or that scoring computes itself.
_TAKEN = {
    "threshold",
    "states",
    "id",
    "ids",
    "image_id",
    "case",
    "index",
    "level_0",
    "rownames",
    "row_nr",
}


class EvaluationTable(NamedTuple):
    """Cases with all their columns. ``ledger``: the rows of their findings, which are collected
    last, as they are many. ``originals``: the cases whose original findings section is known, with
    it as reference. ``own``: the user's columns. ``meanings``: what the columns mean that the
    user's functions returned. ``failed``: scores that could not be computed, with the reason."""

    cases: pl.DataFrame
    ledger: pl.LazyFrame
    originals: pl.DataFrame
    own: pl.DataFrame
    meanings: dict[str, str]
    failed: dict[str, str]


def evaluation_table(pairs: pl.DataFrame, options: Scoring) -> EvaluationTable:
    """Return paired cases with everything that scores need."""
    texts = pairs.with_columns(single_line_texts(pairs))
    originals = against_originals(texts)
    failed: dict[str, str] = {}
    counts = None
    meteor = (
        nullcontext()
        if "meteor" in options.without
        else meteor_run(texts["reference"].to_list(), texts["hypothesis"].to_list())
    )
    with meteor as finish_meteor:
        own, meanings = own_columns(texts, options)
        labels = label_columns(texts, pairs["reference"], options)
        read, ledger = read_in_chunks(texts)
        truth = truth_columns(texts["study_id"], options.truth)
        if finish_meteor is not None:
            try:
                counts = finish_meteor()
            except MeteorError as error:
                failed["meteor"] = str(error)
    columns = [*unchanged_columns(texts), *labels, *read, *own, *truth]
    cases = texts.with_columns(columns).with_columns(meteor_columns(counts, len(texts)))
    return EvaluationTable(cases, ledger, originals, own, meanings, failed)


def single_line_texts(pairs: pl.DataFrame) -> list[pl.Expr]:
    """Return the reference and all hypotheses, each on one line."""
    return [mapped(name, single_line) for name in ("reference", *_hypotheses(pairs))]


def _hypotheses(cases: pl.DataFrame) -> list[str]:
    return ["hypothesis", *(f"{control}_hypothesis" for control in controls_of(cases))]


def unchanged_columns(texts: pl.DataFrame) -> list[pl.Series]:
    """Return for each control whether it gave the same report."""
    return [
        (texts[f"{name}_hypothesis"] == texts["hypothesis"]).alias(f"{name}_unchanged")
        for name in controls_of(texts)
    ]


def against_originals(texts: pl.DataFrame) -> pl.DataFrame:
    """Return the cases that have original findings, with these, cleaned, as references, and with
    ROUGE-L."""
    clean = CLEANERS[ORIGINALS]
    written = texts.filter(pl.col("findings_original").fill_null("") != "")
    references = [single_line(clean(text)) for text in written["findings_original"]]
    scores = list(map(rouge_l, references, written["hypothesis"]))
    return written.select(
        "context",
        "hypothesis",
        pl.Series("reference", references, pl.String),
        pl.Series("rougeL", scores, pl.Float64),
    )


def own_columns(texts: pl.DataFrame, options: Scoring) -> tuple[pl.DataFrame, dict[str, str]]:
    """Return the user's columns of the cases, from the file and from the functions, and what those
    from the functions mean."""
    read = pl.DataFrame()
    if options.settings.columns is not None:
        read = read_columns(options.settings.columns, texts["record_id"].to_list())
    functions = {**metrics_of(options.settings.metrics), **options.metrics}
    taken = {*_TAKEN, *COLUMNS, *OPTIONAL, *texts.columns, *SCORE_OF}
    check_names([*read.columns, *functions], taken)
    numbers, meanings = metric_columns(functions, texts)
    return pl.DataFrame([*read, *numbers]), meanings


def label_columns(texts: pl.DataFrame, given: pl.Series, options: Scoring) -> list[pl.Series]:
    """Return CheXbert's labels of every text; null columns without a labeller. Labels of the
    references come from the file ``options.labels`` if there is one; it is created, from the
    references as they were ``given``, if it does not exist."""
    if options.chexbert is None:
        nothing = [None] * len(texts)
        return [
            pl.Series(f"{side}_labels", nothing, LABELS) for side in ("reference", "hypothesis")
        ]
    # imports torch, which no other score needs
    from pacer.backbones.chexbert import CheXbert, known_labels, label_references

    sides = _hypotheses(texts)
    if options.labels is None:
        return CheXbert(options.chexbert).columns(texts, [*sides, "reference"])
    references = texts.select("record_id", report=given)
    if not options.labels.is_file():
        label_references(references, options.chexbert, options.labels)
    known = known_labels(options.labels, references, options.chexbert)
    labels = pl.Series("reference_labels", known, dtype=LABELS)
    return [labels, *CheXbert(options.chexbert).columns(texts, sides)]


def truth_columns(studies: pl.Series, path: Path | None) -> list[pl.Series]:
    """Return the latent findings of each case's study, ``truth``, if there is a file of them.
    Raises a DataError, as :func:`~pacer.core.schemas.read_table`; or a study is missing."""
    if path is None:
        return []
    table = read_table(path, TRUTH_SCHEMA)
    ids = studies.to_frame("study_id")
    if missing := ids.join(table, on="study_id", how="anti")["study_id"].to_list():
        raise DataError(f"{path} does not contain study {format_ids(missing, 1)}")
    stated = pl.concat_list(
        pl.when(pl.col(finding)).then(pl.lit(finding)) for finding in FINDINGS
    ).list.drop_nulls()
    latent = table.select("study_id", stated.alias("truth"))
    joined = ids.join(latent, on="study_id", how="left", maintain_order="left")
    return [joined["truth"]]
