"""Views of images: what a text says, and tables of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
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


@pytest.mark.parametrize(
    "name",
    [
        "CXR1_1_IM-0001-4001",
        "1_IM-0001-4001.dcm.png",
        "1_IM-0001-4001.jpg",
        "CXR1_IM-0001-4001.dcm",
        "1_IM-0001-4001",
        "CXR1_1_IM-0001-4001.PNG",
        " 1_IM-0001-4001.jpeg ",
    ],
)
def test_one_key_for_all_distributions(name: str) -> None:
    assert image_key(name) == "1_IM-0001-4001"


def test_keys_keep_what_tells_images_apart() -> None:
    assert image_key("CXR10_IM-0002-1001") == "10_IM-0002-1001"
    assert image_key("CXR1_11_IM-0001") == "1_11_IM-0001"
    assert image_key("CXR2384_IM-0942/0.png") == "CXR2384_IM-0942/0"
    assert image_key("p10/p1/s5/02aa804e-bde0afdd.jpg") == "p10/p1/s5/02aa804e-bde0afdd"
    assert image_key("1.2.840.113") == "1.2.840.113"


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    pl.DataFrame(rows).write_csv(path)
    return path


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("image,other\na,PA\n", "needs one of the columns view"),
        ("image,view\n,PA\n", "line 2 names no image"),
        ("image,view\na,PA\na,AP\n", "line 3 gives image a another view"),
        ("image,View,view\na,PA,AP\n", r"column view more than once \(View, view\)"),
    ],
)
def test_broken_tables(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text(content)
    with pytest.raises(DataError, match=message):
        read_views(tmp_path / "v.csv")


def test_kaggle_and_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "indiana_projections.csv"
    path.write_text(
        "\ufeffuid,filename,projection\n1,1_IM-0001-4001.dcm.png,Frontal\n,,\n1,1_IM-0001-3001.dcm.png,Lateral\n"
    )
    assert read_views(path) == {"1_IM-0001-4001": OTHER, "1_IM-0001-3001": LATERAL}


def test_a_view_in_full_counts_where_the_position_is_empty(tmp_path: Path) -> None:
    positions = {"a": "", "b": "", "c": "PA", "d": "SWIMMERS", "e": "nan"}
    meanings = {"a": "antero-posterior", "b": "left lateral", "c": "lateral", "d": "lateral", "e": "postero-anterior"}
    rows = [
        {"dicom_id": image, "ViewPosition": position, "ViewCodeSequence_CodeMeaning": meanings[image]}
        for image, position in positions.items()
    ]
    assert read_views(write(tmp_path / "v.csv", rows)) == {"a": AP, "b": LATERAL, "c": PA, "e": PA}


def test_the_first_view_column_decides_and_others_add(tmp_path: Path) -> None:
    rows = [
        {"image": "a", "view": "frontal", "projection": "PA"},
        {"image": "b", "view": "lateral", "projection": "PA"},
        {"image": "c", "view": "frontal", "projection": "LL"},
        {"image": "d", "view": "", "projection": "AP"},
        {"image": "e", "view": "", "projection": ""},
    ]
    assert read_views(write(tmp_path / "v.csv", rows)) == {"a": PA, "b": LATERAL, "c": OTHER, "d": AP}


def test_images_in_folders(tmp_path: Path) -> None:
    rows = [
        {"image": name, "view": view}
        for name, view in (("A/0.png", "PA"), ("A/1.png", "LL"), ("B/0.png", ""), ("x", "PA"))
    ]
    views = read_views(write(tmp_path / "v.csv", rows))
    assert view_of(views, "A/0.png") == PA
    assert view_of(views, "images/A/1.png") == LATERAL
    assert view_of(views, "B/0.png") is None
    assert view_of(views, "C/0.png") is None
    assert view_of(views, "deep/down/x.jpg") == PA
    assert view_of(views, "y") is None


def test_repeated_images_of_the_same_view(tmp_path: Path) -> None:
    rows = [{"image": "a", "view": ""}, {"image": "a.png", "view": "PA"}, {"image": "a", "view": "PA"}]
    assert read_views(write(tmp_path / "v.csv", rows)) == {"a": PA}


def test_a_table_of_views_whose_ids_were_rounded_is_refused(tmp_path: Path) -> None:
    (tmp_path / "views.csv").write_text("image,view\na,PA\n1.23457E+12,LL\n")
    with pytest.raises(DataError, match=r"line 3, image: 1.23457E\+12 is an id that .* has rounded"):
        read_views(tmp_path / "views.csv")
