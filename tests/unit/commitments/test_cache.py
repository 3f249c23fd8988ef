"""The cache and its journal: what was answered, and lines that are no answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pacer.commitments.labelling.cache import AnswerCache, CachedAnswer
from pacer.commitments.labelling.reading import Reply
from pacer.commitments.labelling.request import Question
from pacer.core.errors import DataError


def answer(number: int, content: str = "{}") -> CachedAnswer:
    request = {"messages": [{"role": "system", "content": "prompt"}]}
    return CachedAnswer.of(Question(f"sn-{number}", request, f"hash-{number}", 1), Reply(content), dollars=0.01)


def line(number: int) -> dict:
    return answer(number).model_dump()


def open_cache(folder: Path) -> AnswerCache:
    return AnswerCache(folder / "cache.jsonl", folder / "journal.jsonl")


def test_a_journal_that_was_cut_keeps_its_whole_lines(tmp_path: Path) -> None:
    with open_cache(tmp_path) as cache:
        cache.add(answer(0))
        cache.add(answer(1))
    journal = tmp_path / "journal.jsonl"
    journal.write_bytes(journal.read_bytes()[:-9])
    with open_cache(tmp_path) as cache:
        assert cache.answers.keys() == {"hash-0"}
        cache.add(answer(2))
    with open_cache(tmp_path) as cache:
        assert cache.answers == {"hash-0": answer(0), "hash-2": answer(2)}


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("dollars", None),
        ("dollars", True),
        ("dollars", -1.0),
        ("dollars", float("nan")),
        ("raw", None),
        ("request_hash", ["h"]),
        ("prompt_tokens", "1"),
        ("completion_tokens", 1.5),
    ],
)
def test_lines_edited_by_hand(tmp_path: Path, part: str, value: object) -> None:
    wrong, absent = line(1) | {part: value}, {name: own for name, own in line(1).items() if name != part}
    for name, edited in (("cache", wrong), ("journal", absent)):
        content = f"{json.dumps(line(0))}\n\n{json.dumps(edited)}\n{json.dumps(line(2))}\n"
        (tmp_path / f"{name}.jsonl").write_text(content)
        with pytest.raises(
            DataError, match=rf"{name}.jsonl: .*no labelling answer \({part} is missing or wrong\); delete"
        ):
            open_cache(tmp_path)
        (tmp_path / f"{name}.jsonl").unlink()


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
        assert cache.answers.keys() == {f"hash-{n}" for n in range(4)}


@pytest.mark.parametrize("content", ["[]", '"text"', '{"event": "sent"}'])
def test_journal_of_something_else(tmp_path: Path, content: str) -> None:
    (tmp_path / "journal.jsonl").write_text(f"{content}\n{json.dumps(line(0))}\n")
    with pytest.raises(DataError, match=r"journal.jsonl: a line is no labelling answer"):
        open_cache(tmp_path)
