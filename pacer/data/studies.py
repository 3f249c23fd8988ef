"""The one frame that every reader gives: a row per examination, with the sources that it has."""

from __future__ import annotations

import polars as pl

from pacer.config import Corpus
from pacer.core.contexts import CONTEXTS, availability
from pacer.data.schemas import SPLITS
from pacer.data.splits import seeded_split
from pacer.data.values import mapped

#: Its columns. Texts stand as they are; null, and not blank, is what is absent.
STUDY_SCHEMA: dict[str, pl.DataType] = {
    "file": pl.String(),
    "row": pl.String(),  # as in problems.csv
    "rows": pl.Int64(),  # rows of the input that it is made of
    "id": pl.String(),  # unique in each of its contexts
    # those that it gives a record in; null: all that frontal, lateral and prior_study_id allow
    "contexts": pl.List(pl.String()),
    "split": pl.String(),  # train | val | test; null: drawn by subject
    "study_id": pl.String(),
    "subject_id": pl.String(),
    "view": pl.String(),  # AP | PA | other
    "frontal": pl.String(),  # path below the folder of the images
    "lateral": pl.String(),
    "findings": pl.String(),
    "impression": pl.String(),
    "prior_findings": pl.String(),
    "prior_impression": pl.String(),
    "prior_study_id": pl.String(),  # this and the next four: null where the input gives the text alone
    "gap_days": pl.Float64(),
    "rule": pl.String(),
    "tied": pl.Boolean(),
    "passed_over": pl.Int64(),
    "indication": pl.String(),
    "history": pl.String(),
    "emphasis": pl.List(pl.Float32()),  # of the tokens of the cleaned findings and impression, BOS first
}
#: Columns without null, and those with a fixed set of values.
_NEVER_NULL = ("file", "row", "id", "study_id", "subject_id", "view", "frontal")
_VALUES = {"view": ("AP", "PA", "other"), "split": SPLITS}


def study_frame(studies: pl.DataFrame, config: Corpus) -> pl.DataFrame:
    """The columns of :data:`STUDY_SCHEMA`: those that a reader does not give are null, ``rows`` 1, and contexts and
    splits are filled in.

    Raises:
        RuntimeError: the reader breaks the contract: a null or a value that the schema excludes.
    """
    absent = {name: pl.lit(None, kind) for name, kind in STUDY_SCHEMA.items() if name not in studies.columns}
    studies = studies.with_columns(**absent).with_columns(pl.col("rows").fill_null(1))
    for name in _NEVER_NULL:
        if studies[name].null_count():
            raise RuntimeError(f"the reader of corpus.format {config.format} gives a study without {name}")
    for name, allowed in _VALUES.items():
        if not studies[name].drop_nulls().is_in(allowed).all():
            raise RuntimeError(
                f"the reader of corpus.format {config.format} gives a {name} not in {', '.join(allowed)}"
            )
    shares = config.split
    drawn = mapped("subject_id", lambda subject: seeded_split(subject, config.seed, shares.val, shares.test))
    contexts = []
    for context in CONTEXTS:
        lateral, prior = availability(context)
        sources = ["lateral"] * lateral + ["prior_study_id"] * prior
        contexts.append(pl.when(True, *(pl.col(source).is_not_null() for source in sources)).then(pl.lit(context)))
    return studies.with_columns(
        split=pl.coalesce("split", drawn) if studies["split"].null_count() else pl.col("split"),
        contexts=pl.coalesce("contexts", pl.concat_list(contexts).list.drop_nulls()),
    ).select(pl.col(name).cast(kind) for name, kind in STUDY_SCHEMA.items())
