"""The frame that every reader returns: one row per examination, with its available sources."""

import hashlib

import polars as pl

from pacer.config import Corpus
from pacer.core.contexts import CONTEXTS, availability
from pacer.data.schemas import PRIOR_SCHEMA
from pacer.data.values import mapped

#: Columns of the frame. Texts are unchanged; an absent value is null, never blank.
STUDY_SCHEMA: dict[str, pl.DataType] = {
    "file": pl.String(),
    "row": pl.String(),  # as in problems.csv
    "rows": pl.Int64(),  # number of input rows behind the study
    "id": pl.String(),  # unique in each of its contexts
    # contexts in which the study has a record; null: all that frontal, lateral and prior_study_id allow
    "contexts": pl.List(pl.String()),
    "split": pl.String(),  # train | val | test; null: drawn by subject
    "study_id": pl.String(),
    "subject_id": pl.String(),
    "day": pl.Date(),  # null if the input has no dates
    "view": pl.String(),  # AP | PA | other
    "frontal": pl.String(),  # path relative to the image folder
    "lateral": pl.String(),
    "findings": pl.String(),
    "impression": pl.String(),
    "prior_findings": pl.String(),
    "prior_impression": pl.String(),
    "indication": pl.String(),
    "history": pl.String(),
    "emphasis": pl.List(pl.Float32()),  # per token of the cleaned findings and impression, BOS first
    **PRIOR_SCHEMA,  # null if the input has only the text
}


def study_frame(studies: pl.DataFrame, config: Corpus) -> pl.DataFrame:
    """Complete a reader's frame to :data:`STUDY_SCHEMA`: missing columns become null and ``rows`` 1, and missing
    contexts and splits are filled in."""
    absent = {name: pl.lit(None, kind) for name, kind in STUDY_SCHEMA.items() if name not in studies.columns}
    studies = studies.with_columns(**absent).with_columns(pl.col("rows").fill_null(1))
    shares = config.split
    drawn = mapped("subject_id", lambda subject: seeded_split(subject, config.seed, shares.val, shares.test))
    contexts = []
    for context in CONTEXTS:
        lateral, prior = availability(context)
        sources = [pl.col("lateral")] * lateral + [pl.coalesce("prior_findings", "prior_impression")] * prior
        contexts.append(pl.when(True, *(source.is_not_null() for source in sources)).then(pl.lit(context)))
    return studies.with_columns(
        split=pl.coalesce("split", drawn) if studies["split"].null_count() else pl.col("split"),
        contexts=pl.coalesce("contexts", pl.concat_list(contexts).list.drop_nulls()),
    ).select(pl.col(name).cast(kind) for name, kind in STUDY_SCHEMA.items())


def seeded_split(subject_id: str, seed: int, val: float, test: float) -> str:
    """Return the split of a subject: ``train``, ``val`` or ``test``.

    A keyed hash maps the id to [0, 1); test is the lower end and val the upper end. So adding or removing subjects does
    not move others, and a larger share of val or test takes subjects only from train. Shares hold in expectation.
    """
    key = hashlib.blake2b(str(seed).encode()).digest()
    digest = hashlib.blake2b(subject_id.encode("utf-8", "surrogatepass"), digest_size=8, key=key).digest()
    # a float holds 53 bits exactly, so the value stays below 1
    place = (int.from_bytes(digest, "big") >> 11) / 2**53
    if place < test:
        return "test"
    return "val" if place >= 1 - val else "train"
