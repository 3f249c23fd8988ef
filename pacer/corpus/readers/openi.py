"""Reader of Open-I, Indiana University's collection of XML reports, as distributed.

A report names its images but not their views, so a table of projections identifies the frontal one.
The ids of study and subject are the report's number in Open-I's form (``CXR1``): the collection
does not identify reports of the same patient, and its COMPARISON section is not a previous report.
"""

import json
import re
import xml.etree.ElementTree as ET
from importlib import resources
from pathlib import Path
from typing import Any

import polars as pl

from pacer.config import Corpus
from pacer.core.errors import DataError
from pacer.core.io import files_below
from pacer.corpus.account import LEFT_OUT, Notes, Rows
from pacer.corpus.readers.files import read_files
from pacer.corpus.readers.views import choose_images, image_key, read_views
from pacer.corpus.source import Source

NAMES = {"frontal": "parentImage", "lateral": "parentImage"}
SECTIONS = ("findings", "impression", "indication")

_NUMBER = re.compile(r"(?:CXR)?([0-9]+)")
#: Image formats in order of preference, if an image exists in several formats.
_FORMATS = (".png", ".jpg", ".jpeg", ".dcm")
_TEXTS = ("file", "id", "field", "reason", "frontal", "lateral", "view", *SECTIONS)


def read(source: Source, config: Corpus, notes: Notes) -> Rows:
    """Return one examination per report, with the first frontal and the first lateral image.

    An image that is not in the image folder keeps its name in the distribution, so that the image
    check reports it.
    """
    path = source.files["reports"]
    if path.name.lower().removesuffix(".gz").endswith((".csv", ".tsv", ".xlsx", ".parquet")):
        raise DataError(
            "corpus.openi.reports takes NLMCXR_reports.tgz or its unpacked folder of XML files, "
            f"but {path} is a table; join Kaggle's indiana_reports.csv with "
            "indiana_projections.csv and set corpus.format: table (docs/data.md, under "
            '"Kaggle\'s two tables of Open-I", has the lines)'
        )
    projections = source.files["projections"]
    views = read_views(projections)
    files = _image_files(source.images)
    reports: list[dict[str, Any]] = []
    all_images: list[str] = []
    for name, content in read_files(path, ".xml"):
        notes.read["reports"] += 1
        try:
            uid, images, texts = parse_report(content)
        except ValueError as error:
            field, reason = error.args
            reports.append({"file": f"{path}/{name}", "field": field, "reason": reason})
            continue
        all_images += images
        frontal, view, lateral = choose_images(images, views)
        paths = {
            kind: image and files.get(image_key(image), f"{image}.png")
            for kind, image in (("frontal", frontal), ("lateral", lateral))
        }
        reports.append({"file": f"{path}/{name}", "id": uid, "view": view} | texts | paths)
    num_unknown = sum(image_key(name) not in views for name in all_images)
    notes.count("unknown_views", projections.name, "images", num_unknown)
    table = pl.DataFrame(reports, dict.fromkeys(_TEXTS, pl.String()))
    table = table.with_columns(row=pl.lit(""), study_id="id", subject_id="id")
    is_broken = pl.col("reason").is_not_null()
    studies = Rows(table.filter(~is_broken)).with_lines(table.filter(is_broken))
    if config.openi.split is not None:
        packaged = resources.files("pacer.corpus.readers").joinpath("r2gen_iu_split.json")
        numbers_of = json.loads(packaged.read_text(encoding="utf-8"))
        pairs = [
            (f"CXR{number}", split) for split, numbers in numbers_of.items() for number in numbers
        ]
        splits = pl.DataFrame(pairs, ["id", "split"], orient="row")
        with_split = studies.used.join(splits, on="id", how="left", maintain_order="left")
        studies = studies._replace(used=with_split)
        studies = studies.exclude("", pl.col("split").is_null(), "not in the split", LEFT_OUT)
    return studies.exclude("", pl.col("frontal").is_null(), "no frontal image", LEFT_OUT)


def _image_files(folder: Path) -> dict[str, str]:
    """Map keys to the image files below a folder, as paths relative to it."""
    ranked = []
    for path in files_below(folder):
        suffix = path.suffix.lower()
        if suffix in _FORMATS:
            relative = path.relative_to(folder).as_posix()
            rank = _FORMATS.index(suffix)
            ranked.append((rank, relative.count("/"), relative, image_key(path.name)))
    return {key: relative for _, _, relative, key in sorted(ranked, reverse=True)}


def parse_report(content: bytes) -> tuple[str, list[str], dict[str, str | None]]:
    """Return a report's id, its images by their names in the distribution, and its texts by
    section. Raises a ValueError(field, reason) if the report is not valid XML, or has no number."""
    try:
        root = ET.fromstring(content)
    except (ET.ParseError, ValueError, LookupError):
        raise ValueError("-", "not valid XML") from None  # the parser's message may quote the file
    element = root.find("uId")
    match = _NUMBER.fullmatch("" if element is None else element.get("id", "").strip())
    if match is None:
        raise ValueError("uId/@id", "expected an id such as CXR1 or 1")
    images = [name for image in root.iter("parentImage") if (name := image.get("id", "").strip())]
    texts: dict[str, list[str]] = {}
    for section in root.iter("AbstractText"):
        if (text := "".join(section.itertext())).strip():
            texts.setdefault(section.get("Label", "").strip().lower(), []).append(text)
    sections = {name: " ".join(texts.get(name, ())) or None for name in SECTIONS}
    return f"CXR{match[1]}", images, sections
