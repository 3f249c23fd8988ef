"""A journal: lines appended one by one, whole again after a kill at any moment."""

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pacer.core.errors import DataError, PacerError
from pacer.core.journal import Journal, read_journal, whole_lines


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rows.jsonl"


@pytest.mark.parametrize("left", [b"", b"{", b'{"a": "', '{"a": "è'.encode()[:-1], b"\0\0\0", b"7"])
def test_a_line_that_a_kill_cut_short_goes(path: Path, left: bytes) -> None:
    whole = '{"a": "è"}\n'.encode()
    for before in (b"", whole, 2 * whole):
        path.write_bytes(before + left)
        assert [row for _, row in read_journal(path)] == before.count(b"\n") * [{"a": "è"}]
        assert path.read_bytes() == before + left  # reading alone changes nothing
        with Journal(path):
            assert path.read_bytes() == before


def test_a_whole_line_that_lacks_its_break_stays(path: Path) -> None:
    path.write_bytes(b'{"a": 1}\n{"a": 2}')
    with Journal(path) as journal:
        journal.append({"a": 3})
    assert list(read_journal(path)) == [(1, {"a": 1}), (2, {"a": 2}), (3, {"a": 3})]


def test_lines_are_there_as_soon_as_they_are_appended(path: Path) -> None:
    assert list(read_journal(path)) == []
    with Journal(path.parent / "new" / path.name) as journal, ThreadPoolExecutor(8) as pool:
        for number in range(3):
            journal.append({"row": "\ud800"}, durable=number == 1)
            assert whole_lines(path.parent / "new" / path.name).count(b"\n") == number + 1
        list(pool.map(lambda row: journal.append({"row": row}), range(100)))
    rows = [row["row"] for _, row in read_journal(path.parent / "new" / path.name)]
    assert rows[:3] == 3 * ["\ud800"] and sorted(rows[3:]) == list(range(100))


def test_a_damaged_line_is_named(path: Path) -> None:
    path.write_bytes(b"{}\n{\n{}\n")
    with pytest.raises(DataError, match=r"rows.jsonl, line 2 is not valid JSON"):
        list(read_journal(path))


def test_a_full_disk_leaves_whole_lines(path: Path) -> None:
    class Full:
        """A raw file that takes five bytes, then none."""

        name = str(path)

        def __init__(self, file):
            self.file, self.fileno, self.truncate = file, file.fileno, file.truncate
            self.room = 5

        def write(self, content: bytes) -> int:
            if not self.room:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            count, self.room = self.file.write(content[: self.room]), 0
            return count

    with Journal(path) as journal:
        journal.append({"a": 1})
        file, journal._file = journal._file, Full(journal._file)
        for _ in range(2):
            with pytest.raises(PacerError, match=r"rows.jsonl cannot be written \(No space left on device\)"):
                journal.append({"a": 2})
            assert path.read_bytes() == b'{"a": 1}\n'
        journal._file = file
