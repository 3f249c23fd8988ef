"""The readers behind ``corpus.format``. To add one, write

1. ``read(source, config, account)`` in a separate file. It returns a frame with columns of
   :data:`pacer.data.studies.STUDY_SCHEMA`, counts each row in ``account.read`` and lists unused rows with
   ``account.divert``. Rows used, listed and beyond ``corpus.limit`` must add up to the rows read. It raises DataError
   if a file as a whole is missing or malformed, and may count topics of :mod:`pacer.data.audit`. The reader also finds
   previous studies: either build one row per image and call :func:`pacer.data.readers.image_rows.studies_of`, which
   reads dates, splits and views and finds the previous report, or call :func:`pacer.data.priors.choose_priors`;
2. an entry of :data:`FORMATS`: the function, and the names of its fields in messages;
3. its files by role in :func:`pacer.data.source.named_files`, and its keys in :mod:`pacer.config.corpus` and
   ``configs/phantom.yaml``.

Joining of sections, cleaning, contexts, limits, images, ids and the audit are shared by all formats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import polars as pl

from pacer.config import Corpus
from pacer.data.account import Account
from pacer.data.readers import mimic_cxr, openi, r2gen, rg4, table
from pacer.data.source import Source


class Format(NamedTuple):
    """A reader, and the names that its input files use for the columns of its frame, for messages."""

    read: Callable[[Source, Corpus, Account], pl.DataFrame]
    names: Mapping[str, str]


_OF_PREVIOUS = {f"prior_{name}": f"{name} of the previous study" for name in ("findings", "impression")}

FORMATS: dict[str, Format] = {
    "rg4": Format(rg4.read, rg4.NAMES),
    "mimic_cxr": Format(mimic_cxr.read, {"frontal": "dicom_id", "lateral": "dicom_id"} | _OF_PREVIOUS),
    "r2gen": Format(r2gen.read, {"findings": "report", "frontal": "image_path", "lateral": "image_path"}),
    "openi": Format(openi.read, {"frontal": "parentImage", "lateral": "parentImage"}),
    "table": Format(table.read, {"frontal": "image", "lateral": "image"} | _OF_PREVIOUS),
}
