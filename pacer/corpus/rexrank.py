"""The studies that ReXrank hands to a model, ``{study: {...}}`` in JSON, as rows of images.

Of a study these fields are read; the others differ from file to file, and absent text is ``NaN`` or null::

    image_path          paths of all images; a leading slash counts for nothing
    frontal_lateral     the view of each, in DICOM's words (antero-posterior) or one (Frontal); ap_pa may add to it
    key_image_path      the image for models that take one, which the benchmark calls the frontal one
    context             "Age:50-60.Gender:M.Indication: ...Comparison: ..."; each part may be missing
    section_findings, section_impression, split, subject_id
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from pacer.core.errors import DataError
from pacer.core.hygiene import is_broken
from pacer.core.io import read_json
from pacer.corpus.rows import Notes
from pacer.corpus.views import parse_view
from pacer.tables.table import shown

_CONTEXT = re.compile(r"(?:Age:[^:]*\.)?(?:Gender:[^:]*\.)?(?:Indication:(.*?))?(?:Comparison:.*)?", re.DOTALL)
#: The view of a key image of which nothing better is known.
_ASSUMED = "frontal, as the key image"
_TEXTS = ("context", "key_image_path", "section_findings", "section_impression", "split")
_LISTS = ("image_path", "frontal_lateral", "ap_pa")
_SCHEMA = {"row": pl.Int64} | dict.fromkeys(
    ("subject", "study", "view", "image", "findings", "impression", "indication", "split"), pl.String
)


class Study(NamedTuple):
    """``images``: path and view in words of each, None where it is not known; ``given``: all fields, NaN as None."""

    images: list[tuple[str, str | None]]
    indication: str | None
    given: dict[str, Any]


def read_studies(path: Path) -> dict[str, Study]:
    """The studies of a file by id, in its order.

    An image whose view is not stated (no word, or not as many as there are images) has none. The key image is then
    frontal, and so it is where every other view that is stated is lateral.

    Raises:
        DataError: the file is no object of studies, or a field of one is of another kind.
    """
    content = read_json(path)
    if not isinstance(content, dict) or not content:
        raise DataError(f"{path}: expected an object of studies by id, as ReXrank gives them, got {shown(content)}")
    if any(map(is_broken, content)):
        raise DataError(f"{path}: half of a surrogate pair is in the id of a study: the file is damaged")
    return {name: _study(raw, f"{path}, study {name:.80}") for name, raw in content.items()}


def image_table(path: Path, notes: Notes) -> pl.DataFrame:
    """A row an image, with the columns of :mod:`pacer.corpus.studies`; ``row`` is the number of the study from 0. A
    study without ``subject_id`` is a subject of its own.

    Raises:
        DataError: see :func:`read_studies`.
    """
    rows = []
    for number, (name, study) in enumerate(read_studies(path).items()):
        for field in study.given.keys() - {*_TEXTS, *_LISTS, "subject_id", "report"}:  # a report repeats its sections
            notes.count("unknown_fields", "table", field)
        subject, findings, impression, split = (
            study.given.get(field) for field in ("subject_id", "section_findings", "section_impression", "split")
        )
        own = name if subject is None else str(subject)
        for image, view in study.images:
            if view == _ASSUMED:
                notes.count("assumed_views", "table", "frontal")
            rows.append((number, own, name, view, image, findings, impression, study.indication, split))
    return pl.DataFrame(rows, _SCHEMA, orient="row")


def _study(raw: Any, place: str) -> Study:
    if not isinstance(raw, dict):
        raise DataError(f"{place}: expected an object, got {shown(raw)}")
    given = {name: _known(value) for name, value in raw.items()}
    try:
        written = json.dumps(given, ensure_ascii=False, allow_nan=False)
    except ValueError:
        raise DataError(f"{place}: it holds a number that is infinite, or NaN inside an object") from None
    if is_broken(written):
        raise DataError(f"{place}: half of a surrogate pair is in it: the file is damaged")
    for names, kind, words in ((_TEXTS, str, "text"), (_LISTS, list, "a list"), (("subject_id",), str | int, "a name")):
        for name in names:
            if not isinstance(given.get(name), kind | None):
                raise DataError(f"{place}: {name} must be {words}, got {shown(given[name])}")
    images = given.get("image_path")
    if not images or not all(isinstance(image, str) and image.strip("/ ") for image in images):
        raise DataError(f"{place}: image_path must be a list of paths, at least one")
    key = given.get("key_image_path")
    if key is not None and key not in images:
        raise DataError(f"{place}: key_image_path is none of image_path")
    context = (given.get("context") or "").strip().removeprefix("<context>").removesuffix("</context>")
    found = _CONTEXT.fullmatch(context)
    return Study(
        [(image.lstrip("/"), view) for image, view in zip(images, _views(given, images, key), strict=True)],
        ((found[1] if found else context) or "").strip() or None,
        given,
    )


def _views(given: Mapping[str, Any], images: list[str], key: str | None) -> list[str | None]:
    columns = [given.get(name) or [] for name in ("frontal_lateral", "ap_pa")]
    words = zip(*(column if len(column) == len(images) else [None] * len(images) for column in columns), strict=True)
    views: list[str | None] = [" ".join(part for part in parts if isinstance(part, str)) or None for parts in words]
    kinds = [view and view.kind for view in map(parse_view, views)]
    if key is not None and (kinds[images.index(key)] is None or "frontal" not in kinds):
        views[images.index(key)] = _ASSUMED
    return views


def _known(value: Any) -> Any:
    """A value, or its entries where it is a list, with None for NaN."""
    if isinstance(value, list):
        return [None if entry != entry else entry for entry in value]
    return None if value != value else value
