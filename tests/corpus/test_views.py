"""Views of images: what a text says, and tables of them."""

from __future__ import annotations

import csv
import gzip
import json
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pacer.core.errors import DataError
from pacer.corpus.views import View, image_key, parse_view, read_views, view_of

AP, PA, OTHER, LATERAL = (
    View("frontal", "AP"),
    View("frontal", "PA"),
    View("frontal", "other"),
    View("lateral", "other"),
)


@pytest.mark.parametrize(
    ("texts", "view"),
    [
        (
            (
                "AP",
                "ap",
                " AP ",
                "AP SUPINE",
                "AP Supine",
                "AP erect",
                "AP AXIAL",
                "AP_horizontal",
                "antero-posterior",
                "AP LLD",
                "AP left lateral decubitus",
                "APSupine",
                "APSUPINE",
                "apsupine",
                "APerect",
                "AP_PortableSupine",
                "APSemiErect",
                "APHorizontal",
            ),
            AP,
        ),
        (("PA", "PA LLD", "PA RLD", "postero-anterior", "PosteroAnterior", "Frontal PA", "PAerect", "PAUpright"), PA),
        (("FRONTAL", "Frontal", "AP/PA"), OTHER),
        (("LATERAL", "Lateral", "LL", "RL", "L", "LARGE LATERAL", "XTABLE LATERAL", "left lateral"), LATERAL),
        (
            (
                "",
                "  ",
                "unknown",
                "LAO",
                "LATERAL OBLIQUE",
                "PA and lateral",
                "Frontal/Lateral",
                "SWIMMERS",
                "LLD",
                "lateral decubitus",
                "APEX",
                "PAN",
                "APICAL",
                "PASSIVE",
                "PARTERECT",
                "APERTURE",
                "LAPSUPINE",
                "MARKER L",
                None,
                1,
                0.5,
                ["PA"],
            ),
            None,
        ),
    ],
)
def test_parse_view(texts: tuple[Any, ...], view: View | None) -> None:
    for text in texts:
        assert parse_view(text) == view, text


@given(st.one_of(st.text(), st.none(), st.integers(), st.floats(), st.lists(st.text())))
def test_parse_view_takes_anything(value: Any) -> None:
    view = parse_view(value)
    assert view is None or (view.kind in ("frontal", "lateral") and view.view in ("AP", "PA", "other"))


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
    """Rows in the format of the path's ending."""
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    if ".jsonl" in path.name:
        with opened(path, "wt") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    elif path.suffix == ".parquet":
        pl.DataFrame(rows).write_parquet(path)
    else:
        with opened(path, "wt", newline="") as file:
            table = csv.DictWriter(file, list(rows[0]))
            table.writeheader()
            table.writerows(rows)
    return path


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".CSV.GZ", ".jsonl", ".jsonl.gz", ".parquet"])
def test_every_format(ending: str, tmp_path: Path) -> None:
    rows = [
        {"dicom_id": f"i{n}", "Rows": 1, "ViewPosition": text} for n, text in enumerate(("PA", "LL", "", "LAO", "AP"))
    ]
    assert read_views(write(tmp_path / f"views{ending}", rows)) == {"i0": PA, "i1": LATERAL, "i4": AP}


def test_kaggle_and_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "indiana_projections.csv"
    path.write_text(
        "\ufeffuid,filename,projection\n1,1_IM-0001-4001.dcm.png,Frontal\n,,\n1,1_IM-0001-3001.dcm.png,Lateral\n"
    )
    assert read_views(path) == {"1_IM-0001-4001": OTHER, "1_IM-0001-3001": LATERAL}


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
        for name, view in (("A/0.png", "PA"), ("A/1.png", "LL"), ("B/0.png", ""), ("B/only.png", "AP"), ("x", "PA"))
    ]
    views = read_views(write(tmp_path / "v.csv", rows))
    assert view_of(views, "A/0.png") == PA
    assert view_of(views, "images/A/1.png") == LATERAL
    assert view_of(views, "B/0.png") is None, "0 stands for two images"
    assert view_of(views, "C/0.png") is None
    assert view_of(views, "elsewhere/only.jpg") == AP
    assert view_of(views, "deep/down/x.jpg") == PA
    assert view_of(views, "y") is None


def test_a_name_of_several_images_tells_nothing(tmp_path: Path) -> None:
    for order in (("A", "B"), ("B", "A")):
        rows = [{"image": f"{folder}/0.png", "view": "PA" if folder == "A" else ""} for folder in order]
        assert read_views(write(tmp_path / "v.csv", rows)) == {"A/0": PA}


def test_columns_of_which_one_is_empty(tmp_path: Path) -> None:
    rows = [{"image": None, "filename": "a.png", "view": None, "ViewPosition": "PA"}, {"image": 7, "view": "LL"}]
    assert read_views(write(tmp_path / "v.jsonl", rows)) == {"a": PA, "7": LATERAL}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("v.csv", b"", "needs one of the columns image"),
        ("v.csv", b"image,other\na,PA\n", "needs one of the columns view"),
        ("v.csv", b"image,view\n,PA\n", "line 2 names no image"),
        ("v.csv", b"image,view\na,PA\na,AP\n", "line 3 gives image 'a' another view"),
        ("v.csv", b"image,view\na,PA,1\n", "line 2: 3 fields, but the header has 2"),
        ("v.csv", b"image,view\na,PA\nb\n", "line 3: 1 field, but the header has 2"),
        ("v.csv", b'image,view\na,PA\nb,"Frontal\nc,PA\n', "line 3: unexpected end"),
        ("v.csv", b"image,View,view\na,PA,AP\n", r"column view more than once \(View, view\)"),
        ("v.parquet.gz", b"", "must be a table"),
        ("v.csv", b"image,view\n\xff\xfe,PA\n", "UTF-8"),
        ("v.csv.gz", b"image,view\na,PA\n", "cannot be read"),
        ("v.csv.gz", gzip.compress(b"image,view\na,PA\n" * 99)[:-9], "cannot be read"),
        ("v.jsonl", b"{}\n", "needs one of the columns image"),
        ("v.jsonl", b"[1]\n", "line 1: expected an object, got a list of 1"),
        ("v.jsonl", b'{"image": "a", "view": "PA"}\n\n{', "line 3 is not valid JSON"),
        ("v.jsonl", b"[" * 100_000, "line 1 is not valid JSON"),
        ("v.parquet", b"PAR1", "cannot be read"),
        ("v.xlsx", b"", "save the sheet as CSV"),
    ],
)
def test_broken_tables(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_views(path)


def test_long_cells(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text(f'image,view,note\na,PA,"{"x" * 140_000}"\n')
    assert read_views(tmp_path / "v.csv") == {"a": PA}


def test_missing_and_folder(tmp_path: Path) -> None:
    for name in ("v.csv", "v.csv.gz", "v.parquet"):
        with pytest.raises(DataError, match="does not exist"):
            read_views(tmp_path / name)
    (tmp_path / "v.csv").mkdir()
    with pytest.raises(DataError, match="cannot be read"):
        read_views(tmp_path / "v.csv")


def test_repeated_images_of_the_same_view(tmp_path: Path) -> None:
    rows = [{"image": "a", "view": ""}, {"image": "a.png", "view": "PA"}, {"image": "a", "view": "PA"}]
    assert read_views(write(tmp_path / "v.csv", rows)) == {"a": PA}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
@given(st.binary(), st.sampled_from(["v.csv", "v.csv.gz", "v.jsonl", "v.parquet"]), st.booleans())
def test_any_bytes(tmp_path: Path, content: bytes, name: str, with_header: bool) -> None:
    path = tmp_path / name
    path.write_bytes((b"image,view\n" if with_header else b"") + content)
    with suppress(DataError):
        read_views(path)


@pytest.mark.slow
def test_memory_of_a_large_table(tmp_path: Path) -> None:
    """Views are shared objects: what grows is the key and its place in the dictionary."""
    path = tmp_path / "v.csv.gz"
    with gzip.open(path, "wt") as file:
        file.write("dicom_id,subject_id,ViewPosition,procedure\n")
        file.writelines(f"{n:08x}-{n:08x}-{n:08x}-{n:08x}-{n:08x},1,PA,{'x' * 200}\n" for n in range(40_000))
    tracemalloc.start()
    try:
        assert len(read_views(path)) == 40_000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 40_000 * 350
