"""Files that are read and written: atomic names, folders that may be replaced."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from pacer.core.errors import DataError
from pacer.core.io import atomic_directory, atomic_path, check_replaceable, files_below


def test_an_output_that_is_a_link_is_replaced_and_what_it_points_to_stays(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "old").touch()
    (tmp_path / "out").symlink_to(tmp_path / "disk")
    with atomic_directory(tmp_path / "out") as directory:
        (directory / "new").touch()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["new"] and not (tmp_path / "out").is_symlink()
    assert [path.name for path in (tmp_path / "disk").iterdir()] == ["old"]


def test_files_are_walked_in_the_same_order_wherever_they_lie(tmp_path: Path) -> None:
    for name in ("b", "a", "z/c"):
        (tmp_path / "corpus" / name).mkdir(parents=True)
        (tmp_path / "corpus" / name / "2").touch()
        (tmp_path / "corpus" / name / "1").touch()
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "3").touch()
    (tmp_path / "disk" / "loop").symlink_to(tmp_path / "corpus")
    (tmp_path / "corpus" / "link").symlink_to(tmp_path / "disk")
    (tmp_path / "corpus" / "same").symlink_to(tmp_path / "disk")
    (tmp_path / "corpus" / "a" / "deeper").symlink_to(tmp_path / "corpus" / "b")
    walked = [os.path.relpath(path, tmp_path / "corpus") for path in files_below(tmp_path / "corpus")]
    assert walked == ["a/1", "a/2", "b/1", "b/2", "link/3", "z/c/1", "z/c/2"]


@pytest.mark.parametrize("durable", [False, True])
def test_nothing_is_half_written_under_its_final_name(tmp_path: Path, durable: bool) -> None:
    path = tmp_path / "new" / "rows.csv"
    with atomic_path(path, durable=durable) as temporary:
        temporary.write_text("old")
    with pytest.raises(ZeroDivisionError), atomic_path(path, durable=durable) as temporary:
        temporary.write_text("ne")
        _ = 1 / 0
    assert path.read_text() == "old" and list(path.parent.iterdir()) == [path]


def test_a_folder_with_something_else_in_it_is_not_replaced(tmp_path: Path) -> None:
    out = tmp_path / "out"
    check_replaceable(out)
    out.mkdir()
    check_replaceable(out)
    (out / "notes.txt").touch()
    check_replaceable(out, ["notes.txt"])
    with pytest.raises(DataError, match=r"out contains notes.txt, which would be lost; move it, or choose another"):
        check_replaceable(out, ["scores.json"])
    with pytest.raises(DataError, match=r"notes.txt is a file; choose a folder"):
        check_replaceable(out / "notes.txt")


@pytest.fixture
def umask() -> Iterator[int]:
    """A umask that lets the group read, and others nothing."""
    before = os.umask(0o027)
    yield 0o027
    os.umask(before)


def test_written_files_follow_the_umask(tmp_path: Path, umask: int) -> None:
    """safetensors writes files that the owner alone can read, whatever the umask says."""
    weights = {"weight": torch.zeros(1)}
    private = tmp_path / "private"
    save_file(weights, private)
    assert private.stat().st_mode & 0o777 == 0o600
    with atomic_path(tmp_path / "file") as temporary:
        save_file(weights, temporary)
    with atomic_directory(tmp_path / "out") as folder:
        (folder / "below").mkdir()
        save_file(weights, folder / "below" / "file")
        (folder / "link").symlink_to(private)
    for written in (tmp_path / "file", tmp_path / "out" / "below" / "file"):
        assert written.stat().st_mode & 0o777 == 0o666 & ~umask
    assert private.stat().st_mode & 0o777 == 0o600  # what a link points to is not ours
