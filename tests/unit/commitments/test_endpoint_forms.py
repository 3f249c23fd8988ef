"""Forms of answers and refusals that endpoints give: what is stored, what is asked again, what is charged."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from pacer.commitments.answers import read_answers
from pacer.core.errors import ConfigError, PacerError
from tests.support.endpoint import Reply, answer, completion
from tests.support.labelling import KEY, cached

UID = {"sample_uid": "UID"}
LABELS = answer(UID)


def message(finish: str = "stop", **fields: Any) -> dict[str, Any]:
    """A completion whose message has these fields."""
    body = completion(None, finish)
    body["choices"][0]["message"] = {"role": "assistant", **fields}
    return body


def tool(arguments: Any) -> dict[str, Any]:
    return {"id": "c", "type": "function", "function": {"name": "label", "arguments": arguments}}


#: What the endpoint sends with HTTP 200 (UID: the record's), and the status that is stored.
ANSWERS: dict[str, tuple[Any, str]] = {
    "chunks": (message(content=[{"type": "text", "text": LABELS[:9]}, {"type": "text", "text": LABELS[9:]}]), "ok"),
    "chunks after thinking": (
        message(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "{x}"}]}, {"text": LABELS}]),
        "ok",
    ),
    "texts as chunks": (message(content=[LABELS]), "ok"),
    "an object": (message(content=json.loads(LABELS)), "ok"),
    "braces, then a fence": (completion(f"Here is {{x}}: ```json\n{LABELS}\n```"), "ok"),
    "harmony": (completion(f"<|channel|>analysis<|message|>Is {{it}}?<|channel|>final<|message|>{LABELS}"), "ok"),
    "reasoning_content": (message(content="", reasoning_content=f"So I answer {LABELS}"), "ok"),
    "reasoning": (message(content=None, reasoning=LABELS), "ok"),
    "reasoning cut off": (message("length", content="", reasoning_content=f"Perhaps {LABELS}"), "cut_off"),
    "tool call": (message("tool_calls", content=None, tool_calls=[tool(LABELS)]), "ok"),
    "tool call with an object": (message(content="I call it.", tool_calls=[tool(json.loads(LABELS))]), "ok"),
    "no identifier": (completion(answer({"sample_uid": None})), "ok"),
    "byte order mark": (b"\xef\xbb\xbf" + json.dumps(completion(LABELS)).encode(), "ok"),
    "nothing but the message": ({"choices": [{"message": {"content": LABELS}}]}, "ok"),
    "prose": ({"choices": [{"message": {"content": "I cannot say."}}]}, "unparseable"),
    "tool call without arguments": (message(content=None, tool_calls=[tool(""), None]), "empty"),
    "refusal": (message(content=None, refusal="No.", reasoning_content=LABELS), "refused"),
}
#: What the endpoint sends with HTTP 200, its content type, and what is counted.
FAILURES: dict[str, tuple[Any, str, str]] = {
    "login page": (b"<!DOCTYPE html><form>log in", "text/html; charset=utf-8", "text/html, not JSON"),
    "nothing": (b"", "", "no known content type, not JSON"),
    "events": (b'data: {"choices": [{"delta": {}}]}\n\n', "text/event-stream", "text/event-stream, not JSON"),
    "lines": (b'{"choices": []}\n{"choices": []}', "application/x-ndjson", "application/x-ndjson, not JSON"),
    "UTF-16": (json.dumps(completion(LABELS)).encode("utf-16"), "application/json", "application/json, not JSON"),
    "mark, no JSON": (b"\xef\xbb\xbf<html>", "application/json", "application/json, not JSON"),
    "cut off": (json.dumps(completion(LABELS)).encode()[:-9], "application/json", "application/json, not JSON"),
    "a list": ([completion(LABELS)], "application/json", "application/json, not a JSON object"),
    "no choices": ({"detail": "queued"}, "application/json", "application/json, no choices"),
    "empty choices": ({"choices": []}, "application/json", "application/json, no choices"),
    "null choices": ({"choices": None}, "application/json", "application/json, no choices"),
    "choices by name": ({"choices": {"0": {"message": {}}}}, "application/json", "application/json, no choices"),
    "null choice": ({"choices": [None]}, "application/json", "application/json, no message"),
    "null message": ({"choices": [{"message": None}]}, "application/json", "application/json, no message"),
    "empty message": ({"choices": [{"message": {}}]}, "application/json", "application/json, no message"),
    "delta": ({"choices": [{"delta": {"content": LABELS}}]}, "application/json", "application/json, no message"),
    "completion": ({"choices": [{"text": LABELS}]}, "application/json", "application/json, no message"),
    "a number": (message(content=7), "application/json", "application/json, no message"),
    "error and choices": (completion("", "error"), "application/json", "application/json, no message"),
    "error": ({"error": {"code": 502}}, "application/json", "application/json, an error, code 502"),
    "error that quotes": (
        {"error": {"param": "Possible pneumonia", "code": KEY}, "choices": None},
        f"text/{KEY}",
        "no known content type, an error",
    ),
    "error with what was sent": ({"error": {"code": "UID"}}, "pneumonia", "no known content type, an error"),
}


def of_record(body: Any, asked: dict[str, Any]) -> Any:
    if isinstance(body, bytes):
        return body.replace(b"UID", asked["sample_uid"].encode())
    return json.loads(json.dumps(body).replace("UID", asked["sample_uid"]))


@pytest.mark.parametrize(("body", "status"), ANSWERS.values(), ids=ANSWERS)
def test_an_answer_of_the_model_is_stored_and_charged(endpoint, label, sample, body, status) -> None:
    endpoint.replies = lambda asked, _: Reply(body=of_record(body, asked))
    for _ in range(2):
        audit = label(sample.head(1))
        assert audit["statuses"] == {status: 1} and audit["troubles"] == {} and audit["dollars"] > 0
    assert endpoint.seen.total() == 1


@pytest.mark.parametrize(("body", "kind", "reason"), FAILURES.values(), ids=FAILURES)
def test_anything_else_is_asked_again_and_not_charged(
    endpoint, label, sample, tmp_path, capfd, body, kind, reason
) -> None:
    one = sample.head(1)
    endpoint.replies = lambda asked, _: Reply(body=of_record(body, asked), headers={"Content-Type": kind})
    for count in (1, 2):
        audit = label(one, unanswered="rules")
        assert (audit["statuses"], audit["troubles"]) == ({}, {f"HTTP 200, {reason}": 1})
        assert audit["dollars"] == 0 and cached(tmp_path) == [] and endpoint.seen.total() == count
    with pytest.raises(PacerError, match="run the stage again for the rest"):
        label(one)
    assert KEY not in capfd.readouterr().err


def refuse(unless: str, status: int, error: Any):
    """Refuse requests that have a parameter, as ``name`` or ``name: type``; answer others."""

    def reply(endpoint, asked: dict[str, Any]) -> Reply:
        request = endpoint.requests[-1]
        kind = (request.get("response_format") or {}).get("type")
        present = unless in request or unless == f"response_format: {kind}"
        return Reply(status, error) if present else Reply(body=completion(answer(asked)))

    return reply


UNSUPPORTED = {"error": {"message": "m", "param": "max_tokens", "code": "unsupported_parameter"}}
#: Settings, what the endpoint refuses and how, and what a request has in the end.
FALLBACKS: dict[str, tuple[dict[str, Any], Any, dict[str, Any]]] = {
    "OpenAI's o-series": ({}, refuse("max_tokens", 400, UNSUPPORTED), {"max_completion_tokens": 600}),
    "a gateway without param": (
        {},
        refuse("max_tokens", 400, {"error": {"message": "Use 'max_completion_tokens' instead."}}),
        {"max_completion_tokens": 600},
    ),
    "OpenAI without JSON mode": (
        {},
        refuse("response_format", 400, {"error": {"message": "m", "param": "response_format"}}),
        {"response_format": None},
    ),
    "LM Studio": (
        {},
        refuse(
            "response_format: json_object", 400, {"error": "'response_format.type' must be 'json_schema' or 'text'"}
        ),
        {"response_format": None},
    ),
    "llama.cpp": (
        {"response_format": "json_schema"},
        refuse("response_format: json_schema", 400, {"error": {"code": 400, "message": "response_format type: no"}}),
        {"response_format": {"type": "json_object"}},
    ),
    "FastAPI": (
        {"response_format": "json_schema"},
        refuse("response_format", 422, {"detail": [{"loc": ["body", "response_format", "type"], "msg": "m"}]}),
        {"response_format": None},
    ),
}


@pytest.mark.parametrize(("settings", "reply", "sent"), FALLBACKS.values(), ids=FALLBACKS)
def test_a_refused_form_gives_way_to_the_next_once(endpoint, label, capfd, settings, reply, sent) -> None:
    endpoint.replies = lambda asked, _: reply(endpoint, asked)
    audit = label(concurrency=1, **settings)
    assert (audit["statuses"], audit["troubles"]) == ({"ok": 6}, {})
    last = endpoint.requests[-1]
    assert {name: last.get(name) for name in sent} == sent and ("max_tokens" in last) != (
        "max_completion_tokens" in last
    )
    steps = 2 if len(endpoint.requests) == 8 else 1
    assert len(endpoint.requests) == 6 + steps
    assert capfd.readouterr().err.count("labelling: the endpoint refuses") == steps
    assert label(concurrency=1, **settings)["reused"] == 6  # the key is that of the settings
    assert len(endpoint.requests) == 6 + steps


#: What the endpoint refuses with HTTP 400, and the reason that is shown.
REFUSALS: dict[str, tuple[dict[str, Any], str]] = {
    "temperature": (
        {"param": "temperature", "code": "unsupported_value"},
        "HTTP 400, param temperature, code unsupported_value: set anchors.llm.temperature: null",
    ),
    "too many tokens": (
        {"param": "max_tokens", "code": "invalid_value"},
        "HTTP 400, param max_tokens, code invalid_value",
    ),
    "the prompt": (
        {"param": "messages", "message": "must contain 'json' to use 'response_format'"},
        "HTTP 400, param messages",
    ),
    "a part of a message": ({"param": "messages[1].Possible pneumonia", "code": None}, "HTTP 400, param messages"),
    "quotations": ({"param": "Possible pneumonia", "code": KEY, "message": KEY}, "HTTP 400"),
}


@pytest.mark.parametrize(("error", "reason"), REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_names_param_and_code(endpoint, label, sample, error, reason) -> None:
    endpoint.replies = lambda *_: Reply(400, {"error": error})
    with pytest.raises(PacerError) as raised:
        label(sample.head(1))
    assert f"({reason});" in str(raised.value) and endpoint.seen.total() == 1


def test_parameters_of_other_models(endpoint, label) -> None:
    label(temperature=None, reasoning_effort="low", response_format="json_schema")
    request = endpoint.requests[0]
    assert "temperature" not in request and request["reasoning_effort"] == "low"
    schema = request["response_format"]["json_schema"]["schema"]
    assert schema["required"] == ["sample_uid", "positive", "negative", "uncertain", "rationale"]


@pytest.mark.parametrize("query", ["?api-version=2024-10-21", "#v1"])
def test_a_query_in_the_address_is_refused(endpoint, asking, label, query) -> None:
    with pytest.raises(ConfigError, match=r"base_url has a query.*azure\.com/openai/v1"):
        label(config=asking().model_copy(update={"base_url": f"{endpoint.url}/deployments/d{query}"}))
    assert endpoint.keys == set()


def test_one_deadline_for_all_of_an_answer(endpoint, label, sample) -> None:
    endpoint.replies = lambda asked, _: Reply(body=completion(answer(asked)), pause=0.1)
    began = time.monotonic()
    audit = label(sample.head(1), timeout=0.5, attempts=1, unanswered="rules")
    assert audit["troubles"] == {"timeout": 1} and audit["lost_and_perhaps_paid"] == 1
    assert time.monotonic() - began < 5


def test_a_cache_of_before(endpoint, label, sample, tmp_path: Path, capfd) -> None:
    """Pages that were stored as answers are asked again, once; what was paid for never."""
    label()
    lines = cached(tmp_path)
    paid = [line["request_hash"] for line in lines]
    nothing = dict.fromkeys(("finish_reason", "model", "prompt_tokens", "completion_tokens", "anchor"))
    chunks = ANSWERS["chunks"][0]
    before = [
        "<html>log in",
        "",
        json.dumps({"choices": []}),
        json.dumps(of_record(chunks, {"sample_uid": lines[3]["record_id"]})),  # an answer that was not understood
        lines[4]["raw"],
    ]
    for line, raw in zip(lines, before, strict=False):
        line |= nothing | {"raw": raw, "status": "unparseable"}
    (tmp_path / "llm_cache.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    endpoint.requests.clear()
    capfd.readouterr()
    audit = label()
    assert (audit["statuses"], audit["reused"]) == ({"ok": 6}, 3)
    assert sorted(endpoint.asked()) == [line["record_id"] for line in lines[:3]]
    assert "labelling: 3 lines of" in capfd.readouterr().err
    assert [line["request_hash"] for line in cached(tmp_path)] == paid
    assert {line["status"] for line in cached(tmp_path)} == {"ok"}
    assert label()["reused"] == 6 and "hold no answer" not in capfd.readouterr().err


def test_keys_of_answers_that_were_paid(label, labelling, endpoint, records, tmp_path) -> None:
    """A cache that was written before there were other forms of a request is reused whole."""
    source = Path(__file__).with_name("llm_cache.jsonl")
    (tmp_path / "llm_cache.jsonl").write_bytes(source.read_bytes())
    assert label()["reused"] == 6 and endpoint.requests == []
    assert {answer.status for answer in read_answers(source)} == {"ok"}
