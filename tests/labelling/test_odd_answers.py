"""Complete answers that no well-kept endpoint gives: the work neither breaks on them nor takes them for labels."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pacer.core.errors import PacerError
from pacer.labelling.client import client
from pacer.labelling.client.labelling import label_sample
from pacer.labelling.sample.draw import sample_records
from tests.labelling.conftest import cached
from tests.labelling.server import Endpoint, Misbehaviour, Reply, answer, completion, good


def odd(asked: dict[str, Any], where: str, value: Any) -> dict[str, Any]:
    """A good completion but for one value."""
    body = completion(answer(asked, positive=[value]) if where == "finding" else answer(asked))
    match where:
        case "usage":
            body["usage"] = {"prompt_tokens": value, "completion_tokens": value}
        case "model":
            body["model"] = value
        case "finish_reason":
            body["choices"][0]["finish_reason"] = value
    return body


@pytest.mark.parametrize(
    ("where", "value"),
    [("finding", "\ud83d"), ("model", "\ud800"), ("finish_reason", "\ud800"), ("usage", 10**400), ("usage", True)],
)
@pytest.mark.parametrize("mode", ["requests", "batch"])
def test_odd_values(endpoint, asking, sample, records, tmp_path, where, value, mode) -> None:
    endpoint.replies = lambda asked, _: Reply(body=odd(asked, where, value))
    for _ in range(2):
        audit = label_sample(sample, records, asking(mode=mode), tmp_path)
        assert audit["statuses"] == {"ok": 6}
    assert audit["without_usage"] == (6 if where == "usage" else 0)
    assert set(endpoint.seen.values()) == {1} and endpoint.files == {}


@pytest.mark.parametrize("charset", ["utf-16", "hex", "base64", "zlib", "rot13", "idna", "undefined"])
@pytest.mark.parametrize("status", [200, 500])
def test_charset_that_is_none(endpoint, asking, sample, records, tmp_path, charset, status) -> None:
    headers = {"Content-Type": f"application/json; charset={charset}"}
    endpoint.replies = lambda asked, before: Reply(200 if before else status, completion(answer(asked)), headers)
    assert label_sample(sample.head(1), records, asking(), tmp_path)["statuses"] == {"ok": 1}


@pytest.mark.parametrize("mode", ["requests", "batch"])
def test_refusals_of_everything_are_not_believed(endpoint, asking, records, tmp_path, mode) -> None:
    """Whatever was answered earlier: 20 in a row end the run, and the endpoint is asked again when it is well."""
    sample = sample_records(records, 40, seed=1)[0]
    label_sample(sample.head(1), records, asking(), tmp_path)
    endpoint.replies = lambda *_: Reply(400, {"error": {"message": "unsupported parameter"}})
    with pytest.raises(PacerError, match="refused the request of" if mode == "requests" else "got no answer"):
        label_sample(sample, records, asking(concurrency=1, mode=mode), tmp_path)
    if mode == "requests":
        assert sum(endpoint.seen.values()) == 1 + client.MAX_IN_A_ROW
    endpoint.replies = good
    audit = label_sample(sample, records, asking(), tmp_path)
    assert audit["statuses"] == {"ok": sample.height}
    assert audit["lost_and_perhaps_paid"] == 0


def test_refusals_between_answers_are_believed(endpoint, asking, records, tmp_path) -> None:
    sample = sample_records(records, 40, seed=1)[0]
    well = set(sample["record_id"].to_list()[10::15])
    endpoint.replies = lambda asked, _: good(asked) if asked["sample_uid"] in well else Reply(400, {})
    audit = label_sample(sample, records, asking(concurrency=1), tmp_path)
    assert audit["statuses"] == {"ok": len(well), "refused": sample.height - len(well)}


def test_rubbish_does_not_use_up_the_sample(endpoint, asking, records, tmp_path) -> None:
    sample = sample_records(records, 40, seed=1)[0]
    endpoint.replies = lambda *_: Reply(body=b"<html>login</html>")
    with pytest.raises(PacerError, match=r"20 answers of 127.0.0.1:\d+ in a row cannot be read.*\(unparseable\)"):
        label_sample(sample, records, asking(concurrency=1), tmp_path)
    assert sum(endpoint.seen.values()) == client.MAX_IN_A_ROW
    endpoint.replies = good
    audit = label_sample(sample, records, asking(), tmp_path)
    assert audit["statuses"] == {"ok": sample.height - 20, "unparseable": 20}
    assert set(endpoint.seen.values()) == {1}


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ({"code": 502, "message": "upstream"}, "server_error"),
        ({"code": "429"}, "rate_limited"),
        ("text", "error_body"),
        ({"code": ["a"]}, "error_body"),
        ({"code": 400}, "refused"),
    ],
)
@pytest.mark.parametrize("mode", ["requests", "batch"])
def test_an_error_in_place_of_the_choices_is_no_answer(
    endpoint, asking, sample, records, tmp_path, error, reason, mode
) -> None:
    endpoint.replies = lambda asked, before: good(asked) if before else Reply(body={"error": error})
    try:
        audit = label_sample(sample, records, asking(mode=mode), tmp_path)
    except PacerError:  # a batch is not tried again within the run, nor is what was refused
        endpoint.replies = good
        audit = label_sample(sample, records, asking(mode=mode), tmp_path)
    assert audit["statuses"] == {"ok": 6}
    assert audit["troubles"] == {reason: 6}
    assert audit["lost_and_perhaps_paid"] == (6 if reason == "error_body" else 0)


def test_an_account_without_credit_behind_an_http_200(endpoint, asking, sample, records, tmp_path) -> None:
    endpoint.replies = lambda *_: Reply(body={"error": {"code": "insufficient_quota"}})
    with pytest.raises(PacerError, match=r"127.0.0.1:\d+ refused the request of .*\(denied"):
        label_sample(sample, records, asking(concurrency=1), tmp_path)
    assert sum(endpoint.seen.values()) == 1


@pytest.fixture
def dripping() -> Iterator[Endpoint]:
    """Sends a blank now and then, for ever, as gateways do to keep a connection open."""
    server = Endpoint()
    handler = server.server.RequestHandlerClass

    def drip(self: Any, _: Reply) -> None:
        self.close_connection = True
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        while not stop.wait(0.05):
            self.wfile.write(b"1\r\n\n\r\n")

    stop = threading.Event()
    handler.send = drip  # type: ignore[attr-defined]
    yield server
    stop.set()
    server.close()


def test_blanks_that_keep_a_connection_open_do_not_keep_a_slot(
    endpoint, dripping, asking, sample, records, tmp_path
) -> None:
    config = asking(timeout=0.3, attempts=1).model_copy(update={"base_url": dripping.url})
    with pytest.raises(PacerError, match=r"2 of 2 requests got no answer from 127.0.0.1:\d+, .*\(timeout\)"):
        label_sample(sample.head(2), records, config, tmp_path)


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_body_without_end(endpoint, asking, sample, records, tmp_path, status, encoding) -> None:
    body = b'"' + b"x" * (client.MAX_ANSWER + 10) + b'"'
    body = gzip.compress(body) if encoding == "gzip" else body
    endpoint.replies = lambda asked, before: (
        good(asked) if before else Reply(status, body, {"Content-Encoding": encoding})
    )
    audit = label_sample(sample.head(1), records, asking(), tmp_path)
    assert audit["statuses"] == {"ok": 1} and audit["troubles"] == {"too_large": 1}
    assert (tmp_path / "llm_cache.jsonl").stat().st_size < 10_000


def test_answers_of_models_that_think_aloud(endpoint, asking, sample, records, tmp_path) -> None:
    endpoint.replies = lambda asked, _: Reply(body=completion(f"<think>Maybe {{edema}}?</think>{answer(asked)}"))
    assert label_sample(sample, records, asking(), tmp_path)["statuses"] == {"ok": 6}
    assert all(line["anchor"]["positive"] == ["edema"] for line in cached(tmp_path))


def test_compressed_answers(endpoint, asking, sample, records, tmp_path) -> None:
    endpoint.replies = lambda asked, _: Reply(
        body=gzip.compress(json.dumps(completion(answer(asked))).encode()), headers={"Content-Encoding": "gzip"}
    )
    assert label_sample(sample, records, asking(), tmp_path)["statuses"] == {"ok": 6}


def test_one_ok_answer_starts_the_count_anew(endpoint, asking, records, tmp_path) -> None:
    sample = sample_records(records, 40, seed=1)[0]
    well = set(sample["record_id"].to_list()[15::15])
    endpoint.replies = lambda asked, _: Misbehaviour.final("good" if asked["sample_uid"] in well else "prose", asked)
    audit = label_sample(sample, records, asking(concurrency=1), tmp_path)
    assert audit["statuses"] == {"ok": len(well), "unparseable": sample.height - len(well)}
