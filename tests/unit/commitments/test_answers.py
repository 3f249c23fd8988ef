"""Reading answers and the file of answers."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacer.commitments.anchor import Anchor
from pacer.commitments.answers import STATUSES, Reply, read_answer, read_answers, read_completion
from pacer.core.errors import DataError
from tests.support.cases import listed_cases
from tests.support.endpoint import completion
from tests.support.labelling import cache_line

USED = {"model": "served-1", "prompt_tokens": 1000, "completion_tokens": 100}
FITS = '{"positive": [], "negative": [], "uncertain": []}'


@pytest.mark.parametrize(("content", "finish", "status"), listed_cases(__file__, "statuses"))
def test_statuses(content: str, finish: str | None, status: str) -> None:
    assert read_answer(content.replace("FITS", FITS), "a", finish).status == status


@pytest.mark.parametrize(("content", "finding"), listed_cases(__file__, "last objects"))
def test_the_last_object_that_fits_counts(content: str, finding: str) -> None:
    assert read_answer(content, "a").anchor == Anchor((finding,))


@pytest.mark.parametrize("piece", ["{", '{"a": ', '{"\\'])
def test_braces_without_end(piece: str) -> None:
    assert read_answer(piece * 100_000, "a").status == "unreadable"


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    assert read_answer(text, "a").status in STATUSES


@pytest.mark.parametrize(
    ("finish", "change", "expected"),
    [
        ("stop", {}, Reply(raw="hello", finish_reason="stop", **USED)),
        ("\ud800", {"model": "\ud800"}, Reply(raw="hello", finish_reason="?", **USED | {"model": "?"})),
        *(
            ("stop", {"model": 7, "usage": usage}, Reply(raw="hello", finish_reason="stop"))
            for usage in (None, [], *({"prompt_tokens": n, "completion_tokens": n} for n in (10**400, True, 12.0, -1)))
        ),
    ],
)
def test_completions(finish: str, change: dict, expected: Reply) -> None:
    assert read_completion(completion("hello", finish) | change) == expected


def test_a_line_that_a_kill_cut_off_is_left_out(tmp_path: Path) -> None:
    lines = [json.dumps(cache_line(f"sn-{number}", "{}")) for number in range(3)]
    (tmp_path / "cache.jsonl").write_text("\n\n".join(lines)[:-9])
    assert [answer.request_hash for answer in read_answers(tmp_path / "cache.jsonl")] == [
        "hash of sn-0",
        "hash of sn-1",
    ]
    assert read_answers(tmp_path / "none.jsonl") == []


@pytest.mark.parametrize(("line", "message"), listed_cases(__file__, "lines"))
def test_a_line_that_is_no_answer_is_named(tmp_path: Path, line: str | dict, message: str) -> None:
    line = json.dumps(cache_line("sn-1", "{}") | line) if isinstance(line, dict) else line
    (tmp_path / "cache.jsonl").write_text(f"\n{line}\n")
    with pytest.raises(DataError, match=rf"cache.jsonl, line 2.{{0,2}} {message}"):
        read_answers(tmp_path / "cache.jsonl")
