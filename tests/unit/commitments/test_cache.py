"""The file of answers: what was answered, torn and foreign lines, and links that DVC made."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pacer.commitments.answers import read_answers
from pacer.core.errors import DataError
from tests.support.labelling import cache_line


def line(number: int) -> dict:
    return cache_line(f"sn-{number}", "{}")


def hashes(path: Path) -> list[str]:
    return [answer.request_hash for answer in read_answers(path)]


def test_blank_lines_and_a_torn_last_one_are_passed_over(tmp_path: Path) -> None:
    lines = ["", json.dumps(line(0)), "  ", "", json.dumps(line(1)), "", json.dumps(line(2))[:-9]]
    (tmp_path / "cache.jsonl").write_text("\n".join(lines))
    assert hashes(tmp_path / "cache.jsonl") == ["hash of sn-0", "hash of sn-1"]
    assert hashes(tmp_path / "none.jsonl") == []
    (tmp_path / "cache.jsonl").write_text(f"{json.dumps(line(0))}\n{json.dumps(line(1))}")  # whole, but for its end
    assert hashes(tmp_path / "cache.jsonl") == ["hash of sn-0", "hash of sn-1"]


@pytest.mark.parametrize(
    ("part", "value"), [("dollars", -1.0), ("dollars", float("nan")), ("raw", None), ("prompt_tokens", "1")]
)
def test_lines_edited_by_hand(tmp_path: Path, part: str, value: object) -> None:
    (tmp_path / "cache.jsonl").write_text(f"{json.dumps(line(0))}\n\n{json.dumps(line(1) | {part: value})}\n")
    with pytest.raises(DataError, match=rf"cache.jsonl, line 3, {part}[.0]*: Input should .*; correct or delete"):
        read_answers(tmp_path / "cache.jsonl")


@pytest.mark.parametrize("content", [b"[]", b'{"event": "sent"}', b'{"record_id": "a\xff"}', b"[" * 200_000, b"{"])
def test_lines_of_something_else(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "cache.jsonl").write_bytes(b"\n" + content + b"\n" + json.dumps(line(0)).encode() + b"\n")
    with pytest.raises(DataError, match=r"cache.jsonl, line 2, (raw|the object): "):
        read_answers(tmp_path / "cache.jsonl")


def test_a_file_that_dvc_linked_to_its_cache_does_not_grow(label, sample, tmp_path) -> None:
    label(sample.head(2))
    kept = tmp_path / "kept"
    os.link(tmp_path / "llm_cache.jsonl", kept)
    before = kept.read_bytes()
    assert label()["reused"] == 2
    assert kept.read_bytes() == before
