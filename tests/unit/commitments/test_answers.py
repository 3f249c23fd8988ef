"""The system prompt carries the paper's vocabulary, schema and rules; answers are read, and kept in a file."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from pacer.commitments.anchor import FINDINGS, Anchor
from pacer.commitments.answers import STATUSES, Reply, read_answer, read_answers, read_completion
from pacer.commitments.request import system_prompt
from pacer.core.errors import ConfigError, DataError
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


RULES: dict[int, list[str]] = YAML(typ="safe").load(Path(__file__).with_name("prompt_rules.yaml"))


@pytest.fixture(scope="module")
def sections() -> dict[str, str]:
    """Heading -> text, in lower case and with single blanks; the rules by number."""
    parts = re.split(r"^## (\w+)$", system_prompt(None), flags=re.MULTILINE)
    found = {name.lower(): text for name, text in zip(parts[1::2], parts[2::2])}
    rules, _, end = found.pop("rules").partition("\nReturn ")
    numbered = re.split(r"^(\d+)\. ", rules, flags=re.MULTILINE)
    found |= dict(zip(numbered[1::2], numbered[2::2])) | {"end": end}
    return {name: " ".join(text.lower().split()) for name, text in found.items()}


def test_the_rules_are_the_papers(sections: dict[str, str]) -> None:
    assert [name for name in sections if name.isdigit()] == [str(number) for number in RULES]
    lacking = {number: [word for word in words if word not in sections[str(number)]] for number, words in RULES.items()}
    assert not any(lacking.values()), lacking


def test_vocabulary_schema_and_input_format(sections: dict[str, str]) -> None:
    assert re.findall(r"- ([a-z ]+?)(?= -|$)", sections["findings"]) == list(FINDINGS)
    schema = ["sample_uid", "positive", "negative", "uncertain", "rationale"]
    assert re.findall(r'"(\w+)":', sections["output"]) == schema
    for field in ("sample_uid", "scenario", "report", "regex_anchor", "risk_buckets"):
        assert f'"{field}":' in sections["input"]
    assert "sn|sw|mn|mw" in sections["input"]
    assert '{"positive": [], "negative": [], "uncertain": []}' in sections["input"]
    text = system_prompt(None)  # the paper does not say what they are worth
    assert all(text.count(field) == 1 for field in ("regex_anchor", "risk_buckets", "scenario"))
    assert "no markdown" in sections["end"] and "json object alone" in sections["end"]


def test_prompt_file(tmp_path) -> None:
    path = tmp_path / "prompt.md"
    path.write_text("Own words, as JSON.")
    assert system_prompt(str(path)) == "Own words, as JSON."
    with pytest.raises(ConfigError, match="cannot be read"):
        system_prompt(str(tmp_path / "none.md"))
