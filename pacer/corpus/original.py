"""Findings of MIMIC-CXR as they were written, by study: the references of scores against original reports.

Three sources hold them: R2Gen's ``annotation.json``, PhysioNet's report files in their folders
(``.../p10/p10000032/s50414267.txt``), and the same tree inside ``mimic-cxr-reports.zip``. The words stay as they are;
only white space is collapsed to single blanks.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pacer.core.errors import DataError
from pacer.core.io import files_below
from pacer.core.progress import Ticker, track
from pacer.corpus.mimic import bare_id
from pacer.corpus.source.json_stream import stream_records

_REPORT_FILE = re.compile(r"(?:^|/)s([0-9]+)\.txt\Z")
_NUMBER = re.compile(r"[0-9]+")

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
    if path.is_dir():
        return _collect(_of_folder(path))
    if not path.exists():
        raise DataError(
            f"{path} does not exist; give R2Gen's annotation.json, the folder of MIMIC-CXR report files, "
            "or mimic-cxr-reports.zip"
        )
    if path.suffix.lower() == ".zip" or zipfile.is_zipfile(path):
        return _collect(_of_zip(path))
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


def _of_annotations(path: Path) -> Iterator[tuple[str, str]]:
    with Ticker("original findings", None) as ticker:
        for split, index, record in stream_records(path):
            if not isinstance(record, dict):
                raise DataError(f"{path}: record {index} of {split} must be an object, found a {type(record).__name__}")
            study = _study_id(record.get("study_id"))
            if study is None:
                raise DataError(
                    f"{path}: record {index} of {split} has no usable study_id; expected a number such as "
                    "50414267 (is this R2Gen's MIMIC-CXR annotation file?)"
                )
            report = record.get("report")
            if not isinstance(report, str):
                raise DataError(f"{path}: record {index} of {split} has no report text")
            yield study, report
            ticker.advance()


def _study_id(value: object) -> str | None:
    """50414267, "50414267" and "s50414267" are the same study."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    bare = bare_id(str(value))
    return bare if _NUMBER.fullmatch(bare) else None


def _of_folder(path: Path) -> Iterator[tuple[str, str | None]]:
    chosen = _chosen((file.as_posix() for file in files_below(path)), path)
    for study, name in track(chosen, "original findings", len(chosen)):
        try:
            content = Path(name).read_bytes()
        except OSError as error:
            raise DataError(f"{name} cannot be read: {error.strerror}") from None
        yield study, extract_findings(_decode(content, name))


def _of_zip(path: Path) -> Iterator[tuple[str, str | None]]:
    try:
        with zipfile.ZipFile(path) as archive:
            chosen = _chosen(archive.namelist(), path)
            for study, name in track(chosen, "original findings", len(chosen)):
                yield study, extract_findings(_decode(archive.read(name), f"{path}:{name}"))
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError) as error:
        raise DataError(f"{path} cannot be read as a zip archive: {error}; download it again") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None


def _chosen(names: Iterable[str], source: Path) -> list[tuple[str, str]]:
    """Study and name of the report files, sorted, so that what comes first does not depend on the source."""
    chosen = sorted((match[1], name) for name in names if (match := _REPORT_FILE.search(name)))
    if not chosen:
        raise DataError(f"{source} holds no MIMIC-CXR report files; expected names such as p10/p10000032/s50414267.txt")
    return chosen


def _decode(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        # Another encoding would be a guess, and a wrong guess silently changes the references.
        raise DataError(f"{name} is not valid UTF-8: {error.reason} at byte {error.start}") from None
