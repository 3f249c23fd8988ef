"""What endpoints answer and refuse, what is stored and asked again; reports go to the named host
alone."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pacer.core.errors import ConfigError, PacerError
from pacer.labels.answers import read_answers
from tests.support.cases import listed_cases
from tests.support.endpoint import Reply, answer, completion, good
from tests.support.labelling import KEY, cached

pytestmark = pytest.mark.usefixtures("messages")


def filled(value: Any, asked: dict[str, Any]) -> Any:
    """What the table has in the place of answers, the record's id and the key."""
    if isinstance(value, dict):
        return {filled(name, asked): filled(one, asked) for name, one in value.items()}
    if isinstance(value, list):
        return [filled(one, asked) for one in value]
    if value == "OBJECT":
        return json.loads(answer(asked))
    if not isinstance(value, str):
        return value
    return (
        value.replace("LABELS", answer(asked))
        .replace("UID", asked["sample_uid"])
        .replace("KEY", KEY)
    )


def sent(form: Any, asked: dict[str, Any]) -> Any:
    """The body of an answer: bytes of a text, or an object."""
    form = filled(form, asked)
    if isinstance(form, str):
        return form.encode()
    return form["text"].encode(form["encoding"]) if "encoding" in form else form


def answered(form: Any, asked: dict[str, Any]) -> Any:
    """The body of an answer of which the table may have only the fields of the message."""
    if isinstance(form, str) or "BODY" in form:
        return sent(form if isinstance(form, str) else form["BODY"], asked)
    body = completion(None, form.get("FINISH", "stop"))
    body["choices"][0]["message"] = filled(
        {name: value for name, value in form.items() if name != "FINISH"}, asked
    )
    return body


@pytest.mark.parametrize(("form", "status"), listed_cases(__file__, "answers"))
def test_an_answer_of_the_model_is_stored(endpoint, label, sample, form, status) -> None:
    endpoint.replies = lambda asked, _: Reply(body=answered(form, asked))
    for _ in range(2):
        audit = label(sample.head(1))
        assert audit["statuses"] == {status: 1} and audit["troubles"] == {}
    assert endpoint.seen.total() == 1


@pytest.mark.parametrize(("form", "kind", "reason"), listed_cases(__file__, "failures"))
def test_anything_else_is_asked_again(
    endpoint, label, sample, tmp_path, capfd, form, kind, reason
) -> None:
    one = sample.head(1)
    headers = {
        "Content-Type": filled("application/json" if kind is None else kind, {"sample_uid": "UID"})
    }
    endpoint.replies = lambda asked, _: Reply(body=sent(form, asked), headers=headers)
    for count in (1, 2):
        audit = label(one, unanswered="rules")
        assert (audit["statuses"], audit["troubles"]) == ({}, {f"HTTP 200, {reason}": 1})
        assert cached(tmp_path) == [] and endpoint.seen.total() == count
    with pytest.raises(PacerError, match="rerun the stage for the rest"):
        label(one)
    assert KEY not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("settings", "parameter", "status", "body", "final"), listed_cases(__file__, "fallbacks")
)
def test_a_refused_form_gives_way_to_the_next_once(
    endpoint, label, capfd, settings, parameter, status, body, final
) -> None:
    def reply(asked: dict[str, Any], _: int) -> Reply:
        request = endpoint.requests[-1]
        kind = (request.get("response_format") or {}).get("type")
        refused = parameter in request or parameter == f"response_format: {kind}"
        return Reply(status, body) if refused else Reply(body=completion(answer(asked)))

    endpoint.replies = reply
    audit = label(concurrency=1, **settings)
    assert (audit["statuses"], audit["troubles"]) == ({"ok": 6}, {})
    last = endpoint.requests[-1]
    assert {name: last.get(name) for name in final} == final
    assert ("max_tokens" in last) != ("max_completion_tokens" in last)
    steps = 2 if len(endpoint.requests) == 8 else 1
    assert len(endpoint.requests) == 6 + steps
    assert capfd.readouterr().err.count("labelling: the endpoint refuses") == steps
    assert label(concurrency=1, **settings)["reused"] == 6  # the key is that of the settings
    assert len(endpoint.requests) == 6 + steps


@pytest.mark.parametrize(("error", "reason"), listed_cases(__file__, "refusals"))
def test_a_refusal_names_param_and_code(endpoint, label, sample, error, reason) -> None:
    endpoint.replies = lambda asked, _: Reply(400, {"error": filled(error, asked)})
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
    with pytest.raises(
        ConfigError, match=r"base_url has a query or fragment.*azure\.com/openai/v1"
    ):
        label(
            config=asking().model_copy(update={"base_url": f"{endpoint.url}/deployments/d{query}"})
        )
    assert endpoint.keys == set()


def test_one_deadline_for_all_of_an_answer(endpoint, label, sample) -> None:
    endpoint.replies = lambda asked, _: Reply(body=completion(answer(asked)), pause=0.1)
    audit = label(sample.head(1), timeout=0.5, attempts=1, unanswered="rules")
    assert audit["troubles"] == {"timeout": 1}  # no pause alone is long enough for one


def test_a_cache_of_before(endpoint, label, sample, tmp_path: Path, capfd) -> None:
    """Pages that were stored as answers are asked again, once; what was paid for never."""
    label()
    lines = cached(tmp_path)
    nothing = dict.fromkeys(
        ("finish_reason", "model", "prompt_tokens", "completion_tokens", "anchor")
    )
    before = ["<html>log in", "", json.dumps({"choices": []}), lines[3]["raw"]]
    for line, raw in zip(lines, before, strict=False):
        line |= nothing | {"raw": raw, "status": "unparseable", "dollars": 0.01}
    (tmp_path / "llm_cache.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    endpoint.requests.clear()
    capfd.readouterr()
    audit = label()
    assert (audit["statuses"], audit["reused"]) == ({"ok": 6}, 3)
    assert sorted(endpoint.asked()) == [line["record_id"] for line in lines[:3]]
    assert "are not answers from a model: 3; " in capfd.readouterr().err
    assert [line["request_hash"] for line in cached(tmp_path)] == [
        line["request_hash"] for line in lines
    ]
    assert label()["reused"] == 6 and "are not answers" not in capfd.readouterr().err


def test_keys_of_answers_that_were_paid(label, labelling, endpoint, records, tmp_path) -> None:
    """A cache that was written before there were other forms of a request is reused whole."""
    source = Path(__file__).with_name("llm_cache.jsonl")
    (tmp_path / "llm_cache.jsonl").write_bytes(source.read_bytes())
    assert label()["reused"] == 6 and endpoint.requests == []
    assert {answer.status for answer in read_answers(source)} == {"ok"}


@pytest.mark.parametrize(("consent", "told", "address"), listed_cases(__file__, "refused"))
def test_nothing_is_sent_without_consent(endpoint, asking, label, consent, told, address) -> None:
    host = "127.0.0.1" if address is None else ""
    changes = {"send_reports_to": consent, "base_url": endpoint.url if address is None else address}
    message = (
        f"send_reports_to is {told}, but the host of anchors.llm.base_url is '{host}': no "
        "report text is sent"
    )
    with pytest.raises(ConfigError, match=message):
        label(config=asking().model_copy(update=changes))
    assert endpoint.keys == set()


def test_endpoint_of_the_environment_needs_consent_too(
    endpoint, label, labelling, monkeypatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
    with pytest.raises(ConfigError, match="no report text is sent"):
        label(config=labelling(provider="openai", send_reports_to="api.openai.com"))
    assert endpoint.keys == set()


def test_no_proxy_sees_reports_without_encryption(label, monkeypatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert label()["statuses"] == {"ok": 6}


@pytest.mark.parametrize("key", [None, "", "sk-k\u00e9", "sk-x\n", "two words"])
def test_key_that_cannot_be_sent(endpoint, label, monkeypatch, key) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    if key is not None:
        monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(ConfigError, match="needs an API key in OPENAI_API_KEY") as error:
        label()
    assert not key or key.strip() not in str(error.value)
    assert endpoint.keys == set()


def test_the_key_and_reports_turn_up_nowhere(
    endpoint, label, records, tmp_path, capfd, caplog
) -> None:
    """Whatever the client is asked to log."""
    caplog.set_level("DEBUG")
    caplog.set_level("DEBUG", "openai")
    secret = records.with_columns(pl.lit("Zebrafish seen. No effusion.").alias("report_raw"))
    endpoint.replies = lambda asked, before: (
        good(asked) if before else Reply(500, {"error": {"message": KEY}})
    )
    label(records=secret)
    endpoint.replies = lambda asked, _: Reply(
        401, {"error": {"message": f"{KEY} {asked['report']}"}}
    )
    with pytest.raises(PacerError) as error:
        label(records=secret, max_tokens=9)
    shown = "".join(capfd.readouterr()) + caplog.text + repr(error.value)
    for cause in (error.value.__cause__, error.value.__context__):
        assert cause is None or error.value.__suppress_context__
    files = "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    assert not [
        record for record in caplog.records if record.name.partition(".")[0] in ("openai", "httpx2")
    ]
    assert endpoint.keys == {f"Bearer {KEY}"}
    assert KEY not in shown + files
    assert "zebrafish" not in (shown + files).lower()
