"""The journal of answers: cut anywhere it keeps every whole line, and tells what was under way."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacer.core.errors import DataError
from pacer.labelling.answers.reading import Reply
from pacer.labelling.client.cache import AnswerCache, Journal, answer_line


def line(number: int, content: str = "{}") -> dict:
    return answer_line(f"sn-{number}", f"hash-{number}", "prompt", "openai", Reply(content), 0.01)


def open_cache(folder: Path) -> AnswerCache:
    return AnswerCache(folder / "cache.jsonl", folder / "journal.jsonl")


@given(contents=st.lists(st.text(max_size=5), min_size=1, max_size=4), data=st.data())
def test_cut_anywhere(tmp_path_factory: pytest.TempPathFactory, contents: list[str], data: st.DataObject) -> None:
    """Whole lines stay, one that lacks its newline alone included; lines written afterwards are read as well."""
    folder = tmp_path_factory.mktemp("cut")
    with open_cache(folder) as cache:
        for number, content in enumerate(contents):
            cache.add(line(number, content))
    path = folder / "journal.jsonl"
    whole = path.read_bytes()
    ends = [n for n, byte in enumerate(whole) if byte == ord("\n")]
    cut = data.draw(st.integers(0, len(whole)) | st.sampled_from(ends))
    path.write_bytes(whole[:cut])
    kept = {f"hash-{n}" for n, part in enumerate(whole.split(b"\n")[:-1]) if whole.index(part) + len(part) <= cut}
    with open_cache(folder) as cache:
        assert cache.lines.keys() == kept
        cache.add(line(99))
    with open_cache(folder) as cache:
        assert cache.lines.keys() == kept | {"hash-99"}


@pytest.mark.parametrize("garbage", [b"\0" * 9, b"{\n\0\n", b'"text"\n', b"\xff"])
def test_garbage_at_the_end(tmp_path: Path, garbage: bytes) -> None:
    """What a file system may leave after a loss of power, behind the lines that were synced."""
    with open_cache(tmp_path) as cache:
        cache.add(line(0))
    with open(tmp_path / "journal.jsonl", "ab") as file:
        file.write(garbage)
    with open_cache(tmp_path) as cache:
        cache.add(line(1))
    with open_cache(tmp_path) as cache:
        assert cache.lines.keys() == {"hash-0", "hash-1"}


def test_what_was_under_way_is_counted_once(tmp_path: Path) -> None:
    with open_cache(tmp_path) as cache:
        for number in range(4):
            cache.sent(f"hash-{number}")
        cache.add(line(0))
        cache.no_answer("hash-1", "rate_limited")
        cache.no_answer("hash-2", "timeout")
        cache.sent("hash-2")
    for _ in range(2):
        with open_cache(tmp_path) as cache:
            assert [cache.lost(f"hash-{number}") for number in range(4)] == [0, 0, 2, 1]
            assert cache.troubles == {"interrupted": 2, "rate_limited": 1, "timeout": 1}


def test_batches_hide_nothing_that_is_under_way(tmp_path: Path) -> None:
    with open_cache(tmp_path) as cache:
        cache.no_answer("hash-1", "batch_expired")
        cache.sent("hash-1")
    with open_cache(tmp_path) as cache:
        assert cache.troubles == {"batch_expired": 1, "interrupted": 1}


def test_lines_of_many_threads_are_whole(tmp_path: Path) -> None:
    with open_cache(tmp_path) as cache:
        threads = [
            threading.Thread(target=lambda k=k: [cache.add(line(100 * k + n, "x" * n)) for n in range(50)])
            for k in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with open_cache(tmp_path) as cache:
        assert len(cache.lines) == 400
        assert cache.lines["hash-349"]["raw"] == "x" * 49


def test_full_disk_ends_the_work_and_leaves_a_journal_that_can_be_read(tmp_path: Path) -> None:
    """The limit on file sizes stands in for the disk; in a process of its own, for it cannot be lifted again."""
    code = f"""
import resource, signal
from pathlib import Path
from tests.labelling.test_cache import line, open_cache
from pacer.core.errors import PacerError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with open_cache(Path({str(tmp_path)!r})) as cache:
    cache.add(line(0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
    for number in (1, 2):
        try:
            cache.add(line(number, "x" * 300 if number == 1 else ""))
        except PacerError as error:
            print(error)
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.count("cannot be written") == 2
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    with open_cache(tmp_path) as cache:
        assert set(cache.lines) == {"hash-0"}


def test_garbage_in_the_middle_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").write_text("{cut\n" + json.dumps(line(1)) + "\n")
    with pytest.raises(DataError, match=r"journal.jsonl, line 1 is not valid JSON"):
        Journal(tmp_path / "journal.jsonl")


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("dollars", None),
        ("dollars", "much"),
        ("dollars", True),
        ("dollars", -1.0),
        ("dollars", float("nan")),
        ("raw", None),
        ("request_hash", ["h"]),
        ("record_id", 7),
        ("lost", "x"),
        ("finish_reason", 3),
        ("model", {}),
        ("prompt_tokens", "1"),
        ("completion_tokens", 1.5),
    ],
)
@pytest.mark.parametrize("name", ["cache", "journal"])
@pytest.mark.parametrize("missing", [True, False])
def test_lines_edited_by_hand(tmp_path: Path, part: str, value: object, name: str, missing: bool) -> None:
    edited = line(1) | {part: value}
    if missing:
        del edited[part]
    (tmp_path / f"{name}.jsonl").write_text(f"{json.dumps(line(0))}\n\n{json.dumps(edited)}\n{json.dumps(line(2))}\n")
    with pytest.raises(DataError, match=rf"{name}.jsonl: .*no labelling answer \({part} is missing or wrong\); delete"):
        open_cache(tmp_path)


@pytest.mark.parametrize("content", [b'{"record_id": "a\xff"}', b"[" * 200_000, b"{", b'{"a": ' + b"1" * 9999 + b"}"])
@pytest.mark.parametrize("name", ["cache", "journal"])
def test_lines_that_cannot_be_read(tmp_path: Path, content: bytes, name: str) -> None:
    whole = json.dumps(line(0)).encode()
    (tmp_path / f"{name}.jsonl").write_bytes(b"\n" + content + b"\n" + whole + b"\n")
    with pytest.raises(DataError, match=rf"{name}.jsonl, line 2 is not valid JSON"):
        open_cache(tmp_path)


def test_blank_lines_are_passed_over(tmp_path: Path) -> None:
    for number, name in enumerate(("cache", "journal")):
        lines = ["", json.dumps(line(number)), "  ", "", json.dumps(line(number + 2)), "", ""]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    with open_cache(tmp_path) as cache:
        assert cache.lines.keys() == {f"hash-{n}" for n in range(4)}


@pytest.mark.parametrize("content", ["[]", '"text"', '{"event": "sent"}', '{"event": 3, "request_hash": "h"}'])
def test_journal_of_something_else(tmp_path: Path, content: str) -> None:
    (tmp_path / "journal.jsonl").write_text(f"{content}\n{json.dumps(line(0))}\n")
    with pytest.raises(DataError, match=r"journal.jsonl: a line is no labelling answer"):
        open_cache(tmp_path)
