"""Reader of MIMIC-RG4's annotation files: one record of a file becomes one row of the record schema.

Conventions of the released files: the text ``'s'`` stands for an absent section, the number ``0`` for an absent
indication or history, and a view other than AP or PA for an unknown one. Subject and study come from ``subject_id``
and ``study_id`` when a record has them, else from the MIMIC path (``.../p10000032/s50414267/name.jpg``); MIMIC's
letters are left out (``50414267``), as in its own tables. A row that cannot be used is never dropped silently: it is
returned as a :class:`BadRow`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pacer.core.config import Corpus
from pacer.core.contexts import availability
from pacer.corpus.source import SPLITS, read_annotations
from pacer.corpus.text import clean_report

ABSENT_TEXT = "s"
_MIMIC_PATH = re.compile(r"(?:^|/)p(\d+)/s(\d+)/")
_BARE_ID = re.compile(r"^[ps](\d+)$")

_COMMON = {
    "id", "study_id", "subject_id", "finding", "impression", "APPA_flag", "APPA_imagepath", "history", "indication",
    "new_scores",
}  # fmt: skip
_WITH_LATERAL = {"lateral_imagepath"}
_WITH_PRIOR = {"last_finding", "last_impression", "last_APPA_imagepath"}


@dataclass(frozen=True)
class BadRow:
    """A row that cannot be used. ``reason`` never quotes report text."""

    file: str
    split: str
    index: int
    field: str
    reason: str


@dataclass
class Reading:
    """What the reader made of one annotation file."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    places: list[tuple[str, int]] = field(default_factory=list)  # split and index of each row
    bad: list[BadRow] = field(default_factory=list)
    outside_target: list[dict[str, str]] = field(default_factory=list)  # records without the target section
    unknown_fields: Counter = field(default_factory=Counter)
    other_views: Counter = field(default_factory=Counter)
    blank_sections: int = 0
    lateral_of_another_study: int = 0


class _Unusable(Exception):
    def __init__(self, name: str, reason: str):
        self.field, self.reason = name, reason


def read_context(path: Path, context: str, config: Corpus) -> Reading:
    """Read the annotation file of one context.

    With ``config.limit`` only the rows of the first that many studies of each split are kept. With target
    ``findings``, records without findings are no part of the protocol; they are listed apart, not as bad rows.

    Raises:
        DataError: the file itself is missing or malformed.
    """
    reading = Reading()
    known = _COMMON | (_WITH_LATERAL if context[0] == "m" else set()) | (_WITH_PRIOR if context[1] == "w" else set())
    annotations = read_annotations(path)
    for split in SPLITS:
        kept: set[str] = set()
        for index, raw in enumerate(annotations[split]):
            full = config.limit is not None and len(kept) >= config.limit
            try:
                subject, study = _identify(raw)
                if full and study not in kept:
                    continue
                row = _row(raw, context, split, subject, study, config.target, reading)
            except _Unusable as problem:
                if not full:
                    reading.bad.append(BadRow(str(path), split, index, problem.field, problem.reason))
                continue
            reading.unknown_fields.update(name for name in raw if name not in known)
            if row is not None:
                kept.add(study)
                reading.rows.append(row)
                reading.places.append((split, index))
        annotations[split] = []
    return reading


def bare_id(value: str) -> str:
    """A subject or study id without MIMIC's letter: ``s50414267`` is ``50414267``; other ids stay as they are."""
    match = _BARE_ID.match(value)
    return match[1] if match else value


def _row(
    raw: dict[str, Any], context: str, split: str, subject: str, study: str, target: str, reading: Reading
) -> dict[str, Any] | None:
    """One row of the record schema, or None when the record lacks the section that ``target`` asks for."""
    record_id = f"{context}-{_name(raw, 'id')}"
    has_lateral, has_prior = availability(context)
    findings, impression = _section(raw, "finding", reading), _section(raw, "impression", reading)
    frontal = _image(raw, "APPA_imagepath")
    lateral = _image(raw, "lateral_imagepath") if has_lateral else None
    prior = None
    if has_prior:
        prior, _ = _join(_section(raw, "last_finding", reading), _section(raw, "last_impression", reading))
        if prior is None:
            raise _Unusable("last_finding", "a context with a previous report needs last_finding or last_impression")
    if target == "findings":
        if findings is None:
            reading.outside_target.append({"record_id": record_id, "split": split})
            return None
        impression = None
    text, sections = _join(findings, impression)
    if text is None:
        raise _Unusable("finding", "neither finding nor impression is there")
    report = clean_report(text)
    if not any(character.isalnum() for character in report):
        raise _Unusable("finding", "the target report is empty after cleaning")
    row = {
        "record_id": record_id, "context": context, "split": split, "study_id": study, "subject_id": subject,
        "view": _view(raw, reading), "frontal": frontal, "lateral": lateral, "report": report, "report_raw": text,
        "findings_original": None, "sections": sections, "prior_report": None if prior is None else clean_report(prior),
        "indication": _note(raw, "indication"), "history": _note(raw, "history"), "emphasis": _emphasis(raw),
    }  # fmt: skip
    if lateral is not None:
        studies = [match[2] for match in map(_MIMIC_PATH.search, (frontal, lateral)) if match]
        reading.lateral_of_another_study += len(set(studies)) > 1
    return row


def _identify(raw: Any) -> tuple[str, str]:
    """Subject and study of a record."""
    if not isinstance(raw, dict):
        raise _Unusable("-", f"a record must be an object; this is a {type(raw).__name__}")
    if "subject_id" in raw and "study_id" in raw:
        return bare_id(_name(raw, "subject_id")), bare_id(_name(raw, "study_id"))
    path = _image(raw, "APPA_imagepath")
    match = _MIMIC_PATH.search(path)
    if match is None:
        raise _Unusable(
            "APPA_imagepath",
            f"no subject and study in {path!r}; expected .../p<subject>/s<study>/... or fields subject_id and study_id",
        )
    return (
        bare_id(_name(raw, "subject_id")) if "subject_id" in raw else match[1],
        bare_id(_name(raw, "study_id")) if "study_id" in raw else match[2],
    )


def _value(raw: dict[str, Any], name: str) -> Any:
    if name not in raw:
        raise _Unusable(name, "the field is missing")
    return raw[name]


def _name(raw: dict[str, Any], name: str) -> str:
    value = _value(raw, name)
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise _Unusable(name, f"expected a name or a number, got {_kind(value)}")
    return str(value).strip()


def _section(raw: dict[str, Any], name: str, reading: Reading) -> str | None:
    """A report section; None for the sentinel ``'s'`` and for blank text."""
    value = _value(raw, name)
    if not isinstance(value, str):
        raise _Unusable(name, f"expected text, or 's' for none, got {_kind(value)}")
    if value == ABSENT_TEXT:
        return None
    if not value.strip():
        reading.blank_sections += 1
        return None
    return value


def _join(findings: str | None, impression: str | None) -> tuple[str | None, str | None]:
    """Text and name of the sections that are there."""
    if findings is not None and impression is not None:
        return f"{findings} {impression}", "findings+impression"
    if findings is not None:
        return findings, "findings"
    return impression, None if impression is None else "impression"


def _image(raw: dict[str, Any], name: str) -> str:
    value = _value(raw, name)
    if not isinstance(value, str) or not value.strip() or value == ABSENT_TEXT:
        raise _Unusable(name, f"expected the path of an image, got {_kind(value)}")
    return value


def _view(raw: dict[str, Any], reading: Reading) -> str:
    value = _value(raw, "APPA_flag")
    if not isinstance(value, str):
        raise _Unusable("APPA_flag", f"expected AP, PA or another text for an unknown view, got {_kind(value)}")
    if value in ("AP", "PA"):
        return value
    reading.other_views[value[:40]] += 1
    return "other"


def _note(raw: dict[str, Any], name: str) -> str | None:
    """Indication or history; None for the sentinel ``0`` and for blank text."""
    value = _value(raw, name)
    if isinstance(value, str):
        return value if value.strip() else None
    if value == 0 and not isinstance(value, bool):
        return None
    raise _Unusable(name, f"expected text, or 0 for none, got {_kind(value)}")


def _emphasis(raw: dict[str, Any]) -> list[float] | None:
    """Token weights as released; None when the record has none."""
    if "new_scores" not in raw:
        return None
    value = raw["new_scores"]
    if not isinstance(value, list):
        raise _Unusable("new_scores", f"expected a list of numbers, got {_kind(value)}")
    try:
        weights = [float(entry) for entry in value]
    except (TypeError, ValueError):
        raise _Unusable("new_scores", "expected a list of numbers; an entry is none") from None
    if not all(map(math.isfinite, weights)):
        raise _Unusable("new_scores", "expected finite numbers; an entry is NaN or infinite")
    return weights


def _kind(value: Any) -> str:
    """What arrived, without its content: numbers are shown, text is not."""
    if isinstance(value, str):
        return "blank text" if not value.strip() else f"text of {len(value)} characters"
    return repr(value) if isinstance(value, int | float | bool | None) else f"a {type(value).__name__}"
