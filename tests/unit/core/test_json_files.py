"""JSON as other programs write it, and as a kill leaves it."""

import gzip
from pathlib import Path

import pytest

from pacer.core.errors import DataError
from pacer.core.io import numbered_jsonl, read_json, read_jsonl

MARK = b"\xef\xbb\xbf"  # byte order mark


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rows.jsonl"


def test_a_byte_order_mark_is_no_part_of_the_content(path: Path) -> None:
    path.write_bytes(MARK + b'{"a": 1}')
    assert read_json(path) == {"a": 1}
    path.write_bytes(MARK + b'{"a": 1}\n' + MARK + b'{"a": 2}\n' + MARK)  # two such files, one behind the other
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
