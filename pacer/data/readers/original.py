"""Findings of MIMIC-CXR as they were written, by study: the references of scores against original reports.

Three sources hold them: R2Gen's ``annotation.json``, PhysioNet's report files in their folders
(``.../p10/p10000032/s50414267.txt``), and the same tree inside ``mimic-cxr-reports.zip``. The words stay as they are;
only white space is collapsed to single blanks.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pacer.core.errors import DataError
from pacer.data.readers.annotations import read_annotations
from pacer.data.readers.mimic_reports import read_report_files
from pacer.data.sections import find_sections
from pacer.data.values import bare_id

_NUMBER = re.compile(r"[0-9]+")


@dataclass(frozen=True)
class OriginalFindings:
    """What was read.

    Attributes:
        findings: study id without MIMIC's letter -> findings as written.
        without_findings: studies whose reports have no findings section, or an empty one.
        conflicting: studies that occur several times with different findings; the first ones count.
    """

    findings: dict[str, str]
    without_findings: int
    conflicting: int


def read_original_findings(path: Path) -> OriginalFindings:
    """Read the original findings of MIMIC-CXR.

    Args:
        path: R2Gen's annotation file, a folder that holds PhysioNet's report files at any depth, or their zip archive.

    Raises:
        DataError: the source is missing, is none of the three, or holds a record or file that cannot be read.
    """
    path = Path(path)
    if not path.exists():
        raise DataError(
            f"{path} does not exist; give R2Gen's annotation.json, the folder of MIMIC-CXR report files, "
            "or mimic-cxr-reports.zip"
        )
    if path.is_dir() or path.suffix.lower() == ".zip" or zipfile.is_zipfile(path):
        reports = read_report_files(path, "original findings")
        return _collect((report.study, find_sections(report.text, report.study).findings) for report in reports)
    return _collect(_of_annotations(path))


def _collect(reports: Iterator[tuple[str, str | None]]) -> OriginalFindings:
    texts: dict[str, str] = {}
    conflicting: set[str] = set()
    for study, findings in reports:
        text = " ".join((findings or "").split())
        if texts.setdefault(study, text) != text:
            conflicting.add(study)
    found = {study: text for study, text in texts.items() if text}
    return OriginalFindings(found, without_findings=len(texts) - len(found), conflicting=len(conflicting))


def _of_annotations(path: Path) -> Iterator[tuple[str, str]]:
    for split, records in read_annotations(path).items():
        for index, record in enumerate(records):
            place = f"{path}: record {index} of {split}"
            if not isinstance(record, dict):
                raise DataError(f"{place} must be an object, not a {type(record).__name__}")
            study = _study_id(record.get("study_id"))
            if study is None:
                raise DataError(
                    f"{place} has no usable study_id; expected a number such as 50414267 (is this R2Gen's MIMIC-CXR "
                    "annotation file?)"
                )
            report = record.get("report")
            if not isinstance(report, str):
                raise DataError(f"{place} has no report text")
            yield study, report


def _study_id(value: object) -> str | None:
    """50414267, "50414267" and "s50414267" are the same study."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    bare = bare_id(str(value))
    return bare if _NUMBER.fullmatch(bare) else None
