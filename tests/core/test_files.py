"""What is opened is a file, and what is named for an output can be written: said before any work."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from pacer.core.errors import DataError
from pacer.core.io import NotAFile, check_output, check_replaceable, hash_file, open_file, opened


def test_a_file_is_opened_and_its_gzip_form_unpacked(tmp_path: Path) -> None:
    import gzip

    (tmp_path / "plain").write_bytes(b"words")
    (tmp_path / "packed.GZ").write_bytes(gzip.compress(b"words"))
    for name in ("plain", "packed.GZ"):
        with opened(tmp_path / name) as file:
            assert file.read() == b"words"


@pytest.mark.parametrize("kind", ["pipe", "device", "socket"])
def test_what_could_wait_for_ever_is_refused(tmp_path: Path, kind: str) -> None:
    """Without a writer the ordinary ``open`` of a pipe never returns, and ``/dev/zero`` never ends."""
    path = Path("/dev/zero") if kind == "device" else tmp_path / kind
    listening = socket.socket(socket.AF_UNIX)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        listening.bind(str(path))
    with listening, pytest.raises(OSError):
        open_file(path)
    if kind != "socket":  # the system itself refuses to open one
        with pytest.raises(NotAFile, match="a pipe or a device, not a file"):
            hash_file(path)


def test_a_folder_is_refused_as_it_is_by_open(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        open_file(tmp_path)


@pytest.mark.parametrize("out", ["new", "new/deep/er", "there", "there/new"])
@pytest.mark.parametrize("folder", [True, False])
def test_a_place_that_can_be_written_leaves_no_trace_of_the_check(tmp_path: Path, out: str, folder: bool) -> None:
    if folder or out != "there":
        (tmp_path / "there").mkdir()
    before = sorted(tmp_path.rglob("*"))
    check_output(tmp_path / out, folder=folder)
    check_output(str(tmp_path / out), folder=folder)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("out", "folder", "said"),
    [
        ("file", True, "is a file; name a folder"),
        ("folder", False, "is a folder; name a file"),
        ("/dev/null", False, "is a device or a pipe; name a file"),
        ("file/below", True, "cannot be written: Not a directory"),
        ("file/below", False, "cannot be written: Not a directory"),
        ("/proc/x", True, "cannot be written: No such file or directory"),
        ("/proc/x/y.jsonl", False, "cannot be written: No such file or directory"),
        ("dangling", True, "is a link to nothing"),
        ("dangling/below", False, "is a link to nothing"),
        ("x" * 300, True, "cannot be written: File name too long"),
        ("nul\0", False, "cannot be written: embedded null byte"),
        ("read only", True, "cannot be written: Permission denied"),
        ("read only/new", False, "cannot be written: Permission denied"),
    ],
)
def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path: Path, out: str, folder: bool, said: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "read only").mkdir(mode=0o500)
    if out.startswith("read only") and os.access(tmp_path / "read only", os.W_OK):
        pytest.skip("this user may write into a read-only folder")
    with pytest.raises(DataError) as refused:
        check_output(tmp_path / out, folder=folder)
    assert said in str(refused.value)


def test_what_cannot_be_replaced_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "real" / "notes.txt").touch()
    with pytest.raises(DataError, match=r"real would be replaced, but it holds notes.txt, which"):
        check_replaceable(tmp_path / "real", ["scores.json"])
    check_replaceable(tmp_path / "real", ["notes.txt"])
    monkeypatch.chdir(tmp_path / "real")
    for out in (tmp_path / "link", Path("."), Path("/")):
        with pytest.raises(DataError, match="is never replaced; name a folder inside it"):
            check_replaceable(out, ["notes.txt"])
