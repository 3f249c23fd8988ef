"""Reader of Open-I, Indiana University's collection of XML reports, as it is distributed.

A report names its images but not what they show, so a table of projections says which is frontal. Study and subject
are the report's number as Open-I writes it (``CXR1``): the collection does not say which reports belong to the same
patient, and its COMPARISON section is no previous report.
"""

from __future__ import annotations

import json
import re
import tarfile
import xml.etree.ElementTree as ET
import zlib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import polars as pl

from pacer.config import Corpus
from pacer.core.contexts import contexts_within
from pacer.core.errors import DataError
from pacer.core.io import files_below
from pacer.data.account import Account
from pacer.data.readers.views import View, check_coverage, image_key, read_views
from pacer.data.source import Source
from pacer.data.splits import seeded_split
from pacer.data.studies import Study, check_roles, study_frame
from pacer.data.values import LEFT_OUT, Unusable, present, sound

SECTIONS = ("findings", "impression", "indication")

_NUMBER = re.compile(r"(?:CXR)?([0-9]+)")
#: Image files by preference, where one image is there in several formats.
_FORMATS = (".png", ".jpg", ".jpeg", ".dcm")


class OpenIReport(NamedTuple):
    """A report as it was found; images by the names that the distribution gives them."""

    uid: str
    images: list[str]
    texts: dict[str, str | None]


def read(source: Source, config: Corpus, account: Account) -> pl.DataFrame:
    """A study per report. The first frontal and the first lateral image are used; others are counted.

    An image that is not in the image folder is named as the distribution names it, for the check of images to find.

    Raises:
        DataError: a file as a whole is missing or malformed, or nothing says which images are frontal.
    """
    check_roles(source.files, "reports")
    path, projections = source.files["reports"], source.files.get("projections")
    if projections is None:
        raise DataError(
            f"{path} does not say which images are frontal; set corpus.openi.projections to Kaggle's "
            "indiana_projections.csv, or to a CSV with columns image, view (frontal or lateral)"
        )
    views, splits = read_views(projections), None if config.openi.split is None else _r2gen_split()
    files = _image_files(source.images)
    studies: list[Study] = []
    known = named = 0
    for name, content in _xml_files(path, account):
        account.read["reports"] += 1
        file, uid = f"{path}/{name}", None
        try:
            report = parse_report(content)
            uid = report.uid
            if splits is None:
                split = seeded_split(uid, config.seed, config.split.val, config.split.test)
            elif uid in splits:
                split = splits[uid]
            else:
                raise Unusable("", "not in the split", LEFT_OUT)
            named += len(report.images)
            known += sum(image_key(image) in views for image in report.images)
            studies.append(_study(file, report, split, views, files, account))
        except Unusable as problem:
            account.add(problem.kind, file, "", uid, problem.field, problem.reason)
    check_coverage(projections, known, named)
    return study_frame(studies)


def _study(
    file: str, report: OpenIReport, split: str, views: dict[str, View], files: dict[str, str], account: Account
) -> Study:
    texts = {name: text if text and text.strip() else None for name, text in report.texts.items()}
    if texts["findings"] is None and texts["impression"] is None:
        raise Unusable("", "neither findings nor impression", LEFT_OUT)
    if not report.images:
        raise Unusable("", "no image", LEFT_OUT)
    shown: dict[str, list[str]] = {"frontal": [], "lateral": []}
    for name in dict.fromkeys(report.images):
        view = views.get(image_key(name))
        if view is None:
            account.count("unknown_views", "projections", "images")
        else:
            shown[view.kind].append(name)
    for which, names in shown.items():
        account.count("further_images", "reports", which, max(len(names) - 1, 0))
    if not shown["frontal"]:
        raise Unusable("", "no frontal image" if shown["lateral"] else "unknown view", LEFT_OUT)
    frontal, lateral = shown["frontal"][0], next(iter(shown["lateral"]), None)
    return Study(
        file=file,
        row="",
        id=report.uid,
        contexts=contexts_within(lateral is not None, False),
        split=split,
        study_id=report.uid,
        subject_id=report.uid,
        view=views[image_key(frontal)].view,
        frontal=_file_of(frontal, files),
        lateral=None if lateral is None else _file_of(lateral, files),
        findings=texts["findings"],
        impression=texts["impression"],
        indication=texts["indication"],
    )


def _r2gen_split() -> dict[str, str]:
    """``{uid: split}``."""
    packaged = resources.files("pacer.data.readers").joinpath("r2gen_iu_split.json").read_text(encoding="utf-8")
    return {f"CXR{number}": split for split, numbers in json.loads(packaged).items() for number in numbers}


# ---------------------------------------------------------------------------------------------------------- images


def _image_files(folder: Path) -> dict[str, str]:
    """Every image file below a folder by its key; the path is relative to the folder.

    Without the folder there are no files, and every image will count as missing.
    """
    ranked = []
    for path in files_below(folder) if folder.is_dir() else ():
        ending, relative = path.suffix.lower(), path.relative_to(folder).as_posix()
        if ending in _FORMATS:
            ranked.append((_FORMATS.index(ending), relative.count("/"), relative, image_key(path.name)))
    return {key: relative for _, _, relative, key in sorted(ranked, reverse=True)}


def _file_of(name: str, files: dict[str, str]) -> str:
    return files.get(image_key(name), f"{name}.png")


# ------------------------------------------------------------------------------------------------------------- XML


def _xml_files(path: Path, account: Account) -> Iterator[tuple[str, bytes]]:
    """Name and content of each XML report; other files are counted."""
    reports = 0
    for name, content in _folder(path) if path.is_dir() else _archive(path):
        if Path(name).name.startswith(".") or not name.lower().endswith(".xml"):
            account.count("other_files", "reports", Path(name).suffix.lower() or "no ending")
            continue
        reports += 1
        yield name, content
    if not reports:
        expected = "Open-I's NLMCXR_reports.tgz or its folder ecgen-radiology"
        raise DataError(f"{path} holds no XML report; expected {expected}")


def _folder(path: Path) -> Iterator[tuple[str, bytes]]:
    """Files of a folder by name."""
    try:
        for file in sorted(files_below(path)):
            yield file.relative_to(path).as_posix(), file.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None


def _archive(path: Path) -> Iterator[tuple[str, bytes]]:
    """Members of a tar file in its order."""
    try:
        with tarfile.open(path) as tar:
            for member in tar:
                if member.isfile() and (opened := tar.extractfile(member)) is not None:
                    yield member.name, opened.read()
    except FileNotFoundError:
        raise DataError(f"{path} does not exist") from None
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        why = "it is none" if isinstance(error, tarfile.ReadError) else "it is cut off or damaged"
        reason = getattr(error, "strerror", None) or why
        raise DataError(
            f"{path} is neither a folder nor a sound tar archive ({reason}); expected NLMCXR_reports.tgz"
        ) from None


def parse_report(content: bytes) -> OpenIReport:
    """What a report says.

    Raises:
        Unusable: it is not valid XML, or its number, an image or a text is missing or malformed.
    """
    try:
        root = ET.fromstring(content)
    except (ET.ParseError, ValueError, LookupError):
        raise Unusable("-", "not valid XML") from None  # the parser's own words may quote the file
    element = root.find("uId")
    match = _NUMBER.fullmatch("" if element is None else element.get("id", "").strip())
    if match is None:
        raise Unusable("uId/@id", "expected a number such as CXR1 or 1")
    images = [_image(image.attrib) for image in root.iter("parentImage")]
    return OpenIReport(f"CXR{match[1]}", images, {name: _section(root, name) for name in SECTIONS})


def _section(root: ET.Element, name: str) -> str | None:
    texts = ["".join(e.itertext()) for e in root.iter("AbstractText") if e.get("Label", "").strip().lower() == name]
    texts = [text for text in texts if text.strip()]
    return sound(" ".join(texts), name) if texts else None


def _image(attributes: dict[str, str]) -> str:
    name = present(attributes, "id").strip()
    if not name:
        raise Unusable("parentImage/@id", "expected the name of an image, got blank text")
    return sound(name, "parentImage/@id")
