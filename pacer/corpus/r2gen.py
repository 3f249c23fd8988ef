"""Reader of R2Gen's ``annotation.json``, for IU X-Ray and for MIMIC-CXR.

A record of IU X-Ray has two images, the frontal first; one of MIMIC-CXR has a single image of either view. A table of
views tells them apart; where there is none, or it does not know an image, the image's place in the record counts.
``report`` is the findings section.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pacer.core.config import Corpus
from pacer.core.contexts import Context
from pacer.corpus.json_stream import stream_records
from pacer.corpus.mimic import bare_id, mimic_ids
from pacer.corpus.rows import (
    Examination,
    LeftOut,
    Notes,
    Place,
    Problem,
    Row,
    Unusable,
    check_roles,
    kind,
    name_of,
    present,
    sound,
)
from pacer.corpus.source import Source
from pacer.corpus.views import View, read_views, view_of

#: Fields that hold the frontal and the lateral image.
IMAGE_FIELDS = ("image_path", "image_path")

_KNOWN = {"id", "report", "image_path", "subject_id", "study_id", "split"}
_OPENI_ID = re.compile(r"^(CXR[0-9]+)(?:_|$)")


def read(source: Source, config: Corpus, notes: Notes) -> Iterator[Row]:
    """One row per record.

    Raises:
        DataError: a file as a whole is missing or malformed.
    """
    check_roles(source.files, ("annotation",), "the source")
    path = source.files["annotation"]
    views = read_views(source.files["views"]) if "views" in source.files else None
    for split, index, raw in stream_records(path):
        notes.read["annotation"] += 1
        place = Place(str(path), split, index)
        try:
            yield _row(raw, place, views, notes)
        except Unusable as problem:
            yield Problem(place, problem.field, problem.reason)
            continue
        for name in raw.keys() - _KNOWN:
            notes.count("unknown_fields", "annotation", ascii(name)[1:-1])
        if raw.get("split", split) != split:
            notes.count("split_field_ignored", "annotation", split)


def _row(raw: Any, place: Place, views: dict[str, View] | None, notes: Notes) -> Row:
    if not isinstance(raw, dict):
        raise Unusable("-", f"a record must be an object; this is a {type(raw).__name__}")
    record_id = name_of(raw, "id")
    images = _images(raw)
    subject, study = _identify(raw, record_id, images)
    findings = present(raw, "report")
    if not isinstance(findings, str):
        raise Unusable("report", f"expected text, got {kind(findings)}")
    if not sound(findings, "report").strip():
        return LeftOut(place, "neither findings nor impression")
    shown = _shown(images, views, notes)
    if "frontal" not in shown:
        return LeftOut(place, "no frontal image")
    frontal, view = shown["frontal"]
    lateral = shown["lateral"][0] if "lateral" in shown else None
    contexts: tuple[Context, ...] = ("sn",) if lateral is None else ("sn", "mn")
    return Examination(
        place=place, id=record_id, contexts=contexts, split=place.split, study_id=study, subject_id=subject,
        view=view, frontal=frontal, lateral=lateral, findings=findings, impression=None, prior=None, indication=None,
        history=None,
    )  # fmt: skip


def _images(raw: dict[str, Any]) -> list[str]:
    value = present(raw, "image_path")
    if not isinstance(value, list) or not value:
        raise Unusable("image_path", f"expected a list of image paths, got {kind(value)}")
    for image in value:
        if not isinstance(image, str) or not image.strip():
            raise Unusable("image_path", f"expected the path of an image, got {kind(image)}")
        sound(image, "image_path")
    return value


def _identify(raw: dict[str, Any], record_id: str, images: list[str]) -> tuple[str, str]:
    """Subject and study: the fields, else MIMIC's path, else Open-I's number, where both are the report."""
    match = _OPENI_ID.match(record_id)
    found = mimic_ids(images[0]) or ((match[1], match[1]) if match else None)
    ids = []
    for number, name in enumerate(("subject_id", "study_id")):
        if name in raw:
            ids.append(bare_id(name_of(raw, name)))
        elif found is not None:
            ids.append(found[number])
        else:
            raise Unusable(
                name, "the field is missing, the id is not Open-I's (CXR1_...), and the image path is not MIMIC's "
                "(.../p<subject>/s<study>/...)"
            )  # fmt: skip
    return ids[0], ids[1]


def _shown(images: list[str], views: dict[str, View] | None, notes: Notes) -> dict[str, tuple[str, str]]:
    """``{kind: (image, AP | PA | other)}`` of the first frontal and the first lateral image; others are counted."""
    shown: dict[str, tuple[str, str]] = {}
    for number, image in enumerate(images):
        view = None if views is None else view_of(views, image)
        if view is None:
            place = _kind_by_place(number, image)
            notes.count("assumed_views" if views is None else "unknown_views", "annotation", place or "not used")
            if place is None:
                continue
            which, name = place, "other"
        else:
            which, name = view.kind, view.view
        if which in shown:
            notes.count("further_images", "annotation", which)
        else:
            shown[which] = image, name
    return shown


def _kind_by_place(number: int, image: str) -> str | None:
    """In MIMIC-CXR the order of several images means nothing, so only the first one is taken, as in R2Gen's file."""
    if number == 0:
        return "frontal"
    return "lateral" if number == 1 and mimic_ids(image) is None else None
