"""Reader of R2Gen's ``annotation.json``, for IU X-Ray and for MIMIC-CXR.

An IU X-Ray record has two images, the frontal first; a MIMIC-CXR record has a single image of
either view. A table gives the view of each image; without one, its place in the record does.
``report`` is the findings section.
"""

import re
from typing import Annotated

import polars as pl
from pydantic import BaseModel, Field

from pacer.config import Corpus
from pacer.data.account import LEFT_OUT, Account
from pacer.data.readers.files import Identifier, Text, read_records
from pacer.data.readers.views import choose_images, read_views, view_of
from pacer.data.source import Source
from pacer.data.values import MIMIC_PATH, bare_id

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


def read(source: Source, config: Corpus, account: Account) -> pl.DataFrame:
    """Return one study per record."""
    records = read_records(source.files["annotation"], "annotation", Record, account)
    records = records.rename({"report": "findings"})
    first = pl.col("image_path").list.first()
    for number, name in enumerate(("subject_id", "study_id"), start=1):
        # if the id is Open-I's, it identifies both subject and study
        others = first.str.extract(MIMIC_PATH, number), pl.col("id").str.extract(_OPENI_ID)
        records = records.with_columns(pl.coalesce(bare_id(name), *others).alias(name))
        records = account.divert(records, name, pl.col(name).is_null(), _NO_IDS)
    images, table = records["image_path"].to_list(), source.files.get("views")
    rows: list[tuple[str | None, str | None, str | None]]
    if table is None:
        account.count("assumed_views", "annotation", "images", sum(map(len, images)))
        # in MIMIC-CXR the order of images means nothing
        pairs = [
            None if len(names) == 1 or re.search(MIMIC_PATH, names[0]) else names[1]
            for names in images
        ]
        rows = [(names[0], "other", second) for names, second in zip(images, pairs, strict=True)]
    else:
        views = read_views(table)
        unknown = sum(view_of(views, name) is None for names in images for name in names)
        account.count("unknown_views", table.name, "images", unknown)
        rows = [choose_images(names, views) for names in images]
    columns = dict.fromkeys(("frontal", "view", "lateral"), pl.String())
    records = records.hstack(pl.DataFrame(rows, columns, orient="row"))
    return account.divert(records, "", pl.col("frontal").is_null(), "no frontal image", LEFT_OUT)
