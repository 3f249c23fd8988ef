"""Reading answers."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacer.commitments.anchor import Anchor
from pacer.commitments.answers import STATUSES, read_answer, read_completion
from tests.support.cases import listed_cases
from tests.support.endpoint import completion

FITS = '{"positive": [], "negative": [], "uncertain": []}'


@pytest.mark.parametrize(("content", "finish", "status"), listed_cases(__file__, "statuses"))
def test_statuses(content: str, finish: str | None, status: str) -> None:
    assert read_answer(content.replace("FITS", FITS), "a", finish).status == status


@pytest.mark.parametrize("piece", ["{", '{"a": ', '{"\\'])
def test_braces_without_end(piece: str) -> None:
    assert read_answer(piece * 100_000, "a").status == "unparseable"


def test_the_last_object_that_fits_counts() -> None:
    first, last = ({"positive": [name], "negative": [], "uncertain": []} for name in ("edema", "fracture"))
    assert read_answer(f"{json.dumps(first)} No: {json.dumps(last)} {{x}}", "a").anchor == Anchor(("fracture",))


def test_answer_in_a_code_fence() -> None:
    content = '{"positive": ["Lung Opacities"], "negative": ["mass"], "uncertain": ["lung opacity"]}'
    read = read_answer(f"```json\n{content}\n```\nDone {{", "a")
    assert read.anchor == Anchor(("lung opacity",))
    assert read.off_vocabulary == 1


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
