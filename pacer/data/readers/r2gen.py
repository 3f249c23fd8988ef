"""Reader of R2Gen's ``annotation.json``, for IU X-Ray and for MIMIC-CXR.

A record of IU X-Ray has two images, the frontal first; one of MIMIC-CXR has a single image of either view. A table of
views tells them apart. Where there is none the image's place in the record counts; where it does not know an image,
place fills the gap in a pair, and any other image is not used. ``report`` is the findings section.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import polars as pl

from pacer.config import Corpus
from pacer.core.contexts import contexts_within
from pacer.data.account import Account
from pacer.data.readers.annotations import read_annotations, read_studies
from pacer.data.readers.views import View, check_coverage, read_views, view_of
from pacer.data.source import Source
from pacer.data.studies import Study, check_roles, study_frame
from pacer.data.values import LEFT_OUT, Unusable, ids_of, mimic_ids, name_of, present, sound

_KNOWN = {"id", "report", "image_path", "subject_id", "study_id", "split"}
_NO_IDS = (
    "the field is missing, the id is not Open-I's (CXR1_...), and the image path is not MIMIC's "
    "(.../p<subject>/s<study>/...)"
)
_OPENI_ID = re.compile(r"^(CXR[0-9]+)(?:_|$)")


def read(source: Source, config: Corpus, account: Account) -> pl.DataFrame:
    """A study per record.

    Raises:
        DataError: a file as a whole is missing or malformed.
    """
    check_roles(source.files, "annotation")
    path = source.files["annotation"]
    views = read_views(source.files["views"]) if "views" in source.files else None
    named: list[str] = []
    make = partial(_study, str(path), views, named, account)
    studies = study_frame(read_studies(read_annotations(path), path, "annotation", _KNOWN, make, account))
    if views is not None:
        known = sum(view_of(views, image) is not None for image in named)
        check_coverage(source.files["views"], known, len(named))
    return studies


def _study(
    file: str,
    views: dict[str, View] | None,
    named: list[str],
    account: Account,
    raw: dict[str, Any],
    split: str,
    row: str,
) -> Study:
    """The study of a record; ``named`` gets the images of a sound one."""
    record_id = name_of(raw, "id")
    images = _images(raw)
    # where the id is Open-I's, subject and study both are the report
    match = _OPENI_ID.match(record_id)
    subject, study = ids_of(raw, mimic_ids(images[0]) or ((match[1], match[1]) if match else None), _NO_IDS)
    findings = present(raw, "report")
    if not isinstance(findings, str):
        raise Unusable("report", f"expected text, got {type(findings).__name__}")
    is_blank = not sound(findings, "report").strip()
    named += images
    if raw.get("split", split) != split:
        account.count("split_field_ignored", "annotation", split)
    if is_blank:
        raise Unusable("", "neither findings nor impression", LEFT_OUT)
    shown = _shown(images, views, account)
    if "frontal" not in shown:
        raise Unusable("", "no frontal image" if shown else "unknown view", LEFT_OUT)
    frontal, view = shown["frontal"]
    lateral = shown["lateral"][0] if "lateral" in shown else None
    return Study(
        file=file,
        row=row,
        id=record_id,
        contexts=contexts_within(lateral is not None, False),
        split=split,
        study_id=study,
        subject_id=subject,
        view=view,
        frontal=frontal,
        lateral=lateral,
        findings=findings,
    )


def _images(raw: dict[str, Any]) -> list[str]:
    value = present(raw, "image_path")
    if not isinstance(value, list):
        raise Unusable("image_path", f"expected a list of image paths, got {type(value).__name__}")
    if not value:
        raise Unusable("image_path", "expected a list of image paths; the list is empty")
    for image in value:
        if not isinstance(image, str) or not image.strip():
            got = "blank text" if isinstance(image, str) else type(image).__name__
            raise Unusable("image_path", f"expected the path of an image, got {got}")
        sound(image, "image_path")
    return value


def _shown(images: list[str], views: dict[str, View] | None, account: Account) -> dict[str, tuple[str, str]]:
    """``{kind: (image, AP | PA | other)}`` of the first frontal and the first lateral image; others are counted.

    Known views come first; an image of unknown view takes by its place what they leave open.
    """
    shown: dict[str, tuple[str, str]] = {}
    unknown: list[tuple[int, str]] = []
    for number, image in enumerate(images):
        view = None if views is None else view_of(views, image)
        if view is None:
            unknown.append((number, image))
        elif view.kind in shown:
            account.count("further_images", "annotation", view.kind)
        else:
            shown[view.kind] = image, view.view
    for number, image in unknown:
        place = _kind_by_place(number, images, views is not None)
        if place is None or place in shown:
            place = None
        else:
            shown[place] = image, "other"
        account.count("assumed_views" if views is None else "unknown_views", "annotation", place or "not used")
    return shown


def _kind_by_place(number: int, images: list[str], with_views: bool) -> str | None:
    """What an image of unknown view is taken to be.

    In MIMIC-CXR the order of several images means nothing, and a single image may be a lateral. Where there is no table
    of views, a first image is taken as frontal all the same; beside a table, only the order of IU X-Ray's pairs counts.
    """
    pair = len(images) > 1 and mimic_ids(images[0]) is None
    if number == 0:
        return "frontal" if pair or not with_views else None
    return "lateral" if number == 1 and pair else None
