"""Inspection of every image, and tables of views."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from PIL import Image

from pacer.core.errors import DataError
from pacer.corpus.images import SCHEMA, inspect_images
from pacer.corpus.readers.views import image_key, read_views, view_of
from pacer.images.greyscale import NOT_AN_IMAGE
from tests.support.cases import cases
from tests.support.dicom import write_dicom


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Twenty images of different sizes; ``p/00.jpg`` is 20 wide and 15 high, ``p/19.jpg`` 39
    wide."""
    (tmp_path / "images" / "p").mkdir(parents=True)
    for i in range(20):
        Image.linear_gradient("L").resize((20 + i, 15)).save(
            tmp_path / "images" / "p" / f"{i:02}.jpg"
        )
    return tmp_path / "images"


def test_one_row_per_image(folder: Path) -> None:
    found = inspect_images(["p/03.jpg", "p/01.jpg", "p/01.jpg"], folder)
    assert dict(found.schema) == SCHEMA
    assert found["image_id"].to_list() == ["p/01.jpg", "p/03.jpg"]
    assert found["path"].to_list() == [str(folder / "p" / "01.jpg"), str(folder / "p" / "03.jpg")]
    assert found["bytes"].to_list() == [os.path.getsize(path) for path in found["path"]]
    assert found.select("width", "height", "problem").rows() == [(21, 15, None), (23, 15, None)]


def test_a_field_that_is_ignored_is_no_problem(tmp_path: Path) -> None:
    written = {"RescaleSlope": 0, "RescaleIntercept": 0, "BodyPartExamined": "ABDOMEN"}
    write_dicom(tmp_path / "a.dcm", np.arange(400).reshape(20, 20), **written)
    write_dicom(tmp_path / "b.dcm", np.arange(400).reshape(20, 20), PixelData=None)
    found = inspect_images(["a.dcm", "b.dcm"], tmp_path)
    ignored = ["BodyPartExamined is ABDOMEN", "RescaleSlope is 0 and is ignored"]
    lacking = "the image cannot be used: its DICOM header lacks PixelData"
    assert found.select("problem", "notes").rows() == [(None, ignored), (lacking, [])]


def test_problems(folder: Path) -> None:
    (folder / "text.jpg").write_text("not an image")
    (folder / "dir.jpg").mkdir()
    long = "x" * 300 + ".jpg"
    found = inspect_images(
        ["p/00.jpg", "gone.jpg", "p/00.jpg/inside.jpg", "text.jpg", "dir.jpg", long], folder
    )
    assert dict(found.select("image_id", "problem").iter_rows()) == {
        "p/00.jpg": None,
        "gone.jpg": "the file does not exist",
        "p/00.jpg/inside.jpg": "the file does not exist",
        "text.jpg": NOT_AN_IMAGE,
        "dir.jpg": "the file cannot be read (Is a directory)",
        long: "the file cannot be read (File name too long)",
    }
    bad = found.filter(pl.col("problem").is_not_null())
    assert bad.select("bytes", "width", "height").sum().row(0) == (0, 0, 0)
    assert bad["path"].null_count() == 0


@cases(__file__, "keys")
def test_names_of_images(kind: str, case: dict[str, Any]) -> None:
    assert image_key(case["name"]) == case["key"]


@cases(__file__, "tables", "broken")
def test_tables_of_views(kind: str, case: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text(case["content"])
    if kind == "broken":
        with pytest.raises(DataError, match=case["message"]):
            read_views(tmp_path / "v.csv")
        return
    views = read_views(tmp_path / "v.csv")
    assert {key: " ".join(view) for key, view in views.items()} == case["views"]
    for image, view in case.get("images", {}).items():
        found = view_of(views, image)
        assert (found and " ".join(found)) == view, image
