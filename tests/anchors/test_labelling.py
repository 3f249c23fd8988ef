"""Labelling: consent, requests, retries, resuming, recorded answers, and reading what comes back."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pacer.anchors import client
from pacer.anchors.anchor import Anchor
from pacer.anchors.answers import read_answer
from pacer.anchors.labelling import label_sample, system_prompt
from pacer.anchors.sampling import sample_records
from pacer.anchors.vocabulary import FINDINGS
from pacer.core.errors import ConfigError, DataError, PacerError

Reply = tuple[int, dict[str, str], Any]


class Endpoint:
    """A loopback server that speaks the chat-completions API; ``replies`` decides what it says."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.lock = threading.Lock()
        self.replies: Callable[[dict[str, Any], int], Reply] = lambda asked, _: (200, {}, completion(answer(asked)))
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                asked = json.loads(body["messages"][1]["content"])
                with endpoint.lock:
                    endpoint.requests.append(body)
                    seen = sum(json.loads(r["messages"][1]["content"]) == asked for r in endpoint.requests)
                status, headers, content = endpoint.replies(asked, seen)
                payload = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response(status)
                for name, value in ({"Content-Type": "application/json"} | headers).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)

            def log_message(self, *_: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"

    def asked(self) -> list[str]:
        return [json.loads(r["messages"][1]["content"])["sample_uid"] for r in self.requests]


def answer(asked: dict[str, Any], **changes: Any) -> str:
    lists = {"positive": ["Edema"], "negative": ["edema", "hernia"], "uncertain": []}
    return json.dumps({"sample_uid": asked["sample_uid"], **lists, "rationale": {}, **changes})


def completion(content: str | None) -> dict[str, Any]:
    message = {"role": "assistant", "content": content}
    return {"id": "x", "object": "chat.completion", "created": 0, "model": "m",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}  # fmt: skip


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    server = Endpoint()
    yield server
    server.server.shutdown()
    server.server.server_close()
    server.thread.join()


@pytest.fixture
def sample(records: pl.DataFrame) -> pl.DataFrame:
    return sample_records(records, 3, seed=1)


def cache(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "llm_cache.jsonl").read_text().splitlines()]


def test_success_and_request_of_the_paper(endpoint, sample, records, labelling, tmp_path) -> None:
    config = labelling(provider="openai", base_url=endpoint.url, send_reports_to="127.0.0.1")
    result = label_sample(sample, records, config, tmp_path)
    assert result == {"provider": "openai", "model": "gpt-4.1-mini", "sampled": 6, "reused": 0, "asked": 6,
                      "missing": 0, "statuses": {"ok": 6}}  # fmt: skip
    lines = cache(tmp_path)
    assert [line["record_id"] for line in lines] == sorted(sample["record_id"])
    assert lines[0]["anchor"] == {"positive": ["edema"], "negative": [], "uncertain": []}
    assert lines[0]["dropped"] == {"off_vocabulary": ["hernia"], "repeated": 1}
    assert not (tmp_path / "llm_cache.jsonl.scratch").exists()

    request = endpoint.requests[0]
    assert (request["model"], request["temperature"], request["max_tokens"]) == ("gpt-4.1-mini", 0.0, 600)
    assert request["messages"][0] == {"role": "system", "content": system_prompt(None)}
    content = json.loads(request["messages"][1]["content"])
    row = records.row(by_predicate=pl.col("record_id") == content["sample_uid"], named=True)
    strata = sample.row(by_predicate=pl.col("record_id") == content["sample_uid"], named=True)["strata"]
    assert content["scenario"] == row["context"]
    assert content["report"] == row["report_raw"]
    assert set(content["regex_anchor"]) == {"positive", "negative", "uncertain"}
    assert content["risk_buckets"] == strata


def test_rate_limit_then_success(endpoint, sample, records, labelling, tmp_path) -> None:
    def limited(asked: dict[str, Any], seen: int) -> Reply:
        if seen == 1:
            return 429, {"Retry-After-Ms": "1"}, {"error": {"message": "slow down"}}
        return 200, {}, completion(answer(asked))

    endpoint.replies = limited
    config = labelling(provider="openai", base_url=endpoint.url, send_reports_to="127.0.0.1")
    assert label_sample(sample, records, config, tmp_path)["statuses"] == {"ok": 6}
    assert len(endpoint.requests) == 12


def test_unreadable_answers_are_kept_with_their_reason(endpoint, sample, records, labelling, tmp_path) -> None:
    contents = iter(["no json", '{"positive": ["edema"', None, '{"positive": "edema"}', '{"positive": [', "{}"])
    lock = threading.Lock()

    def garbage(*_: Any) -> Reply:
        with lock:
            return 200, {}, completion(next(contents))

    endpoint.replies = garbage
    config = labelling(provider="openai", base_url=endpoint.url, send_reports_to="127.0.0.1")
    result = label_sample(sample, records, config, tmp_path)
    assert result["statuses"] == {"unparseable": 3, "empty": 1, "malformed": 2}
    assert all(line["anchor"] is None for line in cache(tmp_path))


def test_failed_requests_are_asked_again_and_others_are_not(
    endpoint, sample, records, labelling, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(client, "MAX_RETRIES", 0)
    down = set(sample["record_id"][:2])
    endpoint.replies = lambda asked, _: (
        (503, {}, {}) if asked["sample_uid"] in down else (200, {}, completion(answer(asked)))
    )
    config = labelling(provider="openai", base_url=endpoint.url, send_reports_to="127.0.0.1")
    with pytest.raises(PacerError, match=r"2 of 6 requests got no answer.*HTTP 503.*run the stage again"):
        label_sample(sample, records, config, tmp_path)
    assert not (tmp_path / "llm_cache.jsonl").exists()
    scratch = tmp_path / "llm_cache.jsonl.scratch" / "answers" / "answers.jsonl"
    assert len(scratch.read_text().splitlines()) == 4
    with open(scratch, "a") as file:
        file.write('{"record_id": "cut off by a cra')
    endpoint.requests.clear()
    endpoint.replies = lambda asked, _: (200, {}, completion(answer(asked)))
    result = label_sample(sample, records, config, tmp_path)
    assert (result["reused"], result["asked"]) == (4, 2)
    assert set(endpoint.asked()) == down

    endpoint.requests.clear()
    assert label_sample(sample, records, config, tmp_path)["reused"] == 6
    assert endpoint.requests == []
    other = labelling(provider="openai", base_url=endpoint.url, send_reports_to="127.0.0.1", max_tokens=500)
    assert label_sample(sample, records, other, tmp_path)["asked"] == 6


@pytest.mark.parametrize("status", [401, 403, 404, 400])
def test_endpoint_that_refuses_everything(endpoint, sample, records, labelling, tmp_path, status) -> None:
    endpoint.replies = lambda *_: (status, {}, {"error": {"message": "report text echoed"}})
    config = labelling(provider="openai", base_url=endpoint.url, send_reports_to="127.0.0.1")
    with pytest.raises(PacerError, match=rf"refused the request of .* \(HTTP {status}\)") as error:
        label_sample(sample, records, config, tmp_path)
    assert "echoed" not in str(error.value)


def test_one_refused_report_falls_to_the_rules(endpoint, sample, records, labelling, tmp_path) -> None:
    refused = sample["record_id"][0]
    endpoint.replies = lambda asked, _: (
        (400, {}, {}) if asked["sample_uid"] == refused else (200, {}, completion(answer(asked)))
    )
    config = labelling(provider="openai", base_url=endpoint.url, send_reports_to="127.0.0.1", concurrency=1)
    assert label_sample(sample, records, config, tmp_path)["statuses"] == {"ok": 5, "empty": 1}


@pytest.mark.parametrize("consent", [None, "api.openai.com", "localhost"])
def test_nothing_is_sent_without_consent(endpoint, sample, records, labelling, tmp_path, consent) -> None:
    config = labelling(provider="openai", base_url=endpoint.url, send_reports_to=consent)
    with pytest.raises(ConfigError, match=r"the endpoint's host is '127\.0\.0\.1': report text is not sent"):
        label_sample(sample, records, config, tmp_path)
    assert endpoint.requests == []


def test_endpoint_of_the_environment_needs_consent_too(
    endpoint, sample, records, labelling, tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
    config = labelling(provider="openai", send_reports_to="api.openai.com")
    with pytest.raises(ConfigError, match="report text is not sent"):
        label_sample(sample, records, config, tmp_path)
    assert endpoint.requests == []


def test_redirects_are_not_followed(endpoint, sample, records, labelling, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(client, "MAX_RETRIES", 0)
    endpoint.replies = lambda *_: (307, {"Location": endpoint.url + "/elsewhere"}, {})
    config = labelling(provider="openai", base_url=endpoint.url, send_reports_to="127.0.0.1")
    with pytest.raises(PacerError, match="HTTP 307"):
        label_sample(sample, records, config, tmp_path)
    assert len(endpoint.requests) == 6


def test_missing_key(endpoint, sample, records, labelling, tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    config = labelling(provider="openai", base_url=endpoint.url, send_reports_to="127.0.0.1")
    with pytest.raises(ConfigError, match="needs an API key in OPENAI_API_KEY"):
        label_sample(sample, records, config, tmp_path)


def test_provider_none_writes_an_empty_cache(sample, records, labelling, tmp_path) -> None:
    result = label_sample(sample, records, labelling(), tmp_path)
    assert (result["asked"], result["missing"]) == (0, 6)
    assert cache(tmp_path) == []


def test_recorded_answers(sample, records, labelling, tmp_path) -> None:
    ids = sample["record_id"].to_list()
    lines = [{"record_id": i, "response": completion(answer({"sample_uid": i}))} for i in [*ids[:4], "sn-unsampled"]]
    lines.append({"record_id": ids[4], "response": completion(answer({"sample_uid": ids[0]}))})
    path = tmp_path / "answers.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    config = labelling(provider="recorded", recorded=str(path))
    result = label_sample(sample, records, config, tmp_path)
    assert (result["asked"], result["missing"]) == (5, 1)
    assert result["statuses"] == {"ok": 4, "other_record": 1}
    path.write_text(json.dumps({"record_id": ids[0]}) + "\n")
    with pytest.raises(DataError, match="line 1 must be an object with record_id and response"):
        label_sample(sample, records, config, tmp_path)


def test_prompt_file(labelling, sample, records, tmp_path) -> None:
    (tmp_path / "prompt.md").write_text(" \n")
    with pytest.raises(ConfigError, match="is empty"):
        system_prompt(str(tmp_path / "prompt.md"))
    with pytest.raises(ConfigError, match="cannot be read"):
        system_prompt(str(tmp_path / "none.md"))


def test_built_in_prompt_has_the_vocabulary_and_all_rules() -> None:
    prompt = system_prompt(None)
    assert all(finding in prompt for finding in FINDINGS)
    assert all(f"\n{number}. " in prompt for number in range(1, 22))
    assert "\n22. " not in prompt


@pytest.mark.parametrize(
    ("content", "status"),
    [
        ("", "empty"),
        ("I cannot", "unparseable"),
        ("[1]", "unparseable"),
        ('{"positive": [], "negative": []}', "malformed"),
        ('{"positive": [1], "negative": [], "uncertain": []}', "malformed"),
        ('{"sample_uid": "b", "positive": [], "negative": [], "uncertain": []}', "other_record"),
        ('{"sample_uid": "a", "positive": [], "negative": [], "uncertain": []}', "ok"),
    ],
)
def test_statuses(content: str, status: str) -> None:
    assert read_answer(content, "a").status == status


def test_answer_in_a_code_fence() -> None:
    content = '{"positive": ["Lung Opacities"], "negative": ["mass"], "uncertain": ["lung opacity"]}'
    read = read_answer(f"```json\n{content}\n```\nDone {{", "a")
    assert read.anchor == Anchor(("lung opacity",))
    assert (read.off_vocabulary, read.repeated) == (["mass"], 1)
