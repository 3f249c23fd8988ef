"""The prompt, answers and their file; and the commitments of a corpus: answers where they can be
read, rules elsewhere."""

import json
import re
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacer.core.anchor import ANCHOR_SCHEMA, DESCRIBED, FINDINGS, POLARITIES, Anchor
from pacer.core.errors import ConfigError, DataError
from pacer.core.io import yaml_beside
from pacer.labels.answers import (
    STATUSES,
    Reply,
    StoredAnswer,
    read_answer,
    read_answers,
    read_completion,
)
from pacer.labels.questions import system_prompt
from pacer.labels.targets import build_commitments
from pacer.text.rules import extract_anchor
from tests.support.cases import listed_cases
from tests.support.endpoint import completion
from tests.support.labelling import build


def cache_line(record_id: str, raw: str) -> dict:
    """A line of a cache."""
    known = {
        "record_id": record_id,
        "request_hash": f"hash of {record_id}",
        "provider": "openai",
        "current": True,
    }
    return StoredAnswer(**known, raw=raw, status="ok", anchor=None).model_dump()


def line(record_id: str, raw: str | None = None, **lists: list[str]) -> dict:
    content = {"sample_uid": record_id, "positive": [], "negative": [], "uncertain": []} | lists
    return cache_line(record_id, json.dumps(content) if raw is None else raw)


def test_answers_replace_rules_where_they_can_be_read(
    records: pl.DataFrame, tmp_path: Path
) -> None:
    lines = [
        line("sn-train0sn", positive=["Pneumonia"], negative=["pneumonia", "hernia"]),
        line("sn-train1sn", raw="no json"),
        line("mw-train0mw", uncertain=["pneumonia"], negative=["pleural effusion"]),
    ]
    anchors, audit = build(records, tmp_path / "cache.jsonl", lines)
    assert dict(anchors.schema) == ANCHOR_SCHEMA
    assert anchors["record_id"].to_list() == records["record_id"].to_list()
    rows = {row["record_id"]: row for row in anchors.iter_rows(named=True)}
    assert rows["sn-train0sn"] == {
        "record_id": "sn-train0sn",
        "positive": ["pneumonia"],
        "negative": [],
        "uncertain": [],
        "origin": "llm",
    }
    assert rows["sn-train1sn"]["positive"] == ["support devices"]
    assert rows["sn-train1sn"]["origin"] == "rules"
    assert rows["sn-test0sn"]["uncertain"] == ["pneumonia"]
    said = {line["name"]: (line["detail"], line["good"]) for line in audit["checks"]}
    assert said["Targets"] == ("60", True) and said["Empty targets"] == ("15", True)
    assert said["Targets labelled by a model"] == ("sn 1 of 48, mw 1 of 12", True)
    assert said["Labelling answers"] == (
        "2 ok, 1 unreadable; names outside the 13 findings, left out: 1",
        False,
    )
    assert said["Labels against rules"] == ("50.0% of 2 targets identical", True)
    json.dumps(audit, allow_nan=False)


def test_empty_cache_leaves_everything_to_the_rules(records: pl.DataFrame, tmp_path: Path) -> None:
    anchors, _ = build(records, tmp_path / "cache.jsonl", [])
    assert set(anchors["origin"]) == {"rules"}
    for text, *fields in zip(
        records["report_raw"], *(anchors[name] for name in POLARITIES), strict=True
    ):
        assert extract_anchor(text) == Anchor(*(tuple(field) for field in fields))


def test_sides_come_from_the_rules_for_every_origin(records: pl.DataFrame, tmp_path: Path) -> None:
    """Of findings that the commitment does not deny; only if they are wanted, there is a column."""
    report = "Small left pleural effusion, unchanged. Right pneumonia. Left lung nodule."
    records = records.with_columns(report_raw=pl.lit(report))
    answer = line("sn-train0sn", positive=["pleural effusion"], negative=["pneumonia"])
    anchors = build(records, tmp_path / "cache.jsonl", [answer], sides=True)[0]
    assert dict(anchors.schema) == ANCHOR_SCHEMA | DESCRIBED
    rows = {row["record_id"]: row["attributes"] for row in anchors.iter_rows(named=True)}
    assert rows.pop("sn-train0sn") == ["left pleural effusion"]
    expected = ["left lung lesion", "left pleural effusion", "right pneumonia"]
    assert {tuple(sorted(row)) for row in rows.values()} == {tuple(expected)}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([line("sn-test0sn")], "1 record_ids in the labelling sample also occur in val or test"),
        (
            [line("sn-nobody")],
            r"answers for records that are not in the corpus \(1\), e.g. sn-nobody",
        ),
        ([line("sn-train0sn"), line("sn-train0sn")], "record sn-train0sn has two answers"),
        ([{"record_id": "sn-train0sn"}], r"line 1: raw is missing"),
        (None, "does not exist"),
    ],
)
def test_bad_cache(
    records: pl.DataFrame, tmp_path: Path, lines: list[dict] | None, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        build(records, tmp_path / "cache.jsonl", lines)


def test_the_rules_of_the_paper(tmp_path: Path, records: pl.DataFrame) -> None:
    cache, table, out = (
        tmp_path / name for name in ("cache.jsonl", "records.parquet", "anchors.parquet")
    )
    cache.touch()
    records.with_columns(report_raw=pl.lit("Likely edema.")).write_parquet(table)
    build_commitments(table, cache, out, "paper")
    assert pl.read_parquet(out)["positive"].to_list() == [["edema"]] * len(records)
    build_commitments(table, cache, out)
    assert pl.read_parquet(out)["uncertain"].to_list() == [["edema"]] * len(records)


USED = {"model": "served-1", "prompt_tokens": 1000, "completion_tokens": 100}
FITS = '{"positive": [], "negative": [], "uncertain": []}'


@pytest.mark.parametrize(("content", "finish", "status"), listed_cases(__file__, "statuses"))
def test_statuses(content: str, finish: str | None, status: str) -> None:
    assert read_answer(content.replace("FITS", FITS), "a", finish).status == status


@pytest.mark.parametrize(("content", "finding"), listed_cases(__file__, "last objects"))
def test_the_last_object_that_fits_counts(content: str, finding: str) -> None:
    assert read_answer(content, "a").anchor == Anchor((finding,))


@pytest.mark.parametrize(("name", "finding"), listed_cases(__file__, "names"))
def test_names_that_models_use(name: str, finding: str | None) -> None:
    """CheXpert's columns and the words of reports are understood, and others are counted."""
    content = json.dumps({"positive": [name], "negative": [], "uncertain": []})
    answer = read_answer(content, "a")
    assert answer.status == "ok" and answer.anchor == Anchor((finding,) if finding else ())
    assert answer.outside == (finding is None)


@pytest.mark.parametrize("piece", ["{", '{"a": ', '{"\\'])
def test_braces_without_end(piece: str) -> None:
    assert read_answer(piece * 10_000, "a").status == "unreadable"


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    assert read_answer(text, "a").status in STATUSES


@pytest.mark.parametrize(
    ("finish", "change", "expected"),
    [
        ("stop", {}, Reply(raw="hello", finish_reason="stop", **USED)),
        (
            "\ud800",
            {"model": "\ud800"},
            Reply(raw="hello", finish_reason="?", **USED | {"model": "?"}),
        ),
        *(
            ("stop", {"model": 7, "usage": usage}, Reply(raw="hello", finish_reason="stop"))
            for usage in (
                None,
                [],
                *({"prompt_tokens": n, "completion_tokens": n} for n in ("12", True, 12.0)),
            )
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


RULES: dict[int, list[str]] = yaml_beside(__file__, "prompt_rules.yaml")


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
    lacking = {
        number: [word for word in words if word not in sections[str(number)]]
        for number, words in RULES.items()
    }
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
