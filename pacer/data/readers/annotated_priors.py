"""Check of the previous reports in MIMIC-RG4's annotations against PhysioNet's metadata: are they of earlier studies?

Files were published in which a patient's studies follow their ids, which are not in the order of their dates.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import polars as pl

from pacer.data.account import Account
from pacer.data.cleaning import clean_report
from pacer.data.readers.mimic_cxr import read_reports, study_times
from pacer.data.values import MIMIC_PATH

_EARLIER, _LATER, _SAME = "of an earlier study", "of a later study", "of the same study"
_OTHER, _UNORDERED = "of another patient", "the order of the two studies is not known"
_AMBIGUOUS, _NOT_FOUND = "its text is of several studies", "its study was not found"
_PLACE = ("file", "row", "id")


#: Subject, day and time of each study.
_Known = dict[str, tuple[str, float | None, float | None]]


def check_priors(records: pl.DataFrame, metadata: Path, reports: Path | None, account: Account) -> None:
    """Count and list the records whose previous report is not of an earlier study of the same patient.

    A previous report is found by the path of its image (``prior_image``), else by its text among the patient's reports
    (PhysioNet's ``reports``, if given). Each doubt is a line of kind ``doubted`` in the account, which costs no record.
    """
    of_prior = ("prior_image", "prior_findings", "prior_impression")
    with_prior = records.drop_nulls("prior_report").select(*_PLACE, "context", "subject_id", "study_id", *of_prior)
    known: _Known = {study: (subject, *time) for subject, study, *time in study_times(metadata).iter_rows()}
    texts = {} if reports is None else _texts(reports, known)
    doubts = []
    for row in with_prior.iter_rows(named=True):
        if named := re.search(MIMIC_PATH, row["prior_image"] or ""):
            candidates = [named.groups()]
        else:
            subject, letters = row["subject_id"], _letters(row["prior_findings"], row["prior_impression"])
            candidates = [(subject, study) for study in texts.get((subject, letters), ())]
        relations = {_relation(row, subject, study, known) for subject, study in candidates} or {_NOT_FOUND}
        relation = relations.pop() if len(relations) == 1 else _AMBIGUOUS
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


def _texts(reports: Path, known: _Known) -> dict[tuple[str, str], list[str]]:
    """Return studies by their patient and the letters of their findings and impression, together and alone."""
    texts: dict[tuple[str, str], list[str]] = {}
    for study, findings, impression in read_reports(reports).select("study", "findings", "impression").iter_rows():
        if study in known:
            for letters in {_letters(findings, impression), _letters(findings), _letters(impression)} - {""}:
                texts.setdefault((known[study][0], letters), []).append(study)
    return texts


def _letters(*sections: str | None) -> str:
    """Return the letters and digits of the cleaned text: annotations may hold a text that was cleaned before."""
    return re.sub("[^a-z0-9]", "", "".join(clean_report(section or "") for section in sections))
