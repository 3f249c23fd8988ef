"""Pointing to a corpus of files, and refusing what cannot be read before any work starts."""

import json

import pytest

from pacer.core.errors import DataError
from pacer.corpus.source import point_to_files, read_source


def test_pointer_holds_sizes_and_hashes(tiny) -> None:
    tiny.write()
    point_to_files(tiny.config(), tiny.out / "source")
    raw = json.loads((tiny.out / "source" / "source.json").read_text())
    assert raw["root"] == str(tiny.root.resolve())
    assert raw["files"]["mw"]["bytes"] == (tiny.root / "mw.json").stat().st_size
    assert len(raw["files"]["mw"]["sha256"]) == 64
    source = read_source(tiny.out / "source")
    assert source.images == tiny.root.resolve() / "files"
    assert source.truth is None


def test_all_problems_are_listed_at_once(tiny, tmp_path) -> None:
    tiny.settings["root"] = str(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"corpus\.root: .*nowhere is not a folder"):
        point_to_files(tiny.config(), tiny.out)
    del tiny.settings["root"]
    tiny.write()
    (tiny.root / "sw.json").unlink()
    (tiny.root / "mw.json").unlink()
    tiny.settings["images"] = "none"
    with pytest.raises(DataError) as error:
        point_to_files(tiny.config(), tiny.out)
    message = str(error.value)
    assert "corpus.images: " in message and "none is not a folder" in message
    assert "sw.json does not exist" in message and "mw.json does not exist" in message
    assert not tiny.out.exists()


def test_changed_annotation_file_is_refused(tiny) -> None:
    tiny.build()
    tiny.files["sn"]["train"].pop()
    tiny.write()
    with pytest.raises(DataError, match=r"sn.json has changed since the `source` stage ran"):
        read_source(tiny.out / "source")


def test_malformed_pointer(tmp_path) -> None:
    (tmp_path / "source.json").write_text('{"root": "."}')
    with pytest.raises(DataError, match="must have root, images and files"):
        read_source(tmp_path)


def test_a_folder_is_known_by_the_names_and_sizes_of_its_files(tiny) -> None:
    folder = tiny.root / "reports"
    folder.mkdir()
    (folder / "s1.txt").write_text("one")
    tiny.settings["original_references"] = "reports"
    tiny.write()
    point_to_files(tiny.config(), tiny.out / "source")
    assert (
        read_source(tiny.out / "source").files["original_references"]
        == tiny.root.resolve() / "reports"
    )
    (folder / "s2.txt").write_text("two")
    with pytest.raises(DataError, match=r"reports has changed"):
        read_source(tiny.out / "source")
