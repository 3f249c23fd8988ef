"""Reader of Open-I, Indiana University's collection of XML reports, as distributed.

A report names its images but not their views, so a table of projections identifies the frontal one.
Study and subject are the report's number in Open-I's form (``CXR1``): the collection does not
identify reports of the same patient, and its COMPARISON section is not a previous report.
"""

import json
import re
import xml.etree.ElementTree as ET
from importlib import resources
from pathlib import Path
from typing import Any

import polars as pl

from pacer.config import Corpus
from pacer.core.io import files_below
from pacer.data.account import LEFT_OUT, Account
from pacer.data.readers.files import read_files
from pacer.data.readers.views import choose_images, image_key, read_views
from pacer.data.source import Source

NAMES = {"frontal": "parentImage", "lateral": "parentImage"}
SECTIONS = ("findings", "impression", "indication")

_NUMBER = re.compile(r"(?:CXR)?([0-9]+)")
#: Image formats in order of preference, if an image exists in several formats.
_FORMATS = (".png", ".jpg", ".jpeg", ".dcm")
_TEXTS = ("file", "id", "field", "reason", "frontal", "lateral", "view", *SECTIONS)


def read(source: Source, config: Corpus, account: Account) -> pl.DataFrame:
    """Return one study per report, with the first frontal and the first lateral image.

    An image that is not in the image folder keeps its name in the distribution, so that the image
    check reports it.
    """
    path, projections = source.files["reports"], source.files["projections"]
    views, files = read_views(projections), _image_files(source.images)
    rows: list[dict[str, Any]] = []
    named: list[str] = []
    for name, content in read_files(path, ".xml"):
        account.read["reports"] += 1
        try:
            uid, images, texts = parse_report(content)
        except ValueError as error:
            field, reason = error.args
            rows.append({"file": f"{path}/{name}", "field": field, "reason": reason})
            continue
        named += images
        frontal, view, lateral = choose_images(images, views)
        chosen = {"frontal": frontal, "lateral": lateral}
        shown = {
            kind: image and files.get(image_key(image), f"{image}.png")
            for kind, image in chosen.items()
        }
        rows.append({"file": f"{path}/{name}", "id": uid, "view": view} | texts | shown)
    account.count(
        "unknown_views",
        projections.name,
        "images",
        sum(image_key(name) not in views for name in named),
    )
    studies = pl.DataFrame(rows, dict.fromkeys(_TEXTS, pl.String()))
    studies = studies.with_columns(row=pl.lit(""), study_id="id", subject_id="id")
    broken = pl.col("reason").is_not_null()
    account.add(studies.filter(broken))
    studies = studies.filter(~broken)
    if config.openi.split is not None:
        packaged = (
            resources.files("pacer.data.readers")
            .joinpath("r2gen_iu_split.json")
            .read_text(encoding="utf-8")
        )
        pairs = [
            (f"CXR{number}", split)
            for split, numbers in json.loads(packaged).items()
            for number in numbers
        ]
        splits = pl.DataFrame(pairs, ["id", "split"], orient="row")
        studies = studies.join(splits, on="id", how="left", maintain_order="left")
        studies = account.divert(
            studies, "", pl.col("split").is_null(), "not in the split", LEFT_OUT
        )
    return account.divert(studies, "", pl.col("frontal").is_null(), "no frontal image", LEFT_OUT)


def _image_files(folder: Path) -> dict[str, str]:
    """Map keys to the image files below a folder, as paths relative to it."""
    ranked = []
    for path in files_below(folder):
        ending, relative = path.suffix.lower(), path.relative_to(folder).as_posix()
        if ending in _FORMATS:
            ranked.append(
                (_FORMATS.index(ending), relative.count("/"), relative, image_key(path.name))
            )
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
    return (
        f"CXR{match[1]}",
        images,
        {name: " ".join(texts.get(name, ())) or None for name in SECTIONS},
    )
