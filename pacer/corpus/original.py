"""Findings of MIMIC-CXR as they were written, by study: the references of scores against original reports.

Three sources hold them: R2Gen's ``annotation.json``, PhysioNet's report files in their folders
(``.../p10/p10000032/s50414267.txt``), and the same tree inside ``mimic-cxr-reports.zip``. The words stay as they are;
only white space is collapsed to single blanks.
"""

from __future__ import annotations

import os
import re
import zipfile
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pacer.core.errors import DataError
from pacer.core.progress import Ticker, track
from pacer.corpus.json_stream import stream_records

_REPORT_FILE = re.compile(r"(?:^|/)s([0-9]+)\.txt\Z")
_STUDY_ID = re.compile(r"s?([0-9]+)")

#: A section of findings, alone or with the impression, which then is part of it.
_FINDINGS = re.compile(
    r"(?:FINDINGS?(?:\s*(?:AND|OR|/|,|&)\s*(?:IMPRESSIONS?|CONCLUSIONS?))?"
    r"|(?:IMPRESSIONS?|CONCLUSIONS?)\s*(?:AND|OR|/|&)\s*FINDINGS?)"
)
#: How the headings of all other sections begin. Any other capitals before a colon ("LINES AND TUBES:", "HEART:") are
#: headings inside the findings and stay.
_OTHER_SECTION = re.compile(
    r"(?:IMPRESSION|CONCLUSION|SUMMARY|OPINION|RECOMMENDATION|NOTIFICATION|ATTESTATION|ADDENDUM|FINAL ADDENDUM"
    r"|FINAL REPORT|WET READ|PRELIMINARY|PROVISIONAL|PFI|INDICATION|CLINICAL|HISTORY|PATIENT HISTORY|REASON"
    r"|COMPARISON|TECHNIQUE|EXAM|STUDY|PROCEDURE|DIAGNOSIS|TYPE OF EXAM)"
)
#: A heading is in capitals and ends with a colon; some stand alone in their line.
_HEADING = re.compile(
    r"^[ \t]*(?:([A-Z][A-Z \t,/&().-]{0,70}):|((?:FINAL )?ADDENDUM|FINAL REPORT|FINDINGS?|IMPRESSION)[ \t]*$)", re.M
)


@dataclass
class OriginalFindings:
    """What was read.

    Attributes:
        findings: study id without letter -> findings as written.
        without_findings: studies whose reports have no findings section, or an empty one.
        conflicting: studies that occur several times with different texts; the first one counts.
        not_found: wanted studies that the source does not hold.
    """

    findings: dict[str, str] = field(default_factory=dict)
    without_findings: int = 0
    conflicting: int = 0
    not_found: int = 0


class _Collector:
    """Keeps the first text of every study and notices others."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.conflicting: set[str] = set()

    def add(self, study: str, text: str | None) -> None:
        text = " ".join((text or "").split())
        if self.texts.setdefault(study, text) != text:
            self.conflicting.add(study)

    def result(self, wanted: Collection[str] | None) -> OriginalFindings:
        findings = {study: text for study, text in self.texts.items() if text}
        return OriginalFindings(
            findings=findings,
            without_findings=len(self.texts) - len(findings),
            conflicting=len(self.conflicting),
            not_found=len(set(wanted or ()) - self.texts.keys()),
        )


def read_original_findings(path: Path, wanted: set[str] | None = None) -> OriginalFindings:
    """Read the original findings of MIMIC-CXR.

    Args:
        path: R2Gen's annotation file, a folder that holds PhysioNet's report files at any depth, or their zip archive.
        wanted: ids of the studies to read, without letter; None for all.

    Raises:
        DataError: the source is missing, is none of the three, or holds a record or file that cannot be read.
    """
    path = Path(path)
    collector = _Collector()
    if path.is_dir():
        _read_folder(path, wanted, collector)
    elif not path.exists():
        raise DataError(f"{path} does not exist; give R2Gen's annotation.json, the folder of MIMIC-CXR report files, "
                        "or mimic-cxr-reports.zip")
    elif path.suffix.lower() == ".zip" or zipfile.is_zipfile(path):
        _read_zip(path, wanted, collector)
    else:
        _read_annotations(path, wanted, collector)
    return collector.result(wanted)


def extract_findings(report_text: str) -> str | None:
    """The findings section of a MIMIC-CXR report file with white space collapsed, or None when it has none.

    A section ends at the next heading of another section. "FINDINGS AND IMPRESSION" is a findings section. Of several
    the last one that is not empty counts: preliminary readings stand before the final report.
    """
    end, found = len(report_text), list(_HEADING.finditer(report_text))
    for heading in reversed(found):
        name = (heading[1] or heading[2]).strip()
        if _FINDINGS.fullmatch(name):
            if words := report_text[heading.end() : end].split():
                return " ".join(words)
        elif not _OTHER_SECTION.match(name):
            continue
        end = heading.start()
    return None


def _read_annotations(path: Path, wanted: Collection[str] | None, collector: _Collector) -> None:
    with Ticker("original findings", None if wanted is None else len(wanted)) as ticker:
        for split, index, record in stream_records(path):
            if not isinstance(record, dict):
                raise DataError(f"{path}: record {index} of {split} must be an object, found a {type(record).__name__}")
            study = _study_id(record.get("study_id"))
            if study is None:
                raise DataError(f"{path}: record {index} of {split} has no usable study_id; expected a number such as "
                                "50414267 (is this R2Gen's MIMIC-CXR annotation file?)")
            report = record.get("report")
            if not isinstance(report, str):
                raise DataError(f"{path}: record {index} of {split} has no report text")
            if wanted is None or study in wanted:
                ticker.advance(int(study not in collector.texts))
                collector.add(study, report)


def _study_id(value: object) -> str | None:
    """50414267, "50414267" and "s50414267" are the same study."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    match = _STUDY_ID.fullmatch(str(value))
    return match[1] if match else None


def _read_folder(path: Path, wanted: Collection[str] | None, collector: _Collector) -> None:
    def failed(error: OSError) -> None:
        raise DataError(f"{error.filename} cannot be read: {error.strerror}")

    names = (os.path.join(folder, name) for folder, _, files in os.walk(path, onerror=failed) for name in files)
    chosen = _chosen((name.replace(os.sep, "/") for name in names), wanted, path)
    for study, name in track(chosen, "original findings", len(chosen)):
        try:
            content = Path(name).read_bytes()
        except OSError as error:
            raise DataError(f"{name} cannot be read: {error.strerror}") from None
        collector.add(study, extract_findings(_decode(content, name)))


def _read_zip(path: Path, wanted: Collection[str] | None, collector: _Collector) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            chosen = _chosen(iter(archive.namelist()), wanted, path)
            for study, name in track(chosen, "original findings", len(chosen)):
                collector.add(study, extract_findings(_decode(archive.read(name), f"{path}:{name}")))
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError) as error:
        raise DataError(f"{path} cannot be read as a zip archive: {error}; download it again") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None


def _chosen(names: Iterator[str], wanted: Collection[str] | None, source: Path) -> list[tuple[str, str]]:
    """Study and name of the report files to read, sorted, so that what comes first does not depend on the disk."""
    chosen, any_file = [], False
    for name in names:
        if match := _REPORT_FILE.search(name):
            any_file = True
            if wanted is None or match[1] in wanted:
                chosen.append((match[1], name))
    if not any_file:
        raise DataError(f"{source} holds no MIMIC-CXR report files; expected names such as "
                        "p10/p10000032/s50414267.txt")
    return sorted(chosen)


def _decode(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        # Another encoding would be a guess, and a wrong guess silently changes the references.
        raise DataError(f"{name} is not valid UTF-8: {error.reason} at byte {error.start}") from None
