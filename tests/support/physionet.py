"""A phantom world filed as PhysioNet ships MIMIC-CXR, with the peculiarities of the real files.

mimic-cxr-reports.zip                         files/p1x/p1xxxxxxx/s5xxxxxxx.txt, one report per study
mimic-cxr-2.0.0-metadata.csv.gz               a row per image: view, size, date and time
mimic-cxr-2.0.0-split.csv.gz                  a row per image: train, validate or test
files/p1x/p1xxxxxxx/s5xxxxxxx/<dicom_id>.jpg  radiographs

A study has one report, written with all the sources that it has.
"""

from __future__ import annotations

import gzip
import textwrap
import zipfile
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import polars as pl
from PIL import Image

from pacer.core.io import write_json
from pacer.data.source import describe_source
from pacer.phantom.language import fullest_report_of
from pacer.phantom.render import image_path
from pacer.phantom.world import PhantomStudy

#: The files of the corpus by what a reader needs them for.
ROLES = {
    "reports": "mimic-cxr-reports.zip",
    "metadata": "mimic-cxr-2.0.0-metadata.csv.gz",
    "split": "mimic-cxr-2.0.0-split.csv.gz",
}
#: Peculiarities and the shares of studies that have them, each drawn on its own.
QUIRKS = {
    "removed words": 0.5,  # ___ for age, names and dates, in the indication and the last section
    "other headings": 0.2,  # REASON FOR EXAM, CONCLUSION and the like
    "one heading": 0.06,  # FINDINGS AND IMPRESSION
    "no headings": 0.03,  # a title with the time of day; findings and impression are paragraphs below the comparison
    "no text": 0.03,  # neither findings nor impression, the heading alone
    "wet read": 0.1,  # a preliminary reading before the final report
    "addendum before": 0.06,  # of the final report
    "addendum after": 0.06,  # the impression
    "second frontal": 0.12,  # of the other direction
    "third frontal": 0.06,  # of the first one's direction
    "second lateral": 0.06,  # in studies with one
    "further view": 0.05,  # an image with a blank ViewPosition
    "no frontal view": 0.03,  # blank in all frontal images of the study
    "left lateral": 0.3,  # LL where others have LATERAL
    "same day": 0.15,  # as the previous study, some hours later
    "two splits": 0.03,  # the last of several images is in another split
    "no split": 0.03,  # the split file has none of its images
    "view in full": 0.1,  # ViewPosition is blank, ViewCodeSequence_CodeMeaning is not
}
#: What stands for FINDINGS, IMPRESSION, INDICATION, HISTORY and COMPARISON where headings are other ones.
_HEADINGS = ("FINDINGS", "IMPRESSION", "INDICATION", "HISTORY", "COMPARISON")
_OTHER_HEADINGS = (
    ("FINDING", "CONCLUSION", "REASON FOR EXAM", "CLINICAL HISTORY", "COMPARISONS"),
    ("CHEST, TWO VIEWS", "IMPRESSION", "REASON FOR EXAMINATION", "CLINICAL INFORMATION", "COMPARISON"),
    ("PORTABLE AP CHEST", "CONCLUSION", "CLINICAL INDICATION", "PATIENT HISTORY", "REFERENCE EXAM"),
)
_ONE_HEADING = ("FINDINGS AND IMPRESSION", "FINDINGS/IMPRESSION")
_RULE = f" {'_' * 78}"
_TITLE = " " * 33
#: Studies of a patient at most; each has its part of the day, so that those of one day keep their order.
_A_DAY = 8
#: Pixels of an image.
SIZE = 16
_PURPOSE = 60


class FiledImage(NamedTuple):
    """A row of the tables. ``name``: see :func:`~pacer.phantom.render.image_path`; ``split``: None where not listed."""

    name: str
    position: str
    split: str | None


@dataclass(frozen=True, slots=True)
class Filing:
    """How a study is filed. ``findings`` to ``history`` are the words of the report's sections, '' for none;
    ``made`` has milliseconds."""

    study: PhantomStudy
    quirks: frozenset[str]
    made: datetime
    images: tuple[FiledImage, ...]
    findings: str
    impression: str
    indication: str
    history: str


def file_study(study: PhantomStudy) -> Filing:
    """How a study is filed; a function of the study alone."""
    draws = study.rng(_PURPOSE).random(len(QUIRKS) + 1)
    quirks = frozenset(quirk for (quirk, share), draw in zip(QUIRKS.items(), draws) if draw < share)
    day = datetime.fromisoformat(study.date)
    if study.prior is not None and "same day" in quirks:
        day = datetime.combine(file_study(study.prior).made, datetime.min.time())
    number = study.key[-1]
    made = day + timedelta(milliseconds=int((number + draws[-1]) / _A_DAY * 86_400_000))
    report = fullest_report_of(study)
    findings, impression = ("", "") if "no text" in quirks else (report.findings, report.impression)
    indication = study.indication or ""
    if "removed words" in quirks:
        said = " Discussed with Dr. ___ by telephone on ___ at 9:20 a.m."
        findings = findings + said if findings and not impression else findings
        impression = impression + said if impression else ""
        indication = f"___ year old patient. {indication}".strip()
    return Filing(study, quirks, made, _images(study, quirks), findings, impression, indication, study.history or "")


def write_physionet(filings: list[Filing], directory: Path) -> None:
    """Write the files of :data:`ROLES`, a small image for every row of the tables, and ``source.json``."""
    for filing in filings:
        for image in filing.images:
            path = directory / "files" / image_path(filing.study, image.name)
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("L", (SIZE, SIZE)).save(path)
    with zipfile.ZipFile(directory / ROLES["reports"], "w", zipfile.ZIP_DEFLATED) as archive:
        for filing in sorted(filings, key=_place):
            member = zipfile.ZipInfo(f"files/{_place(filing)}.txt")  # dated 1980, so that its bytes stay the same
            member.external_attr = 0o644 << 16
            archive.writestr(member, report_file(filing), zipfile.ZIP_DEFLATED)
    rows = pl.DataFrame([_row(filing, image) for filing in filings for image in filing.images])
    rows = rows.sort("subject_id", "study_id", "dicom_id")
    columns = ["dicom_id", "study_id", "subject_id", "split"]
    tables = {"metadata": rows.drop("split"), "split": rows.drop_nulls("split").select(columns)}
    for role, table in tables.items():
        (directory / ROLES[role]).write_bytes(gzip.compress(table.write_csv().encode(), mtime=0))
    write_json(directory / "source.json", describe_source(directory, ".", "files", ROLES))


def report_file(filing: Filing) -> str:
    """The text of a report file: lines begin with a blank, headings are capitals before a colon."""
    study, quirks, rng = filing.study, filing.quirks, filing.study.rng(_PURPOSE + 1)
    headings = _OTHER_HEADINGS[rng.integers(3)] if "other headings" in quirks else _HEADINGS
    findings, impression, indication, history, comparison = headings
    kind = _procedure(study)
    sections = [("EXAMINATION", kind), (indication, filing.indication), (history, filing.history)]
    sections += [("TECHNIQUE", kind.capitalize()), (comparison, "___." if study.prior else "None.")]
    lines = [f"{_TITLE}FINAL REPORT"]
    if "no headings" in quirks:
        lines += _wrapped(f"{study.view} CHEST AT {filing.made:%H:%M}, ___")
    for heading, text in sections:
        lines += _wrapped(f"{heading}:  {text}") if text else []
    body = {findings: filing.findings, impression: filing.impression}
    if "one heading" in quirks:
        body = {_ONE_HEADING[rng.integers(2)]: f"{filing.findings} {filing.impression}".strip()}
    beside = rng.random() < 0.4
    for heading, text in body.items():
        if "no headings" in quirks:
            lines += _wrapped(text)
        elif text and beside:
            lines += _wrapped(f"{heading}:  {text}")
        elif text or "no text" in quirks:
            lines += [f" {heading}: ", " ", *_wrapped(text)]
    first = fullest_report_of(study).sentences[0][0]
    if "addendum after" in quirks:
        lines += _wrapped("ADDENDUM:  ___ was called with the results by Dr. ___ at 4:15 p.m. on ___.")
    if "wet read" in quirks:
        lines = [*_wrapped("WET READ: ___ ___ ___ 10:40 PM")[:1], *_wrapped(first), _RULE, *lines]
    if "addendum before" in quirks:
        addendum = f"ADDENDUM:  On further review with Dr. ___: {first}"
        lines = [f"{_TITLE}FINAL ADDENDUM", *_wrapped(addendum), _RULE, *lines]
    return "\n".join(lines) + "\n"


def _images(study: PhantomStudy, quirks: frozenset[str]) -> tuple[FiledImage, ...]:
    other = "PA" if study.view == "AP" else "AP"
    lateral = "LL" if "left lateral" in quirks else "LATERAL"
    named = {
        "frontal": study.view,
        "frontal 2": other if "second frontal" in quirks else None,
        "frontal 3": study.view if "third frontal" in quirks else None,
        "lateral": lateral if study.has_lateral else None,
        "lateral 2": lateral if study.has_lateral and "second lateral" in quirks else None,
        "frontal 4": "" if "further view" in quirks else None,
    }
    positions = {name: position for name, position in named.items() if position is not None}
    split = {"train": "train", "val": "validate", "test": "test"}[study.split]
    splits: list[str | None] = [None if "no split" in quirks else split] * len(positions)
    if "two splits" in quirks and len(splits) > 1 and splits[0]:
        splits[-1] = "validate" if split == "test" else "test"
    return tuple(
        FiledImage(name, "" if "no frontal view" in quirks and name.startswith("frontal") else position, listed)
        for (name, position), listed in zip(positions.items(), splits)
    )


def _place(filing: Filing) -> str:
    return str(Path(image_path(filing.study, "frontal")).parent)


def _procedure(study: PhantomStudy) -> str:
    return "CHEST (PA AND LAT)" if study.has_lateral else f"CHEST ({'PORTABLE AP' if study.view == 'AP' else 'PA'})"


def _row(filing: Filing, image: FiledImage) -> dict[str, object]:
    """The metadata of an image in the order of the file, and its split; the time is a number without leading zeros."""
    study, made, position = filing.study, filing.made, image.position
    clock = float(f"{made:%H%M%S}") + made.microsecond / 1e6
    means = {"PA": "postero-anterior", "AP": "antero-posterior", "LATERAL": "lateral", "LL": "left lateral"}
    return {
        "dicom_id": Path(image_path(study, image.name)).stem,
        "subject_id": study.subject_id,
        "study_id": study.study_id,
        "PerformedProcedureStepDescription": _procedure(study),
        "ViewPosition": None if "view in full" in filing.quirks else position or None,
        "Rows": SIZE,
        "Columns": SIZE,
        "StudyDate": f"{made:%Y%m%d}",
        # the real file has both 80556.875 and, of an older writer, 213014.53099999999
        "StudyTime": format(clock, ".17g") if "." in format(clock, ".17g") else f"{clock:.1f}",
        "ProcedureCodeSequence_CodeMeaning": _procedure(study),
        "ViewCodeSequence_CodeMeaning": means.get(position),
        "PatientOrientationCodeSequence_CodeMeaning": "Recumbent" if study.view == "AP" else "Erect",
        "split": image.split,
    }


def _wrapped(text: str) -> list[str]:
    """A paragraph as lines of at most 79 characters that begin with a blank, and an empty line."""
    return [*textwrap.wrap(text, 79, initial_indent=" ", subsequent_indent=" ", break_on_hyphens=False), " "]
