"""Reader of MIMIC-RG4's annotation files: one file per context, one record per examination.

Conventions of the released files: the text ``'s'`` marks an absent section, the number ``0`` an
absent indication or history, and a view other than AP or PA (another text, ``0`` or null) an
unknown view. Subject and study come from ``subject_id`` and ``study_id`` if a record has them, else
from the MIMIC path (``.../p10000032/s50414267/name.jpg``); MIMIC's letters are left out
(``50414267``), as in MIMIC's own tables.
"""

from pathlib import Path
from typing import Annotated, Any

import polars as pl
from pydantic import BaseModel, BeforeValidator, Field, create_model

from pacer.config import Corpus
from pacer.core.contexts import availability
from pacer.corpus.account import Notes, Rows
from pacer.corpus.readers.files import Identifier, Text, Unread, read_rows
from pacer.corpus.source import Source
from pacer.tables.values import MIMIC_PATH, bare_id

ABSENT_TEXT = "s"
#: Fields that have a different name in the files.
NAMES = {
    "frontal": "APPA_imagepath",
    "lateral": "lateral_imagepath",
    "view": "APPA_flag",
    "findings": "finding",
    "prior_findings": "last_finding",
    "prior_impression": "last_impression",
    "emphasis": "new_scores",
}
_NO_IDS = (
    "the path does not name a subject and a study; expected .../p<subject>/s<study>/..., or the "
    "fields subject_id and study_id"
)

#: Text, or 0 for none.
_Note = Annotated[
    Text | None, BeforeValidator(lambda value: None if type(value) is int and value == 0 else value)
]
_Weight = Annotated[float, Field(allow_inf_nan=False, gt=-1e38, lt=1e38)]


class Record(BaseModel):
    """A record; only contexts with a lateral view or a previous report have the last four
    fields."""

    id: Identifier
    finding: Text
    impression: Text
    APPA_flag: _Note
    APPA_imagepath: Text
    history: _Note
    indication: _Note
    subject_id: Identifier | None = None
    study_id: Identifier | None = None
    new_scores: list[_Weight] | None = None
    lateral_imagepath: Text | None = None
    last_finding: Text | None = None
    last_impression: Text | None = None
    last_APPA_imagepath: Unread = None


def read(source: Source, config: Corpus, notes: Notes) -> Rows:
    """Return the examinations in the files of ``config.contexts``, one context after the other."""
    parts = [_context(source.files[context], context, notes) for context in config.contexts]
    return Rows(pl.concat(part.used for part in parts), pl.concat(part.listed for part in parts))


def _context(path: Path, context: str, notes: Notes) -> Rows:
    has_lateral, has_prior = availability(context)
    has = {"lateral": has_lateral, "prior_findings": has_prior, "prior_impression": has_prior}
    unread: dict[str, Any] = {NAMES[name]: (Unread, None) for name in has if not has[name]}
    records = read_rows(path, context, create_model("Record", __base__=Record, **unread), notes)
    renamed = records.used.rename({theirs: ours for ours, theirs in NAMES.items()})
    records = records._replace(used=renamed)
    for name, is_required in has.items():
        if is_required:
            records = records.exclude(NAMES[name], pl.col(name).is_null(), "Field required")
    # upstream prefixes the unchanged path with the folder
    records = records.with_columns(pl.col("frontal", "lateral").str.strip_chars_start("/"))
    subject = pl.col("frontal").str.extract(MIMIC_PATH, 1)
    study = pl.col("frontal").str.extract(MIMIC_PATH, 2)
    records = records.with_columns(
        pl.col("findings", "impression", "prior_findings", "prior_impression").replace(
            ABSENT_TEXT, None
        ),
        subject_id=pl.coalesce(bare_id("subject_id"), subject),
        study_id=pl.coalesce(bare_id("study_id"), study),
        contexts=pl.lit([context]),
        view=pl.when(pl.col("view").is_in(["AP", "PA"])).then("view").otherwise(pl.lit("other")),
    )
    without_ids = pl.any_horizontal(pl.col("subject_id", "study_id").is_null())
    return records.exclude(NAMES["frontal"], without_ids, _NO_IDS)
