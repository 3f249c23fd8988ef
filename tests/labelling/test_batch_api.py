"""Batch mode: one batch for the same requests whatever happens, every finished answer used, the rest asked again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pacer.core.errors import ConfigError, PacerError
from pacer.labelling.client import batch_api
from pacer.labelling.client.labelling import label_sample
from tests.labelling.conftest import KEY, cached
from tests.labelling.server import Drop, Endpoint, Reply, answer, completion


@pytest.fixture
def batching(asking) -> Callable[..., Any]:
    return lambda **changes: asking(**({"mode": "batch"} | changes))


class Stopped(BaseException):
    """Ends a run where a kill would: nothing in the code catches it."""


def notes(out: Path) -> list[dict[str, Any]]:
    folder = out / "llm_cache.jsonl.scratch" / "answers" / "batches"
    return [json.loads(path.read_text()) for path in folder.glob("*.json")]


def stop_at(monkeypatch: pytest.MonkeyPatch, name: str, after: bool) -> None:
    """End the run before or after the first call of a method of the asker."""
    method = getattr(batch_api.BatchAsker, name)

    def stopping(self, *args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(batch_api.BatchAsker, name, method)
        if after:
            method(self, *args, **kwargs)
        raise Stopped

    monkeypatch.setattr(batch_api.BatchAsker, name, stopping)


def test_success_is_that_of_single_requests_at_a_discount(
    endpoint: Endpoint, asking, batching, sample, records, tmp_path
) -> None:
    audit = label_sample(sample, records, batching(), tmp_path / "batch")
    assert audit["statuses"] == {"ok": 6}
    assert len(endpoint.batches) == 1
    batch = endpoint.batches["batch-1"]
    assert (batch["endpoint"], batch["completion_window"]) == ("/v1/chat/completions", "24h")
    assert endpoint.files == {} and len(endpoint.deleted) == 2
    assert not (tmp_path / "batch" / "llm_cache.jsonl.scratch").exists()
    single = label_sample(sample, records, asking(), tmp_path / "single")
    assert audit["dollars"] == pytest.approx(single["dollars"] / 2)
    for one, other in zip(cached(tmp_path / "batch"), cached(tmp_path / "single")):
        assert one | {"dollars": 0} == other | {"dollars": 0}
    assert KEY not in (tmp_path / "batch" / "llm_cache.jsonl").read_text()


def test_batches_are_cut_by_number_and_by_bytes(endpoint, batching, sample, records, tmp_path, monkeypatch) -> None:
    label_sample(sample, records, batching(batch_requests=4), tmp_path / "a")
    assert len(endpoint.batches) == 2
    monkeypatch.setattr(batch_api, "MAX_BYTES", 10)
    label_sample(sample, records, batching(), tmp_path / "b")
    assert len(endpoint.batches) == 2 + 6


def test_budget(endpoint, batching, sample, records, tmp_path) -> None:
    with pytest.raises(ConfigError, match="max_requests: 5 does not cover"):
        label_sample(sample, records, batching(max_requests=5), tmp_path)
    assert endpoint.keys == set()
    dear = completion("{}") | {"usage": {"prompt_tokens": 200_000, "completion_tokens": 600}}
    endpoint.replies = lambda *_: Reply(body=dear)
    with pytest.raises(PacerError, match=r"max_dollars: 0.05 is spent.*answers are kept"):
        label_sample(sample, records, batching(max_dollars=0.05, batch_requests=2), tmp_path)
    assert len(endpoint.batches) == 1
    assert label_sample(sample, records, batching(max_dollars=1.0), tmp_path)["reused"] == 2


@pytest.mark.parametrize(
    ("name", "after"),
    [
        ("_create", False),
        ("_create", True),
        ("_wait", False),
        ("_wait", True),
        ("_take", False),
        ("_take", True),
        ("_clean_up", False),
        ("_forget", False),
        ("_forget", True),
        ("_find_file", False),
    ],
)
@pytest.mark.parametrize("mode", ["batch", "requests"])
def test_stopped_anywhere_and_started_again(
    endpoint, asking, batching, sample, records, tmp_path, monkeypatch, name, after, mode
) -> None:
    """One batch, one answer for each request, and no file left, in whatever mode the work is taken up again."""
    stop_at(monkeypatch, name, after)
    if name == "_find_file":  # a creation whose answer is lost is looked for
        endpoint.afterwards = lambda method, path: (_ for _ in ()).throw(Drop()) if path == "/files" else None
    with pytest.raises(Stopped):
        label_sample(sample, records, batching(), tmp_path)
    endpoint.afterwards = lambda *_: None
    audit = label_sample(sample, records, asking(mode=mode), tmp_path)
    assert audit["statuses"] == {"ok": 6}
    assert len(endpoint.batches) == 1
    assert set(endpoint.paid.values()) == {1} and len(endpoint.paid) == 6
    assert endpoint.files == {}
    assert not (tmp_path / "llm_cache.jsonl.scratch").exists()


@pytest.mark.parametrize("fault", ["error", "drop", "garbage"])
@pytest.mark.parametrize("when", ["around", "afterwards"])
def test_every_call_may_fail_before_and_after_it_took_effect(
    endpoint, batching, sample, records, tmp_path, fault, when
) -> None:
    """The first attempt of each call fails, of some after the endpoint has done what was asked."""
    failed: Counter[tuple[str, str]] = Counter()

    def fail(method: str, path: str) -> None:
        failed[method, path] += 1
        if failed[method, path] == 1 and method != "DELETE":
            if fault == "drop":
                raise Drop()
            raise Drop({"a": 1}, sent=4) if fault == "error" else Drop([1, 2], sent=6)

    setattr(endpoint, when, fail)
    audit = label_sample(sample, records, batching(), tmp_path)
    assert audit["statuses"] == {"ok": 6}
    assert len(endpoint.batches) == 1
    assert set(endpoint.paid.values()) == {1}
    assert len(endpoint.files) == 0


@pytest.mark.parametrize("status", ["expired", "cancelled", "completed"])
def test_finished_lines_are_used_and_the_rest_asked_again(
    endpoint, batching, sample, records, tmp_path, status
) -> None:
    def half(batch: dict[str, Any], lines: list[dict[str, Any]]) -> None:
        code = {"code": "batch_expired", "message": "late"}
        errors = [{"custom_id": line["custom_id"], "response": None, "error": code} for line in lines[3:5]]
        endpoint.complete(batch, lines[:3], status, errors)

    endpoint.end_batch = half
    with pytest.raises(PacerError, match=r"3 of 6 requests got no answer.*run the stage again"):
        label_sample(sample, records, batching(), tmp_path)
    assert notes(tmp_path) == []
    endpoint.end_batch = endpoint.complete
    audit = label_sample(sample, records, batching(), tmp_path)
    assert (audit["reused"], audit["statuses"]) == (3, {"ok": 6})
    assert audit["troubles"] == Counter(["batch_expired", "batch_expired", f"batch_{status}"])
    assert len(endpoint.batches) == 2
    assert set(endpoint.paid.values()) == {1}
    assert audit["lost_and_perhaps_paid"] == 0


def test_unanswered_lines_may_fall_to_the_rules(endpoint, batching, sample, records, tmp_path) -> None:
    endpoint.end_batch = lambda batch, lines: endpoint.complete(batch, lines[:4], "expired")
    audit = label_sample(sample, records, batching(unanswered="rules"), tmp_path)
    assert (audit["answered"], audit["unanswered"]) == (4, 2)


def test_failed_batch_names_its_reason_and_no_text(endpoint, batching, sample, records, tmp_path) -> None:
    def fail(batch: dict[str, Any], lines: list[dict[str, Any]]) -> None:
        batch["status"] = "failed"
        batch["errors"] = {"data": [{"code": "token_limit_exceeded", "message": "Possible pneumonia."}]}

    endpoint.end_batch = fail
    with pytest.raises(PacerError, match=r"failed, token_limit_exceeded.*batch_requests") as error:
        label_sample(sample, records, batching(), tmp_path)
    assert "pneumonia" not in str(error.value)
    endpoint.end_batch = endpoint.complete
    assert label_sample(sample, records, batching(), tmp_path)["statuses"] == {"ok": 6}


def test_refused_lines(endpoint, batching, sample, records, tmp_path) -> None:
    refused = sample["record_id"][0]
    endpoint.replies = lambda asked, _: (
        Reply(400, {"error": {"code": "content_filter"}})
        if asked["sample_uid"] == refused
        else Reply(body=completion(answer(asked)))
    )
    assert label_sample(sample, records, batching(), tmp_path)["statuses"] == {"ok": 5, "refused": 1}
    assert label_sample(sample, records, batching(), tmp_path)["reused"] == 6


def test_strange_lines_in_the_answers(endpoint, batching, sample, records, tmp_path) -> None:
    """Lines that are no JSON, of no batch, twice, or without a completion."""

    def strange(batch: dict[str, Any], lines: list[dict[str, Any]]) -> None:
        endpoint.complete(batch, lines)
        name, content = endpoint.files[batch["output_file_id"]]
        first, second, *rest = content.splitlines()
        odd = json.loads(second) | {"response": {"status_code": 200, "body": {"detail": "nothing"}}}
        endpoint.files[batch["output_file_id"]] = (
            name,
            b"\n".join(
                [
                    b"{cut",
                    b"[]",
                    first,
                    first,
                    json.dumps(odd).encode(),
                    json.dumps({"custom_id": "foreign"}).encode(),
                    json.dumps({"custom_id": json.loads(first)["custom_id"], "response": 4}).encode(),
                    *rest,
                ]
            ),
        )

    endpoint.end_batch = strange
    audit = label_sample(sample, records, batching(), tmp_path)
    assert audit["statuses"] == {"malformed": 1, "ok": 5}


def test_batch_of_another_question_is_left_alone_until_it_has_ended(
    endpoint, asking, batching, sample, records, tmp_path, monkeypatch
) -> None:
    stop_at(monkeypatch, "_wait", after=False)
    with pytest.raises(Stopped):
        label_sample(sample, records, batching(), tmp_path)
    endpoint.polls_until_ended = 1
    assert label_sample(sample, records, asking(max_tokens=500), tmp_path)["statuses"] == {"ok": 6}
    assert len(notes(tmp_path)) == 1
    audit = label_sample(sample, records, asking(max_tokens=400), tmp_path)
    assert audit["older_answers"] == 12
    assert notes(tmp_path) == []
    assert label_sample(sample, records, batching(), tmp_path)["reused"] == 6
    assert len(endpoint.batches) == 1


def test_batch_at_another_endpoint(endpoint, asking, batching, sample, records, tmp_path, monkeypatch) -> None:
    stop_at(monkeypatch, "_wait", after=False)
    with pytest.raises(Stopped):
        label_sample(sample, records, batching(), tmp_path)
    elsewhere = asking().model_copy(update={"base_url": endpoint.url.replace("v1", "v2")})
    with pytest.raises(PacerError, match=r"notes a batch at http.*v1/, and anchors.llm.base_url is another"):
        label_sample(sample, records, elsewhere, tmp_path)


def test_endpoint_without_batches(endpoint, batching, sample, records, tmp_path) -> None:
    endpoint.other = lambda *_: Reply(404, {})  # type: ignore[method-assign]
    with pytest.raises(PacerError, match=r"refused the batch noted in .*json \(denied, HTTP 404\)"):
        label_sample(sample, records, batching(), tmp_path)


def test_listings_that_no_api_gives(endpoint, batching, sample, records, tmp_path) -> None:
    """Counts that are texts, names that are none, nesting without end, and statuses that are texts."""

    def strange(batch: dict[str, Any], lines: list[dict[str, Any]]) -> None:
        endpoint.complete(batch, lines)
        batch["request_counts"] = {"total": "6", "completed": "6", "failed": []}
        name, content = endpoint.files[batch["output_file_id"]]
        content = content.replace(b'"status_code": 200', b'"status_code": "200"', 2)
        odd = [b'{"custom_id": ["x"], "response": null}', b"[" * 100_000, b'{"custom_id": {}}']
        endpoint.files[batch["output_file_id"]] = name, b"\n".join([*odd, content])

    endpoint.end_batch = strange
    assert label_sample(sample, records, batching(), tmp_path)["statuses"] == {"ok": 6}
    assert endpoint.files == {}


def test_unknown_status_with_answers_is_an_end(endpoint, batching, sample, records, tmp_path) -> None:
    endpoint.end_batch = lambda batch, lines: endpoint.complete(batch, lines, "succeeded")
    assert label_sample(sample, records, batching(), tmp_path)["statuses"] == {"ok": 6}


def test_unknown_status_without_answers_is_named_and_not_waited_for(
    endpoint, asking, batching, sample, records, tmp_path
) -> None:
    endpoint.end_batch = lambda batch, lines: batch.update(status="odd")
    with pytest.raises(PacerError, match=r"the batch noted in .*json has the status odd.*delete the note"):
        label_sample(sample, records, batching(), tmp_path)
    assert label_sample(sample, records, asking(max_tokens=500), tmp_path)["statuses"] == {"ok": 6}  # not held up
    (name,) = endpoint.batches
    inputs = [json.loads(line) for line in endpoint.files[endpoint.batches[name]["input_file_id"]][1].splitlines()]
    endpoint.complete(endpoint.batches[name], inputs)
    assert label_sample(sample, records, batching(), tmp_path)["statuses"] == {"ok": 6}
    assert len(endpoint.batches) == 1


@pytest.mark.parametrize(
    "errors", [[{"code": "x"}], {"data": {"code": "x"}}, {"data": 3}, {"data": [{"code": "\ud800"}]}]
)
def test_failed_batch_with_errors_in_another_form(endpoint, batching, sample, records, tmp_path, errors) -> None:
    endpoint.end_batch = lambda batch, lines: batch.update(status="failed", errors=errors)
    with pytest.raises(PacerError, match=r"did not take a batch of 6 requests \(failed"):
        label_sample(sample, records, batching(), tmp_path)


def test_codes_may_be_anything(endpoint, batching, sample, records, tmp_path) -> None:
    """Codes are counted under their name, which is neither long nor text of a report."""

    def fail(batch: dict[str, Any], lines: list[dict[str, Any]]) -> None:
        codes = ["\ud800", "Possible pneumonia. No effusion.", ["a"], 7, None, "batch_expired"]
        errors = [
            {"custom_id": line["custom_id"], "response": None, "error": {"code": code}}
            for line, code in zip(lines, codes)
        ]
        endpoint.complete(batch, [], "completed", errors)

    endpoint.end_batch = fail
    audit = label_sample(sample, records, batching(unanswered="rules"), tmp_path)
    assert audit["troubles"] == {"batch_error": 5, "batch_expired": 1}
