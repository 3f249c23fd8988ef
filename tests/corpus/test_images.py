"""Looking at every image once: what is found, that a second start does not look again, and what it costs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image

from pacer.corpus import images
from pacer.corpus.images import SCHEMA, copies_across_splits, inspect_images, keep_used_images, look_at_images
from pacer.corpus.rows import Notes
from tests.dicom import write_dicom


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Twenty images of different sizes; ``p/00.jpg`` is 20 wide and 15 high, ``p/19.jpg`` 39 wide."""
    (tmp_path / "images" / "p").mkdir(parents=True)
    for i in range(20):
        Image.linear_gradient("L").resize((20 + i, 15)).save(tmp_path / "images" / "p" / f"{i:02}.jpg")
    return tmp_path / "images"


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that were opened."""
    opened: list[str] = []
    for name in ("image_header", "open_image"):
        real = getattr(images, name)

        def count(path: str, real=real):
            opened.append(Path(path).name)
            return real(path)

        monkeypatch.setattr(images, name, count)
    return opened


IDS = pl.Series([f"p/{i:02}.jpg" for i in range(20)])


@pytest.mark.parametrize("check", ["headers", "full"])
def test_one_row_per_image(folder: Path, check: str) -> None:
    found = inspect_images(["p/03.jpg", "p/01.jpg", "p/01.jpg"], folder, check)
    assert dict(found.schema) == SCHEMA
    assert found["image_id"].to_list() == ["p/01.jpg", "p/03.jpg"]
    assert found["path"].to_list() == [str(folder / "p" / "01.jpg"), str(folder / "p" / "03.jpg")]
    assert found["bytes"].to_list() == [os.path.getsize(path) for path in found["path"]]
    assert found.select("width", "height", "problem").rows() == [(21, 15, None), (23, 15, None)]


@pytest.mark.parametrize("check", ["headers", "full"])
def test_another_part_of_the_body_is_no_problem_and_remembered(tmp_path: Path, check: str) -> None:
    pixels = np.arange(400).reshape(20, 20)
    write_dicom(tmp_path / "a.dcm", pixels, BodyPartExamined="ABDOMEN")
    write_dicom(tmp_path / "b.dcm", pixels, BodyPartExamined="CHEST")
    for _ in range(2):  # looked at, and from the journal
        found = inspect_images(["a.dcm", "b.dcm"], tmp_path, check, tmp_path / "ledger.jsonl")
        assert found.select("problem", "part").rows() == [(None, "ABDOMEN"), (None, None)]


def test_no_images(tmp_path: Path) -> None:
    assert dict(inspect_images(pl.Series([], dtype=pl.String), tmp_path, "full").schema) == SCHEMA


def test_results_do_not_depend_on_chunks(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    whole = inspect_images(IDS, folder, "full")
    monkeypatch.setattr(images, "CHUNK", 3)
    for _ in range(2):
        assert inspect_images(IDS, folder, "full", tmp_path / "ledger.jsonl").equals(whole)


@pytest.mark.parametrize("check", ["headers", "full"])
def test_problems(folder: Path, check: str, tmp_path: Path) -> None:
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64), dtype=np.uint8)).save(folder / "torn.jpg")
    (folder / "torn.jpg").write_bytes((folder / "torn.jpg").read_bytes()[:1500])
    (folder / "text.jpg").write_text("not an image")
    (folder / "dir.jpg").mkdir()
    ids = ["p/00.jpg", "gone.jpg", "p/00.jpg/inside.jpg", "text.jpg", "torn.jpg", "dir.jpg"]
    for _ in range(2):  # the ledger keeps no problem: it may go away without a change to the file
        found = inspect_images(ids, folder, check, tmp_path / "ledger.jsonl")
        problems = dict(found.select("image_id", "problem").rows())
        assert problems == {
            "p/00.jpg": None,
            "gone.jpg": "the file does not exist",
            "p/00.jpg/inside.jpg": "the file does not exist",
            "text.jpg": "the file is not an image",
            "torn.jpg": "the file cannot be decoded (it is cut off or damaged)" if check == "full" else None,
            "dir.jpg": "it is a folder, not a file",
        }
        bad = found.filter(pl.col("problem").is_not_null())
        assert bad.select("bytes", "width", "height").sum().row(0) == (0, 0, 0)
        assert bad["path"].null_count() == 0


def test_a_second_start_looks_at_new_and_changed_files_only(folder: Path, looked: list[str], tmp_path: Path) -> None:
    ledger = tmp_path / "new" / "ledger.jsonl"
    first = inspect_images(IDS[:18], folder, "full", ledger)
    assert sorted(looked) == [f"{i:02}.jpg" for i in range(18)]
    assert len(ledger.read_text().splitlines()) == 18

    looked.clear()
    assert inspect_images(IDS[:18], folder, "full", ledger).equals(first)
    assert looked == [] and len(ledger.read_text().splitlines()) == 18

    Image.linear_gradient("L").resize((99, 14)).save(folder / "p" / "02.jpg")
    os.utime(folder / "p" / "05.jpg", ns=(1, 1))
    (folder / "p" / "07.jpg").unlink()
    for _ in range(2):
        found = inspect_images(IDS, folder, "full", ledger)
        assert found.filter(image_id="p/02.jpg")["width"].item() == 99
        assert found.filter(image_id="p/07.jpg")["problem"].item() == "the file does not exist"
        assert found["problem"].null_count() == 19
    assert sorted(looked) == ["02.jpg", "05.jpg", "18.jpg", "19.jpg"]


def test_headers_do_not_count_as_decoded(folder: Path, looked: list[str], tmp_path: Path) -> None:
    inspect_images(IDS, folder, "headers", tmp_path / "ledger.jsonl")
    inspect_images(IDS, folder, "full", tmp_path / "ledger.jsonl")
    assert len(looked) == 40
    inspect_images(IDS, folder, "headers", tmp_path / "ledger.jsonl")
    inspect_images(IDS, folder, "full", tmp_path / "ledger.jsonl")
    assert len(looked) == 40


@pytest.mark.parametrize("tail", ['{"path": "/x", "che', "{", "\0" * 70000, ""])
def test_a_ledger_written_half_is_continued(folder: Path, looked: list[str], tmp_path: Path, tail: str) -> None:
    ledger = tmp_path / "ledger.jsonl"
    whole = inspect_images(IDS, folder, "full", ledger)
    lines = ledger.read_text().splitlines(keepends=True)
    ledger.write_text("".join(lines[:9]) + tail)
    looked.clear()
    assert inspect_images(IDS, folder, "full", ledger).equals(whole)
    assert len(looked) == 11
    entries = [json.loads(line) for line in ledger.read_text().splitlines()]
    assert sorted(entry["path"] for entry in entries) == whole["path"].to_list()


@pytest.mark.parametrize("content", ["", "torn", "not JSON\n", '{"path": 3, "check": {"a": 1}}\n', "[1, 2]\n"])
def test_what_is_no_ledger_only_costs_time(folder: Path, looked: list[str], tmp_path: Path, content: str) -> None:
    ledger = tmp_path / "ledger.jsonl"
    ledger.write_text(content)
    assert inspect_images(IDS, folder, "full", ledger)["problem"].null_count() == 20
    looked.clear()
    inspect_images(IDS, folder, "full", ledger)
    assert looked == []


def test_an_interrupted_run_keeps_what_it_has_seen(
    folder: Path, looked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, opened = tmp_path / "ledger.jsonl", images.open_image
    monkeypatch.setattr(images, "_cores", lambda: 1)

    def stop(path: str):
        if path.endswith("12.jpg"):
            raise KeyboardInterrupt
        return opened(path)

    with monkeypatch.context() as patch:
        patch.setattr(images, "open_image", stop)
        with pytest.raises(KeyboardInterrupt):
            inspect_images(IDS, folder, "full", ledger)
    assert len(ledger.read_text().splitlines()) == 12
    looked.clear()
    assert inspect_images(IDS, folder, "full", ledger)["problem"].null_count() == 20
    assert len(looked) == 8


def test_a_killed_run_loses_one_chunk_at_most(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies in the file while the run goes on, as a killed process would leave it."""
    ledger, opened, lines = tmp_path / "ledger.jsonl", images.open_image, []
    monkeypatch.setattr(images, "_cores", lambda: 1)
    monkeypatch.setattr(images, "CHUNK", 5)

    def watch(path: str):
        lines.append(len(ledger.read_text().splitlines()))
        return opened(path)

    monkeypatch.setattr(images, "open_image", watch)
    inspect_images(IDS, folder, "full", ledger)
    assert all(seen >= start - start % 5 for start, seen in enumerate(lines))


@pytest.mark.parametrize("part", [2, 100])
def test_every_image_is_looked_at_once_whatever_the_parts(tmp_path, monkeypatch, part) -> None:
    monkeypatch.setattr(images, "PART", part)
    frontal, lateral = ["a", "b", "c", "a"], [None, "b", "d", None]
    records = tmp_path / "r.parquet"
    pl.DataFrame({"frontal": frontal, "lateral": lateral}).write_parquet(records)
    seen: list[str] = []

    def look(ids, folder, check, ledger, ticker) -> pl.DataFrame:
        seen.extend(ids)
        problem = pl.when(pl.col("image_id") == "c").then(pl.lit("gone"))
        return pl.DataFrame({"image_id": ids}).with_columns(
            pl.lit("p").alias("path"),
            *(pl.lit(1, SCHEMA[n]).alias(n) for n in ("bytes", "width", "height")),
            problem.alias("problem"),
            pl.when(pl.col("image_id") == "b").then(pl.lit("KNEE")).alias("part"),
        )

    headers = tmp_path / "h.parquet"
    notes = Notes()
    assert look_at_images(records, tmp_path, "headers", tmp_path, headers, look, notes) == {"c": "gone"}
    assert notes.found("other_parts") == {"images": {"KNEE": 1}}
    assert sorted(seen) == ["a", "b", "c", "d"]
    pl.DataFrame({"frontal": frontal[:2], "lateral": lateral[:2]}).write_parquet(records)
    assert keep_used_images(headers, records, tmp_path / "i.parquet") == 2
    assert sorted(pl.read_parquet(tmp_path / "i.parquet")["image_id"]) == ["a", "b"]


def test_copies_across_splits_are_found_among_files_of_one_size(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    contents = {name: rng.bytes(20_000) for name in "abc"}
    files = {
        "t1": contents["a"],
        "t2": contents["b"],
        "t3": contents["a"],  # a copy within train is none of two splits
        "v1": contents["b"],
        "v2": contents["c"],
        "e1": contents["a"],
        "e2": contents["b"][:5000] + b"x" + contents["b"][5001:],  # differs where no sample lies
        "e3": b"short",
        "both": b"another",
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    splits = {"t": "train", "v": "val", "e": "test", "b": "train"}
    rows = [{"split": splits[name[0]], "frontal": name, "lateral": None} for name in files]
    rows.append({"split": "test", "frontal": "e3", "lateral": "both"})  # one name in two splits is counted elsewhere
    pl.DataFrame(rows, {"split": str, "frontal": str, "lateral": str}).write_parquet(tmp_path / "r.parquet")
    pl.DataFrame(
        [{"image_id": name, "path": str(tmp_path / name), "bytes": len(content)} for name, content in files.items()]
    ).write_parquet(tmp_path / "i.parquet")
    assert copies_across_splits(tmp_path / "i.parquet", tmp_path / "r.parquet") == {
        "train-val": [("t2", "v1")],
        "train-test": [("t1", "e1")],
        "val-test": [],
    }


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("/p/03.jpg", "it is an absolute path; write it relative to the folder"),
        ("C:\\p\\03.jpg", "it is an absolute path; write it relative to the folder"),
        ("../images/p/03.jpg", "it leads out of the folder"),
        ("p/../../images/p/03.jpg", "it leads out of the folder"),
        ("p/../p/03.jpg", None),
    ],
)
def test_paths_stay_below_the_folder(folder: Path, name: str, problem: str | None) -> None:
    assert inspect_images([name], folder, "headers")["problem"].to_list() == [problem]
