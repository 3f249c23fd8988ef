"""Views of images: what a text says, and tables of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pacer.core.errors import DataError
from pacer.data.readers.views import View, image_key, parse_view, read_views, view_of

AP, PA, OTHER = (View("frontal", view) for view in ("AP", "PA", "other"))
LATERAL = View("lateral", "other")
TEXTS = {
    "AP|ap| AP |AP SUPINE|AP Supine|AP erect|AP AXIAL|AP_horizontal|AP LLD|AP left lateral decubitus": AP,
    "PA|PA LLD|PA RLD|Frontal PA|PA erect": PA,
    "FRONTAL|Frontal|AP/PA": OTHER,
    "LATERAL|Lateral|LL|RL|L|LARGE LATERAL|XTABLE LATERAL|LLAT|R-LAT|left lateral|Right lateral": LATERAL,
    "POSTERO_ANTERIOR": PA,
    "ANTERO_POSTERIOR": AP,
    "postero-anterior|Posteroanterior|postero anterior|P.A.|P-A|posterior-anterior|Chest, postero-anterior (PA)": PA,
    "antero-posterior|ANTEROPOSTERIOR|anterior posterior|antero-posterior, supine|Antero-Posterior axial|A.P.": AP,
    "antero-posterior oblique|left anterior oblique|left lateral decubitus|anterior|postero-anterior and lateral": None,
    "|  |unknown|APSUPINE|LAO|LATERAL OBLIQUE|PA and lateral|Frontal/Lateral|SWIMMERS|LLD|lateral decubitus": None,
    "APEX|PAN|APICAL|PASSIVE|PARTERECT|APERTURE|LAPSUPINE|MARKER L": None,
}


@pytest.mark.parametrize(
    ("texts", "view"), [*((texts.split("|"), view) for texts, view in TEXTS.items()), ([None, 1, 0.5, ["PA"]], None)]
)
def test_parse_view(texts: list[Any], view: View | None) -> None:
    for text in texts:
        assert parse_view(text) == view, text


KEY = "1_IM-0001-4001"  # in all distributions


@pytest.mark.parametrize(
    ("name", "key"),
    [
        *((name, KEY) for name in ("CXR1_1_IM-0001-4001", "1_IM-0001-4001.dcm.png", "1_IM-0001-4001.jpg")),
        *((name, KEY) for name in ("CXR1_IM-0001-4001.dcm", "1_IM-0001-4001", "CXR1_1_IM-0001-4001.PNG")),
        (" 1_IM-0001-4001.jpeg ", KEY),
        ("CXR10_IM-0002-1001", "10_IM-0002-1001"),  # what tells images apart is kept
        ("CXR1_11_IM-0001", "1_11_IM-0001"),
        ("CXR2384_IM-0942/0.png", "CXR2384_IM-0942/0"),
        ("p10/p1/s5/02aa804e-bde0afdd.jpg", "p10/p1/s5/02aa804e-bde0afdd"),
        ("1.2.840.113", "1.2.840.113"),
    ],
)
def test_keys_of_images(name: str, key: str) -> None:
    assert image_key(name) == key


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("image,other\na,PA\n", "needs one of the columns view"),
        ("image,view\n,PA\n", "line 2 names no image"),
        ("image,view\na,PA\na,AP\n", "line 3 gives image a another view"),
        ("image,View,view\na,PA,AP\n", r"column view more than once \(View, view\)"),
        ("image,view\na,PA\n1.23457E+12,LL\n", r"line 3, image: 1.23457E\+12 is an id that .* has rounded"),
    ],
)
def test_broken_tables(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text(content)
    with pytest.raises(DataError, match=message):
        read_views(tmp_path / "v.csv")


#: Two views in one table: the first that is understood decides, and others add a direction.
TWO_VIEWS = "image,view,projection\na,frontal,PA\nb,lateral,PA\nc,frontal,LL\nd,,AP\ne,,\n"
#: The view in full counts where the position is empty.
IN_FULL = """dicom_id,ViewPosition,ViewCodeSequence_CodeMeaning
a,,antero-posterior
b,,left lateral
c,PA,lateral
d,SWIMMERS,lateral
e,nan,postero-anterior
"""
KAGGLES = "\ufeffuid,filename,projection\n1,1_IM-0001-4001.dcm.png,Frontal\n,,\n1,1_IM-0001-3001.dcm.png,Lateral\n"


@pytest.mark.parametrize(
    ("content", "views"),
    [
        (KAGGLES, {"1_IM-0001-4001": OTHER, "1_IM-0001-3001": LATERAL}),
        (IN_FULL, {"a": AP, "b": LATERAL, "c": PA, "e": PA}),
        (TWO_VIEWS, {"a": PA, "b": LATERAL, "c": OTHER, "d": AP}),
        ("image,view\na,\na.png,PA\na,PA\n", {"a": PA}),  # the same image again
    ],
    ids=["Kaggle's, with a byte order mark", "in full", "two columns", "the same image again"],
)
def test_tables_of_views(content: str, views: dict[str, View], tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text(content)
    assert read_views(tmp_path / "v.csv") == views


def test_images_in_folders(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text("image,view\nA/0.png,PA\nA/1.png,LL\nB/0.png,\nx,PA\n")
    views = read_views(tmp_path / "v.csv")
    assert view_of(views, "A/0.png") == PA
    assert view_of(views, "images/A/1.png") == LATERAL
    assert view_of(views, "B/0.png") is None
    assert view_of(views, "C/0.png") is None
    assert view_of(views, "deep/down/x.jpg") == PA
    assert view_of(views, "y") is None
