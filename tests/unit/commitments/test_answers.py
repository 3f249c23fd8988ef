"""Reading answers and their evidence phrases."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacer.commitments.anchor import Anchor
from pacer.commitments.answers import STATUSES, count_missing, read_answer, read_completion
from tests.support.endpoint import completion


@pytest.mark.parametrize(
    ("content", "finish", "status"),
    [
        ("", "stop", "empty"),
        ("", "content_filter", "refused"),
        ("", "refusal", "refused"),
        ("", "length", "cut_off"),
        ('{"positive": ["ede', "length", "cut_off"),
        ("I cannot", None, "unparseable"),
        ("{" * 100_000, None, "unparseable"),
        ('{"positive": [], "negative": []}', None, "malformed"),
        ('{"positive": [1], "negative": [], "uncertain": []}', None, "malformed"),
        ('{"sample_uid": "b", "positive": [], "negative": [], "uncertain": []}', None, "other_record"),
        ('{"sample_uid": "a", "positive": [], "negative": [], "uncertain": []}', None, "ok"),
        ('{"sample_uid": "a", "positive": [], "negative": [], "uncertain": []} and {more', "length", "ok"),
        ('<think>{"positive": [], "negative": [], "uncertain": []}', "length", "cut_off"),
        ('<think>{"positive": [], "negative": [], "uncertain": []}</think>', "stop", "unparseable"),
        ('<think>{a}</think>{"positive": [', "length", "cut_off"),
        ('<think>{a}?</think>{"sample_uid": "a", "positive": [], "negative": [], "uncertain": []}', "stop", "ok"),
        ('{"report": "x", "regex_anchor": {"positive": [], "negative": [], "uncertain": []}, "ri', "length", "cut_off"),
        ('{"report": "x", "regex_anchor": {"positive": [], "negative": [], "uncertain": []}}', None, "malformed"),
        ('{"sample_uid": "a", "rationale": {"edema": "x"}, "positive": [', "length", "cut_off"),
        ('{"a": 1} then {"positive": [], "negative": []}', None, "malformed"),
        ('{"a": 1} then FITS', None, "ok"),
        ("Here is {x}: ```json\nFITS\n```", None, "ok"),
        ("{{FITS}}", None, "ok"),
        ('He wrote "{x}". FITS', None, "ok"),
        ('[FITS, {"note": "]}"}]', None, "ok"),
        ('{"sample_uid": null, "positive": [], "negative": [], "uncertain": []}', None, "ok"),
        ('{"sample_uid": "b", "positive": [], "negative": [], "uncertain": []} FITS', None, "ok"),
        ('FITS {"sample_uid": "b", "positive": [], "negative": [], "uncertain": []}', None, "ok"),
        ('{"note": "x }" "regex_anchor": FITS}', None, "unparseable"),  # no object inside a broken one
        ('{"regex_anchor": FITS, "x": tru', "length", "cut_off"),
        ('{"regex_anchor": FITS, "x": "\\u12', "length", "cut_off"),
        ("{'positive': [], 'negative': [], 'uncertain': []}", None, "unparseable"),
        ('{"a": ' * 100_000, None, "unparseable"),
        ('{"\\' * 100_000, None, "unparseable"),
        ("<thinking>FITS", "length", "cut_off"),
        ("[THINK]{x}[/THINK]FITS", None, "ok"),
        ("<|channel|>analysis<|message|>FITS", "length", "cut_off"),
        ("<|start|>assistant<|channel|>analysis<|message|>FITS", "stop", "unparseable"),
        ("<|channel|>analysis {x}<|channel|>final <|constrain|>json<|message|>FITS<|return|>", None, "ok"),
    ],
)
def test_statuses(content: str, finish: str | None, status: str) -> None:
    fits = '{"positive": [], "negative": [], "uncertain": []}'
    assert read_answer(content.replace("FITS", fits), "a", finish).status == status


def test_the_last_object_that_fits_counts() -> None:
    first, last = ({"positive": [name], "negative": [], "uncertain": []} for name in ("edema", "fracture"))
    assert read_answer(f"{json.dumps(first)} No: {json.dumps(last)} {{x}}", "a").anchor == Anchor(("fracture",))


def test_answer_in_a_code_fence() -> None:
    content = '{"positive": ["Lung Opacities"], "negative": ["mass"], "uncertain": ["lung opacity"]}'
    read = read_answer(f"```json\n{content}\n```\nDone {{", "a")
    assert read.anchor == Anchor(("lung opacity",))
    assert read.off_vocabulary == 1


def test_phrases_of_the_rationale() -> None:
    lists = {"positive": [], "negative": [], "uncertain": []}
    read = read_answer(json.dumps(lists | {"rationale": {"edema": ["a", 3, "b"], "mass": "c\ud800"}}), "a")
    assert read.evidence == ("a", "b", "c\ud800")


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    assert read_answer(text, "a").status in STATUSES


def test_completions() -> None:
    reply = read_completion(completion("hello"))
    assert reply is not None
    assert (reply.raw, reply.finish_reason, reply.model) == ("hello", "stop", "served-1")
    assert (reply.prompt_tokens, reply.completion_tokens) == (1000, 100)
    refused = read_completion(completion(None, refusal="no"))
    assert refused is not None and refused.finish_reason == "refusal"
    without_usage = read_completion(completion("hello") | {"usage": None})
    assert without_usage is not None and without_usage.prompt_tokens is None


@pytest.mark.parametrize(
    ("phrase", "missing"),
    [
        ("Small LEFT pleural\neffusion", 0),
        ("left pleural-effusion", 0),
        ("effusion. No pneumothorax", 0),
        ("pleural eff", 1),
        ("right pleural effusion", 1),
        ("", 1),
        (" ... ", 1),
    ],
)
def test_evidence(phrase: str, missing: int) -> None:
    assert count_missing([phrase], "There is a small left pleural effusion.\nNo pneumothorax.") == missing
