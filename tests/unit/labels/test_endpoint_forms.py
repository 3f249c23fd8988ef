"""What endpoints answer and refuse, what is stored and asked again; reports go to the named host
alone."""

import json
import re
import shutil
import ssl
import subprocess
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


@pytest.mark.parametrize(("form", "kind", "said"), listed_cases(__file__, "failures"))
def test_anything_else_is_asked_again(
    endpoint, label, sample, tmp_path, capfd, form, kind, said
) -> None:
    one = sample.head(1)
    headers = {
        "Content-Type": filled("application/json" if kind is None else kind, {"sample_uid": "UID"})
    }
    endpoint.replies = lambda asked, _: Reply(body=sent(form, asked), headers=headers)
    for count in (1, 2):
        audit = label(one, unanswered="rules")
        assert audit["statuses"] == {}
        assert audit["troubles"] == {"HTTP 200 without a completion": 1}
        assert cached(tmp_path) == [] and endpoint.seen.total() == count
    with pytest.raises(PacerError, match="rerun the stage for the rest") as raised:
        label(one)
    assert f"without a completion{said}; check anchors.llm.model and anchors" in str(raised.value)
    assert KEY not in capfd.readouterr().err + str(raised.value)


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


@pytest.mark.parametrize(("status", "error", "shown", "advice"), listed_cases(__file__, "refusals"))
def test_the_endpoints_reason_is_shown_with_the_setting_to_change(
    endpoint, label, sample, records, status, error, shown, advice
) -> None:
    """Without a word of the report, and without the key."""
    report = "Zebrafish seen at the apex.\nNo effusion of size, unlike before."

    def reply(asked: dict[str, Any], _: int) -> Reply:
        told = json.dumps(error).replace("REPORT", json.dumps(report)[1:-1]).replace("KEY", KEY)
        return Reply(status, told.encode())

    endpoint.replies = reply
    with pytest.raises(PacerError) as raised:
        label(sample.head(1), records.with_columns(report_raw=pl.lit(report)))
    assert f": HTTP {status}{shown}; {advice}" in str(raised.value)
    assert not re.search("(?i)zebra|apex|effusion|nobody", str(raised.value))


def test_the_page_of_a_server_is_shown_as_text(endpoint, label, sample) -> None:
    page = b"<html><h1>400 Bad Request</h1>The plain HTTP request was sent to HTTPS port</html>"
    endpoint.replies = lambda *_: Reply(400, page, {"Content-Type": "text/html"})
    with pytest.raises(PacerError, match=r"The plain HTTP request.*begin with http:// or https://"):
        label(sample.head(1))


def certificate_of(folder: Path) -> Path:
    """A certificate of nobody's authority for 127.0.0.1, and its key, in one file."""
    path = folder / "server.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext"
    subprocess.run(
        [*command.split(), "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", path],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    path.write_text((folder / "key.pem").read_text() + path.read_text())
    return path


def test_an_endpoint_that_cannot_be_reached_is_named_at_once(endpoint, asking, label) -> None:
    """Not after the client's retries."""
    closed = endpoint.url.replace(str(endpoint.server.server_port), "1")
    with pytest.raises(
        PacerError, match=r"127.0.0.1:1: no connection: .*refused; start the server"
    ):
        label(config=asking().model_copy(update={"base_url": closed}))
    https = asking().model_copy(update={"base_url": endpoint.url.replace("http:", "https:")})
    with pytest.raises(PacerError, match=r"no connection: .*begin with http:// or https://"):
        label(config=https)
    assert endpoint.keys == set()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate")
def test_a_certificate_that_is_not_trusted(
    endpoint, asking, label, tmp_path_factory, monkeypatch
) -> None:
    pem = certificate_of(tmp_path_factory.mktemp("authority"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    endpoint.server.socket = context.wrap_socket(endpoint.server.socket, server_side=True)
    plain = r"(disconnected|reset).*begin with http:// or https://. No report was sent"
    with pytest.raises(PacerError, match=plain):
        label()
    monkeypatch.undo()  # the fixture reads no certificates
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    config = asking().model_copy(update={"base_url": endpoint.url.replace("http:", "https:")})
    with pytest.raises(PacerError, match=r"no connection: .*CERTIFICATE.*in SSL_CERT_FILE"):
        label(config=config)
    assert endpoint.keys == set()
    monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    assert label(config=config)["statuses"] == {"ok": 6}


def test_parameters_of_other_models(endpoint, label) -> None:
    label(temperature=None, reasoning_effort="low", response_format="json_schema")
    request = endpoint.requests[0]
    assert "temperature" not in request and request["reasoning_effort"] == "low"
    schema = request["response_format"]["json_schema"]["schema"]
    assert schema["required"] == ["sample_uid", "positive", "negative", "uncertain", "rationale"]


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
