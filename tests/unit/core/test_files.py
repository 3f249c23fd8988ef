"""Files that are read and written: atomic names, JSON of other programs, journals."""

import errno
import gzip
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from pacer.core.errors import DataError
from pacer.core.io import (
    Journal,
    atomic_directory,
    atomic_path,
    check_replaceable,
    files_below,
    numbered_jsonl,
    parse_yaml,
    read_journal,
    read_json,
    read_jsonl,
    write_text,
)

ROOT = Path(__file__).parents[3]


def test_yaml_is_read_alike_where_libyaml_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """libyaml refuses these words; what one reader changes, the next does not see."""
    monkeypatch.setattr(
        "ruamel.yaml.main.CParser", lambda *_: pytest.fail("ruamel took libyaml's parser")
    )
    parse_yaml(text := "[ribs?, params.yaml:seed]").clear()
    assert parse_yaml(text) == ["ribs?", "params.yaml:seed"]
    assert [
        file for file in (ROOT / "pacer").rglob("*.py") if 'YAML(typ="safe")' in file.read_text()
    ] == []


def test_an_output_that_is_a_link_is_replaced_and_what_it_points_to_stays(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "old").touch()
    (tmp_path / "out").symlink_to(tmp_path / "disk")
    with atomic_directory(tmp_path / "out") as directory:
        (directory / "new").touch()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["new"] and not (
        tmp_path / "out"
    ).is_symlink()
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
    walked = [
        os.path.relpath(path, tmp_path / "corpus") for path in files_below(tmp_path / "corpus")
    ]
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
    with pytest.raises(
        DataError, match=r"out contains notes.txt, which would be lost; move it, or choose another"
    ):
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


@pytest.fixture
def chmod_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a mount whose user is not the owner of its files (FUSE, CIFS)."""

    def refuse(path: Path, *arguments: object, **named: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(path))

    monkeypatch.setattr(os, "chmod", refuse)
    monkeypatch.setattr(Path, "chmod", refuse)


def test_a_mount_that_refuses_chmod_is_written_to(chmod_refused: None, tmp_path: Path) -> None:
    with atomic_path(tmp_path / "file", durable=True) as temporary:
        temporary.write_text("new")
    with atomic_directory(tmp_path / "out") as folder:
        (folder / "file").write_text("new")
    assert (tmp_path / "file").read_text() == (tmp_path / "out" / "file").read_text() == "new"


def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as pool:
        read = pool.submit(pipe.read_text)
        write_text(pipe, "new")
        assert read.result() == "new"
    assert pipe.is_fifo() and list(tmp_path.iterdir()) == [pipe]


MARK = b"\xef\xbb\xbf"  # byte order mark


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rows.jsonl"


def test_a_byte_order_mark_is_no_part_of_the_content(path: Path) -> None:
    path.write_bytes(MARK + b'{"a": 1}')
    assert read_json(path) == {"a": 1}
    path.write_bytes(
        MARK + b'{"a": 1}\n' + MARK + b'{"a": 2}\n' + MARK
    )  # two such files, one behind the other
    assert read_jsonl(path) == [{"a": 1}, {"a": 2}]


def test_lines_are_numbered_as_they_stand_in_the_file(path: Path) -> None:
    path.write_text('\n1\n  \r\n"\u2028"\n')
    assert list(numbered_jsonl(path)) == [(2, 1), (4, "\u2028")]


def test_a_gzip_file_that_is_cut_off_or_damaged_is_named(tmp_path: Path) -> None:
    whole = gzip.compress(b'{"a": 1}\n' * 50)
    for content in (whole[:-9], whole[:30] + b"x" + whole[31:]):
        (tmp_path / "rows.jsonl.gz").write_bytes(content)
        with pytest.raises(DataError, match=r"rows\.jsonl\.gz is a truncated or damaged gzip file"):
            list(numbered_jsonl(tmp_path / "rows.jsonl.gz"))
        with pytest.raises(DataError, match=r"rows\.jsonl\.gz is a truncated or damaged gzip file"):
            read_json(tmp_path / "rows.jsonl.gz")


@pytest.mark.parametrize(
    "line", [b"\0\0\0\0", b'{"a": "\0"}', b'{"a": ', b'{"a": "\xff"}', b"[" * 100_000, b"9" * 5000]
)
def test_a_line_that_cannot_be_read_is_named(path: Path, line: bytes) -> None:
    path.write_bytes(b"\n{}\n" + line + b"\n")
    with pytest.raises(DataError, match=r"rows.jsonl, line 3: invalid JSON"):
        read_jsonl(path)


def test_lines_are_there_as_soon_as_they_are_appended(tmp_path: Path) -> None:
    path = tmp_path / "new" / "rows.jsonl"
    assert list(read_journal(path)) == []
    with Journal(path) as journal, ThreadPoolExecutor(8) as pool:
        for number in range(3):
            journal.append({"row": "\ud800"})
            assert len(list(read_journal(path))) == number + 1
        list(pool.map(lambda row: journal.append({"row": row}), range(100)))
    rows = [row["row"] for _, row in read_journal(path)]
    assert rows[:3] == 3 * ["\ud800"] and sorted(rows[3:]) == list(range(100))


@given(contents=st.lists(st.text(max_size=5), min_size=1, max_size=4), data=st.data())
def test_cut_anywhere(
    tmp_path_factory: pytest.TempPathFactory, contents: list[str], data: st.DataObject
) -> None:
    """Whole lines stay; lines written afterwards are read as well."""
    path = tmp_path_factory.mktemp("cut") / "rows.jsonl"
    with Journal(path) as journal:
        for number, content in enumerate(contents):
            journal.append({"number": number, "content": content})
    whole = path.read_bytes()
    ends = [n for n, byte in enumerate(whole) if byte == ord("\n")]
    cut = data.draw(st.integers(0, len(whole)) | st.sampled_from(ends))
    path.write_bytes(whole[:cut] + data.draw(st.sampled_from([b"", b"\0\0\0"])))
    kept = [{"number": n, "content": contents[n]} for n, end in enumerate(ends) if end < cut]
    assert [row for _, row in read_journal(path)] == kept
    with Journal(path) as journal:
        journal.append({"number": 99})
    assert [row for _, row in read_journal(path)] == [*kept, {"number": 99}]
