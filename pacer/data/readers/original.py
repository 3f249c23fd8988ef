"""Original findings of MIMIC-CXR by study: the references of scores against original reports.

They come from R2Gen's ``annotation.json`` or from PhysioNet's report files. The words are unchanged; white space is
collapsed to single blanks.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import polars as pl
from pydantic import BaseModel

from pacer.core.errors import DataError
from pacer.data.account import Account
from pacer.data.readers.annotations import Name, Text, read_records
from pacer.data.readers.mimic_cxr import read_reports
from pacer.data.values import bare_id, mapped


class Record(BaseModel):
    study_id: Name
    report: Text


def read_original_findings(path: Path | None) -> pl.DataFrame:
    """Read ``study_id`` (unique, without MIMIC's letter) and ``findings_original``; the first text of a study counts.

    Args:
        path: R2Gen's annotation file, a folder with PhysioNet's report files at any depth, or a zip archive of it.
            None if there are no originals.

    Raises:
        DataError: the source is missing, is none of the three, or has a record or file that cannot be read.
    """
    if path is None:
        return pl.DataFrame(schema={"study_id": pl.String(), "findings_original": pl.String()})
    if path.is_dir() or path.suffix.lower() == ".zip" or zipfile.is_zipfile(path):
        originals = read_reports(path).select(study_id="study", report=pl.col("findings").fill_null(""))
    else:
        account = Account()
        originals = read_records(path, "original", Record, account)
        if account.problems.height:
            first = account.problems.row(0, named=True)
            problem = f"{path} {first['row']} {first['field']}: {first['reason']}"
            raise DataError(f"{problem} (is this R2Gen's annotation file for MIMIC-CXR?)")
    words = mapped("report", lambda report: " ".join(report.split()))
    originals = originals.select(bare_id("study_id"), words.alias("findings_original"))
    originals = originals.unique("study_id", keep="first", maintain_order=True)
    return originals.filter(pl.col("findings_original") != "")
