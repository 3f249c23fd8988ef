"""Check of the previous reports in MIMIC-RG4's annotations against PhysioNet's metadata: are they of earlier studies?

Files were published in which a patient's studies follow their ids, which are not in the order of their dates.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from pacer.data.account import Account
from pacer.data.cleaning import clean_report
from pacer.data.readers.mimic_cxr import read_reports, study_times
from pacer.data.values import MIMIC_PATH

#: Kind of the lines in ``problems.csv``, which cost no record.
DOUBTED = "doubted"
#: Topics of the audit.
CHECKED, DOUBTS = "checked_priors", "doubted_priors"
_EARLIER, _LATER, _SAME = "of an earlier study", "of a later study", "of the same study"
_OTHER, _UNORDERED = "of another patient", "the order of the two studies is not known"
_AMBIGUOUS, _NOT_FOUND = "its text is of several studies, earlier and not", "its study was not found"


class _Study(NamedTuple):
    subject: str
    day: float | None
    clock: float | None


def check_priors(studies: pl.DataFrame, metadata: Path, reports: Path | None, account: Account) -> None:
    """Count and list the studies whose previous report is not of an earlier study of the same patient.

    A previous report is found by the path of its image (``prior_image``), else by its text among the patient's reports.

    Args:
        studies: the frame of the reader, with ``prior_image``. metadata, reports: as in
            :mod:`pacer.data.readers.mimic_cxr`; without ``reports`` no text is compared.
        account: gets the topics :data:`CHECKED` and :data:`DOUBTS`, and a line of kind :data:`DOUBTED` for each doubt.
    """
    with_prior = studies.filter(pl.col("prior_findings").is_not_null() | pl.col("prior_impression").is_not_null())
    known = {study: _Study(subject, *time) for subject, study, *time in study_times(metadata).iter_rows()}
    texts = {} if reports is None else _texts(reports, known)
    doubts = []
    for row in with_prior.iter_rows(named=True):
        relations = {_relation(row, study, known) for study in _candidates(row, texts)} or {_NOT_FOUND}
        relation = relations.pop() if len(relations) == 1 else _AMBIGUOUS
        [context] = row["contexts"]
        account.count(CHECKED if relation == _EARLIER else DOUBTS, context, relation)
        if relation != _EARLIER:
            doubts.append({name: row[name] for name in ("file", "row", "id")} | {"reason": relation})
    lines = pl.DataFrame(doubts, dict.fromkeys(("file", "row", "id", "reason"), pl.String()))
    account.add(lines.with_columns(field=pl.lit("last_finding"), kind=pl.lit(DOUBTED), rows=pl.lit(0)))


def _candidates(row: dict[str, Any], texts: dict[str, dict[str, list[str]]]) -> list[str]:
    """Return the study that the previous image's path names, else the patient's studies with the previous text."""
    if named := re.search(MIMIC_PATH, row["prior_image"] or ""):
        return [named[2]]
    return texts.get(row["subject_id"], {}).get(_letters(row["prior_findings"], row["prior_impression"]), [])


def _relation(row: dict[str, Any], study: str, known: dict[str, _Study]) -> str:
    if study == row["study_id"]:
        return _SAME
    if study not in known:
        return _NOT_FOUND
    prior, current = known[study], known.get(row["study_id"])
    if prior.subject != row["subject_id"]:
        return _OTHER
    if current is None:
        return _UNORDERED
    same_day = prior.day == current.day
    before, now = (prior.clock, current.clock) if same_day else (prior.day, current.day)
    if before is None or now is None or before == now:
        return _UNORDERED
    return _EARLIER if before < now else _LATER


def _texts(reports: Path, known: dict[str, _Study]) -> dict[str, dict[str, list[str]]]:
    """Return each patient's studies by the letters of their findings and impression, together and alone."""
    texts: dict[str, dict[str, list[str]]] = {}
    for study, findings, impression in read_reports(reports).select("study", "findings", "impression").iter_rows():
        if study in known:
            of_patient = texts.setdefault(known[study].subject, {})
            for letters in _forms(findings, impression):
                of_patient.setdefault(letters, []).append(study)
    return texts


def _forms(findings: str | None, impression: str | None) -> Iterator[str]:
    forms = {_letters(findings, impression), _letters(findings, None), _letters(None, impression)}
    yield from forms - {""}


def _letters(*sections: str | None) -> str:
    """Return the letters and digits of the cleaned text: annotations may hold a text that was cleaned before."""
    return re.sub("[^a-z0-9]", "", "".join(clean_report(section or "") for section in sections))
