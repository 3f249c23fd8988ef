"""Endpoints that misbehave: what is tried again, what never, and where the work stops."""

from __future__ import annotations

import time
from typing import Any

import polars as pl
import pytest

from pacer.commitments.labelling import label_sample
from pacer.core.errors import PacerError
from tests.support.endpoint import Drop, Reply, good
from tests.support.labelling import build


@pytest.mark.parametrize(
    "trouble",
    [
        Reply(429, {"error": {}}, {"Retry-After-Ms": "1"}),
        Reply(500, b"<html>"),
        Reply(408, {}),
        Reply(504, {}),
        Drop(),
        Drop({"a": 1}, sent=3),
        Drop({"a": 1}, sent=3, reset=True),
    ],
)
def test_trouble_then_success(endpoint, asking, sample, records, tmp_path, trouble) -> None:
    def replies(asked: dict[str, Any], before: int) -> Reply:
        if before:
            return good(asked)
        if isinstance(trouble, Drop):
            raise trouble
        return trouble

    endpoint.replies = replies
    audit = label_sample(sample, records, asking(max_requests=6), tmp_path)
    assert (audit["statuses"], audit["troubles"]) == ({"ok": 6}, {})
    assert set(endpoint.seen.values()) == {2}
    assert set(endpoint.paid.values()) == {1}


def test_hanging_endpoint(endpoint, asking, sample, records, tmp_path) -> None:
    def replies(asked: dict[str, Any], before: int) -> Reply:
        if not before:
            raise Drop(after=1.0)
        return good(asked)

    endpoint.replies = replies
    audit = label_sample(sample, records, asking(timeout=0.5, concurrency=6, attempts=1, unanswered="rules"), tmp_path)
    assert (audit["answered"], audit["troubles"], audit["lost_and_perhaps_paid"]) == (0, {"timeout": 6}, 6)
    endpoint.seen.clear()
    audit = label_sample(sample, records, asking(timeout=0.5, concurrency=6), tmp_path)
    assert (audit["statuses"], audit["troubles"]) == ({"ok": 6}, {})
    assert set(endpoint.seen.values()) == {2}


def test_an_endpoint_that_asks_to_wait_for_hours_is_not_asked_again(
    endpoint, asking, sample, records, tmp_path
) -> None:
    endpoint.replies = lambda *_: Reply(429, {"error": {}}, {"Retry-After": "7200"})
    with pytest.raises(PacerError, match=r"6 of 6 requests got no answer .*\(HTTP 429\)"):
        label_sample(sample, records, asking(), tmp_path)
    assert set(endpoint.seen.values()) == {1}


@pytest.mark.parametrize(
    "body", [b"<html>", b"", b"{", b"[]", b'{"choices": []}', b"\xff\xfe", b'{"choices": [{"message": 1}]}', b"1" * 9]
)
def test_complete_answer_that_says_nothing_is_never_asked_again(
    endpoint, asking, sample, records, tmp_path, body
) -> None:
    endpoint.replies = lambda *_: Reply(body=body)
    audit = label_sample(sample, records, asking(), tmp_path)
    assert "ok" not in audit["statuses"]
    assert set(endpoint.seen.values()) == {1}
    label_sample(sample, records, asking(), tmp_path)
    assert set(endpoint.seen.values()) == {1}


def test_failed_requests_are_asked_again_and_others_are_not(endpoint, asking, sample, records, tmp_path) -> None:
    down = set(sample["record_id"][:2])
    endpoint.replies = lambda asked, _: Reply(503, {}) if asked["sample_uid"] in down else good(asked)
    with pytest.raises(PacerError, match=r"2 of 6 requests got no answer.*HTTP 503.*run the stage again"):
        label_sample(sample, records, asking(attempts=2), tmp_path)
    with open(tmp_path / "llm_cache.jsonl", "a") as file:
        file.write('{"record_id": "cut off by a cra')
    endpoint.requests.clear()
    endpoint.replies = good
    audit = label_sample(sample, records, asking(), tmp_path)
    assert audit["reused"] == 4
    assert sorted(endpoint.asked()) == sorted(down)

    endpoint.requests.clear()
    assert label_sample(sample, records, asking(), tmp_path)["reused"] == 6
    assert endpoint.requests == []


def test_unanswered_requests_may_fall_to_the_rules(endpoint, asking, sample, records, tmp_path, capfd) -> None:
    down = sample["record_id"][0]
    endpoint.replies = lambda asked, _: Reply(503, {}) if asked["sample_uid"] == down else good(asked)
    audit = label_sample(sample, records, asking(attempts=2, unanswered="rules"), tmp_path)
    assert (audit["answered"], audit["unanswered"], audit["troubles"]) == (5, 1, {"HTTP 503": 1})
    assert "83% 5/6" in capfd.readouterr().err
    anchors, _ = build(records, tmp_path / "llm_cache.jsonl")
    assert anchors.row(by_predicate=pl.col("record_id") == down, named=True)["origin"] == "rules"


@pytest.mark.parametrize("status", [401, 402, 403, 404, 400, 307])
def test_endpoint_that_refuses_everything(endpoint, asking, sample, records, tmp_path, status) -> None:
    endpoint.replies = lambda *_: Reply(
        status, {"error": {"message": "report text echoed"}}, {"Location": endpoint.url + "/elsewhere"}
    )
    expected = "gave no usable answer for 6 records in a row" if status == 400 else "6 of 6 requests got no answer"
    with pytest.raises(PacerError, match=rf"{expected}.*\(HTTP {status}\)") as error:
        label_sample(sample, records, asking(), tmp_path)
    assert "echoed" not in str(error.value)
    assert set(endpoint.seen.values()) == {1}
    endpoint.replies = good
    assert label_sample(sample, records, asking(), tmp_path)["statuses"] == {"ok": 6}


def test_one_refused_report_falls_to_the_rules(endpoint, asking, sample, records, tmp_path) -> None:
    """Wherever it stands in the order, and also when it is the last one left."""
    refused = sample["record_id"][0]
    endpoint.replies = lambda asked, _: Reply(400, {}) if asked["sample_uid"] == refused else good(asked)
    audit = label_sample(sample, records, asking(concurrency=1), tmp_path)
    assert (audit["statuses"], audit["unanswered"], audit["troubles"]) == ({"ok": 5}, 1, {"HTTP 400": 1})
    assert set(endpoint.seen.values()) == {1}
    audit = label_sample(sample, records, asking(), tmp_path)
    assert (audit["statuses"], audit["reused"], audit["troubles"]) == ({"ok": 5}, 5, {"HTTP 400": 1})


def test_nothing_more_is_asked_once_an_answer_cannot_be_stored(
    endpoint, asking, sample, records, tmp_path, monkeypatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    def replies(asked: dict[str, Any], _: int) -> Reply:
        monkeypatch.setattr("pacer.commitments.labelling.os.fsync", full)
        if asked["sample_uid"] == first:  # its future is looked at first
            time.sleep(0.5)
        return good(asked)

    first = sample["record_id"][0]
    endpoint.replies = replies
    with pytest.raises(OSError, match="No space left"):
        label_sample(sample, records, asking(concurrency=2), tmp_path)
    assert sum(endpoint.seen.values()) == 2


def test_slots_are_bounded(endpoint, asking, sample, records, tmp_path) -> None:
    def slow(asked: dict[str, Any], _: int) -> Reply:
        time.sleep(0.05)
        return good(asked)

    endpoint.replies = slow
    label_sample(sample, records, asking(concurrency=3), tmp_path)
    assert 1 <= endpoint.most_in_flight <= 3


def test_an_answer_is_on_disk_before_its_slot_asks_again(endpoint, asking, sample, records, tmp_path) -> None:
    journal = tmp_path / "llm_cache.jsonl"
    on_disk: list[int] = []

    def replies(asked: dict[str, Any], _: int) -> Reply:
        on_disk.append(sum('"raw"' in line for line in journal.read_text().splitlines()))
        return good(asked)

    endpoint.replies = replies
    label_sample(sample, records, asking(concurrency=1), tmp_path)
    assert on_disk == [0, 1, 2, 3, 4, 5]
