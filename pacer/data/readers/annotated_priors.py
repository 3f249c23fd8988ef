"""Check of the previous reports in MIMIC-RG4's annotations against PhysioNet's metadata: are they of earlier studies?

Files were published in which a patient's studies follow their ids, which are not in the order of their dates.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import polars as pl

from pacer.data.account import Account
from pacer.data.readers.mimic_cxr import study_times
from pacer.data.values import MIMIC_PATH

_EARLIER, _LATER, _SAME = "of an earlier study", "of a later study", "of the same study"
_OTHER, _UNORDERED = "of another patient", "the order of the two studies is not known"
_NOT_FOUND = "its study was not found"
_PLACE = ("file", "row", "id")
#: Subject, day and time of each study.
_Known = dict[str, tuple[str, float | None, float | None]]


def check_priors(records: pl.DataFrame, metadata: Path, account: Account) -> None:
    """Count and list the records whose previous report is not of an earlier study of the same patient.

    The path of its image (``prior_image``) tells which study a previous report is of. Each doubt is a line of kind
    ``doubted`` in the account, which costs no record.
    """
    with_prior = records.drop_nulls("prior_report")
    known: _Known = {study: (subject, *time) for subject, study, *time in study_times(metadata).iter_rows()}
    doubts = []
    for row in with_prior.select(*_PLACE, "context", "subject_id", "study_id", "prior_image").iter_rows(named=True):
        named = re.search(MIMIC_PATH, row["prior_image"] or "")
        relation = _relation(row, *named.groups(), known) if named else _NOT_FOUND
        account.count("checked_priors" if relation == _EARLIER else "doubted_priors", row["context"], relation)
        if relation != _EARLIER:
            doubts.append((*(row[name] for name in _PLACE), relation))
    lines = pl.DataFrame(doubts, dict.fromkeys((*_PLACE, "reason"), pl.String()), orient="row")
    account.add(lines.with_columns(field=pl.lit("last_finding"), kind=pl.lit("doubted"), rows=pl.lit(0)))


def _relation(row: dict[str, Any], subject: str, study: str, known: _Known) -> str:
    """Return what a study is to that of a record; ``subject``: its patient, where it is not ``known``."""
    subject, *times = known.get(study, (subject,))
    if study == row["study_id"]:
        return _SAME
    if subject != row["subject_id"]:
        return _OTHER
    if not times:
        return _NOT_FOUND
    for before, now in zip(times, known.get(row["study_id"], ())[1:], strict=False):  # days, then times
        if before is None or now is None:
            break
        if before != now:
            return _EARLIER if before < now else _LATER
    return _UNORDERED
