"""The readers behind ``corpus.format``. To add one, write

1. ``read(source, config, account)`` in a file of its own: count each row in ``account.read``, list what is not used in
   the account, and give a frame of :data:`pacer.data.studies.STUDY_SCHEMA`; texts as they stand;
2. an entry of :data:`FORMATS`: that function, and what its fields are called in messages;
3. its files by role in :func:`pacer.data.source.named_files`, and its keys in :mod:`pacer.config.corpus`.

Joining sections, cleaning, contexts, limits, images, ids and the audit are done for every format alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from pacer.config import Corpus
from pacer.data.account import Account
from pacer.data.readers import mimic_cxr, openi, r2gen, rg4, table
from pacer.data.source import Source


@dataclass(frozen=True)
class Format:
    """One layout of annotation files.

    Attributes:
        read: its reader.
        images: names of the fields that hold the frontal and the lateral image, for messages.
        target: name of the field that holds the (first part of the) target report.
        prior: the same for the previous report.
    """

    read: Callable[[Source, Corpus, Account], pl.DataFrame]
    images: tuple[str, str]
    target: str
    prior: str


FORMATS: dict[str, Format] = {
    "rg4": Format(rg4.read, ("APPA_imagepath", "lateral_imagepath"), "finding", "last_finding"),
    "mimic_cxr": Format(mimic_cxr.read, ("dicom_id", "dicom_id"), "findings", "findings of the previous study"),
    "r2gen": Format(r2gen.read, ("image_path", "image_path"), "report", "-"),
    "openi": Format(openi.read, ("parentImage", "parentImage"), "findings", "-"),
    "table": Format(table.read, ("image", "image"), "findings", "findings of the previous study"),
}
