"""The readers behind ``corpus.format``; CONTRIBUTING.md says how to add one."""

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
