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


FORMATS: dict[str, Format] = {
    reader.__name__.rpartition(".")[2]: Format(reader.read, reader.NAMES)
    for reader in (mimic_cxr, openi, r2gen, rg4, table)
}
