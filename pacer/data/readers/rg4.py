"""Reader of MIMIC-RG4's annotation files: one file per context, one record per examination.

Conventions of the released files: the text ``'s'`` stands for an absent section, the number ``0`` for an absent
indication or history, and a view other than AP or PA (another text, ``0`` or null) for an unknown one. Subject and
study come from ``subject_id`` and ``study_id`` when a record has them, else from the MIMIC path
(``.../p10000032/s50414267/name.jpg``); MIMIC's letters are left out (``50414267``), as in its own tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from pacer.config import Corpus
from pacer.core.contexts import Context, availability
from pacer.data.json_stream import stream_records
from pacer.data.mimic import mimic_ids
from pacer.data.rows import (
    Examination,
    Notes,
    Place,
    Prior,
    Row,
    Unusable,
    check_roles,
    ids_of,
    name_of,
    present,
    shown_view,
    sound,
    weights_of,
)
from pacer.data.schemas import SPLITS
from pacer.data.source import Source
from pacer.data.tables import shown

ABSENT_TEXT = "s"

_COMMON = {
    "id",
    "study_id",
    "subject_id",
    "finding",
    "impression",
    "APPA_flag",
    "APPA_imagepath",
    "history",
    "indication",
    "new_scores",
}
_NO_IDS = "the path names no subject and study; expected .../p<subject>/s<study>/..., or subject_id and study_id"
_WITH_LATERAL = {"lateral_imagepath"}
_WITH_PRIOR = {"last_finding", "last_impression", "last_APPA_imagepath"}


def read(source: Source, config: Corpus, notes: Notes) -> Iterator[Row]:
    """The examinations of the files of ``config.contexts``, one context after the other.

    Raises:
        DataError: a file as a whole is missing or malformed.
    """
    check_roles(source.files, *config.contexts)
    for context in config.contexts:
        path = source.files[context]
        lateral, prior = availability(context)
        known = _COMMON | (_WITH_LATERAL if lateral else set()) | (_WITH_PRIOR if prior else set())
        splits: set[str] = set()
        for split, index, raw in stream_records(path):
            splits.add(split)
            yield notes.row(raw, context, Place(str(path), split, index), known, partial(_examination, context=context))
        for split in sorted(set(SPLITS) - splits):
            notes.count("empty_splits", context, split)


def _examination(raw: dict[str, Any], place: Place, notes: Notes, context: Context) -> Examination:
    has_lateral, has_prior = availability(context)
    frontal = _image(raw, "APPA_imagepath")
    subject, study = ids_of(raw, mimic_ids(frontal), _NO_IDS, "APPA_imagepath")
    lateral = _image(raw, "lateral_imagepath") if has_lateral else None
    prior = None
    if has_prior:
        prior = Prior(_section(raw, "last_finding", context, notes), _section(raw, "last_impression", context, notes))
    if lateral is not None:
        studies = [ids[1] for ids in map(mimic_ids, (frontal, lateral)) if ids]
        if len(set(studies)) > 1:
            notes.count("lateral_of_another_study", context, "records")
    return Examination(
        place=place,
        id=name_of(raw, "id"),
        contexts=(context,),
        split=place.split,
        study_id=study,
        subject_id=subject,
        view=_view(raw, context, notes),
        frontal=frontal,
        lateral=lateral,
        findings=_section(raw, "finding", context, notes) or None,
        impression=_section(raw, "impression", context, notes) or None,
        prior=prior,
        indication=_note(raw, "indication"),
        history=_note(raw, "history"),
        emphasis=weights_of(raw, "new_scores"),
    )


def _section(raw: dict[str, Any], name: str, context: str, notes: Notes) -> str | None:
    """A report section; None for the sentinel ``'s'``, and nothing for blank text, which upstream tells apart in a
    previous report."""
    value = present(raw, name, "'s' where there is none")
    if not isinstance(value, str):
        raise Unusable(name, f"expected text, or 's' for none, got {shown(value)}")
    if value == ABSENT_TEXT:
        notes.count("sentinel_sections", context, name)
        return None
    if not value.strip():
        notes.count("blank_sections", context, name)
        return ""
    return sound(value, name)


def _image(raw: dict[str, Any], name: str) -> str:
    value = present(raw, name)
    if not isinstance(value, str) or not value.strip() or value == ABSENT_TEXT or "\0" in value:
        raise Unusable(name, f"expected the path of an image, got {shown(value)}")
    return sound(value, name).lstrip("/")  # upstream puts the folder before it as it stands


def _view(raw: dict[str, Any], context: str, notes: Notes) -> str:
    value = present(raw, "APPA_flag")
    if value is None or _is_zero(value):
        value = "null" if value is None else "0"
    elif not isinstance(value, str):
        raise Unusable(
            "APPA_flag", f"expected AP, PA or another text, 0 or null for an unknown view, got {shown(value)}"
        )
    if value in ("AP", "PA"):
        return value
    notes.count("other_views", context, shown_view(value))
    return "other"


def _note(raw: dict[str, Any], name: str) -> str | None:
    """Indication or history; None for the sentinel ``0`` and for blank text."""
    value = present(raw, name, "0 where there is none")
    if isinstance(value, str):
        return sound(value, name) if value.strip() else None
    if _is_zero(value):
        return None
    raise Unusable(name, f"expected text, or 0 for none, got {shown(value)}")


def _is_zero(value: Any) -> bool:
    return value == 0 and not isinstance(value, bool | float)
