"""Reader of MIMIC-RG4's annotation files: one file per context, one record per examination.

Conventions of the released files: the text ``'s'`` stands for an absent section, the number ``0`` for an absent
indication or history, and a view other than AP or PA (another text, ``0`` or null) for an unknown one. Subject and
study come from ``subject_id`` and ``study_id`` when a record has them, else from the MIMIC path
(``.../p10000032/s50414267/name.jpg``); MIMIC's letters are left out (``50414267``), as in its own tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from pacer.config import Corpus
from pacer.core.contexts import Context, availability
from pacer.data.account import Account
from pacer.data.readers.annotations import read_annotations, read_studies
from pacer.data.schemas import SPLITS
from pacer.data.source import Source
from pacer.data.studies import Study, check_roles, study_frame
from pacer.data.values import Unusable, ids_of, mimic_ids, name_of, present, shown, shown_view, sound, weights_of

ABSENT_TEXT = "s"

_TEXTS = ("finding", "impression", "history", "indication")
_COMMON = {"id", "study_id", "subject_id", *_TEXTS, "APPA_flag", "APPA_imagepath", "new_scores"}
_NO_IDS = "the path names no subject and study; expected .../p<subject>/s<study>/..., or subject_id and study_id"
_WITH_LATERAL = {"lateral_imagepath"}
_WITH_PRIOR = {"last_finding", "last_impression", "last_APPA_imagepath"}


def read(source: Source, config: Corpus, account: Account) -> pl.DataFrame:
    """The studies of the files of ``config.contexts``, one context after the other.

    Raises:
        DataError: a file as a whole is missing or malformed.
    """
    check_roles(source.files, *config.contexts)
    return pl.concat(study_frame(_context(source.files[name], name, account)) for name in config.contexts)


def _context(path: Path, context: Context, account: Account) -> Iterator[Study]:
    lateral, prior = availability(context)
    known = _COMMON | (_WITH_LATERAL if lateral else set()) | (_WITH_PRIOR if prior else set())
    splits = read_annotations(path)
    for split in SPLITS:
        account.count("empty_splits", context, split, not splits.get(split))
    return read_studies(splits, path, context, known, partial(_study, str(path), context, account), account)


def _study(file: str, context: Context, account: Account, raw: dict[str, Any], split: str, row: str) -> Study:
    has_lateral, has_prior = availability(context)
    frontal = _image(raw, "APPA_imagepath")
    subject, study = ids_of(raw, mimic_ids(frontal), _NO_IDS, "APPA_imagepath")
    lateral = _image(raw, "lateral_imagepath") if has_lateral else None
    section = partial(_section, raw, context=context, account=account)
    last_finding, last_impression = (section("last_finding"), section("last_impression")) if has_prior else (None, None)
    if lateral is not None:
        studies = {ids[1] for ids in map(mimic_ids, (frontal, lateral)) if ids}
        if len(studies) > 1:
            account.count("lateral_of_another_study", context, "records")
    return Study(
        file=file,
        row=row,
        id=name_of(raw, "id"),
        contexts=(context,),
        split=split,
        study_id=study,
        subject_id=subject,
        view=_view(raw, context, account),
        frontal=frontal,
        lateral=lateral,
        findings=section("finding") or None,
        impression=section("impression") or None,
        prior_findings=last_finding,
        prior_impression=last_impression,
        indication=_note(raw, "indication"),
        history=_note(raw, "history"),
        emphasis=weights_of(raw, "new_scores"),
    )


def _section(raw: dict[str, Any], name: str, context: str, account: Account) -> str | None:
    """A report section; None for the sentinel ``'s'``, and nothing for blank text, which upstream tells apart in a
    previous report."""
    value = present(raw, name, "'s' where there is none")
    if not isinstance(value, str):
        raise Unusable(name, f"expected text, or 's' for none, got {shown(value)}")
    if value == ABSENT_TEXT:
        account.count("sentinel_sections", context, name)
        return None
    if not value.strip():
        account.count("blank_sections", context, name)
        return ""
    return sound(value, name)


def _image(raw: dict[str, Any], name: str) -> str:
    value = present(raw, name)
    if not isinstance(value, str) or not value.strip() or value == ABSENT_TEXT or "\0" in value:
        raise Unusable(name, f"expected the path of an image, got {shown(value)}")
    return sound(value, name).lstrip("/")  # upstream puts the folder before it as it stands


def _view(raw: dict[str, Any], context: str, account: Account) -> str:
    value = present(raw, "APPA_flag")
    if value is None or _is_zero(value):
        value = "null" if value is None else "0"
    elif not isinstance(value, str):
        expected = "expected AP, PA or another text, 0 or null for an unknown view"
        raise Unusable("APPA_flag", f"{expected}, got {shown(value)}")
    if value in ("AP", "PA"):
        return value
    account.count("other_views", context, shown_view(value))
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
