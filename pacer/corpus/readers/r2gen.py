"""Reader of R2Gen's ``annotation.json``, for IU X-Ray and for MIMIC-CXR.

An IU X-Ray record has two images, the frontal first; a MIMIC-CXR record has a single image of
either view. The view of each image is read from a table, or assumed from its place in the record.
``report`` is the findings section.
"""

import re
from typing import Annotated

import polars as pl
from pydantic import BaseModel, Field

from pacer.config import Corpus
from pacer.corpus.account import LEFT_OUT, Notes, Rows
from pacer.corpus.readers.files import Identifier, Text, read_rows
from pacer.corpus.readers.views import choose_images, read_views, view_of
from pacer.corpus.source import Source
from pacer.tables.values import MIMIC_PATH, bare_id

NAMES = {"findings": "report", "frontal": "image_path", "lateral": "image_path"}
_NO_IDS = (
    "the field is missing, and neither the id (Open-I: CXR1_...) nor the image path (MIMIC: "
    ".../p<subject>/s<study>/...) contains it"
)
_OPENI_ID = r"^(CXR[0-9]+)(?:_|$)"


class Record(BaseModel):
    id: Identifier
    report: Text
    image_path: Annotated[list[Text], Field(min_length=1)]
    subject_id: Identifier | None = None
    study_id: Identifier | None = None


def read(source: Source, config: Corpus, notes: Notes) -> Rows:
    """Return one examination per record."""
    records = read_rows(source.files["annotation"], "annotation", Record, notes)
    records = records.with_columns(findings="report")
    first = pl.col("image_path").list.first()
    for number, name in enumerate(("subject_id", "study_id"), start=1):
        # if the id is Open-I's, it identifies both subject and study
        in_path = first.str.extract(MIMIC_PATH, number)
        in_id = pl.col("id").str.extract(_OPENI_ID)
        records = records.with_columns(pl.coalesce(bare_id(name), in_path, in_id).alias(name))
        records = records.exclude(name, pl.col(name).is_null(), _NO_IDS)
    images = records.used["image_path"].to_list()
    table = source.files.get("views")
    if table is None:
        notes.count("assumed_views", "annotation", "images", sum(map(len, images)))
        chosen = [_first_two(names) for names in images]
    else:
        views = read_views(table)
        num_unknown = sum(view_of(views, name) is None for names in images for name in names)
        notes.count("unknown_views", table.name, "images", num_unknown)
        chosen = [choose_images(names, views) for names in images]
    columns = dict.fromkeys(("frontal", "view", "lateral"), pl.String())
    with_images = records.used.hstack(pl.DataFrame(chosen, columns, orient="row"))
    records = records._replace(used=with_images)
    return records.exclude("", pl.col("frontal").is_null(), "no frontal image", LEFT_OUT)


def _first_two(names: list[str]) -> tuple[str | None, str | None, str | None]:
    """Return the frontal image, its view and the lateral image of a record, in which the frontal
    precedes the lateral. In MIMIC-CXR the order of images has no meaning."""
    has_lateral = len(names) > 1 and not re.search(MIMIC_PATH, names[0])
    return names[0], "other", names[1] if has_lateral else None
