"""Endpoints that misbehave: what is tried again, what never, and where the work stops."""

import time
from typing import Any

import pytest

from pacer.core.errors import PacerError
from tests.support.endpoint import Drop, Reply, good
from tests.support.labelling import build, cached


@pytest.mark.parametrize("trouble", [Reply(429, {"error": {}}, {"Retry-After-Ms": "1"}), Drop({"a": 1}, sent=3)])
def test_trouble_then_success(endpoint, label, trouble) -> None:
    endpoint.replies = lambda asked, before: good(asked) if before else trouble
    audit = label()
    assert (audit["statuses"], audit["troubles"]) == ({"ok": 6}, {})
    assert set(endpoint.seen.values()) == {2}
    assert set(endpoint.paid.values()) == {1}


@pytest.mark.parametrize(
    ("trouble", "reason"), [(Drop(after=1.0), "timeout"), (Drop({"a": 1}, sent=3), "disconnected")]
)
def test_requests_that_are_lost_fall_to_the_rules_and_are_asked_again(
    endpoint, label, records, tmp_path, trouble, reason
) -> None:
    endpoint.replies = lambda asked, before: good(asked) if before else trouble
    audit = label(timeout=0.5, concurrency=6, attempts=1, unanswered="rules")
    assert (audit["answered"], audit["troubles"]) == (0, {reason: 6})
    assert cached(tmp_path) == []
    anchors, _ = build(records, tmp_path / "llm_cache.jsonl")
    assert set(anchors["origin"]) == {"rules"}
    endpoint.seen.clear()
    audit = label(timeout=0.5, concurrency=6)
    assert (audit["statuses"], audit["troubles"]) == ({"ok": 6}, {})
    assert set(endpoint.seen.values()) == {2}


def test_failed_requests_are_asked_again_and_others_are_not(endpoint, label, sample, tmp_path) -> None:
    down = set(sample["record_id"][:2])
    endpoint.replies = lambda asked, _: Reply(503, {}) if asked["sample_uid"] in down else good(asked)
    with pytest.raises(PacerError, match=r"2 of 6 requests got no answer.*HTTP 503.*rerun the stage"):
        label(attempts=2)
    with open(tmp_path / "llm_cache.jsonl", "a") as file:
        file.write('{"record_id": "cut off by a cra')
    endpoint.requests.clear()
    endpoint.replies = good
    audit = label()
    assert audit["reused"] == 4
    assert sorted(endpoint.asked()) == sorted(down)


@pytest.mark.parametrize("status", [401, 307, 429])
def test_endpoint_that_fails_everything(endpoint, label, status) -> None:
    """With another address, and a wait of two hours: neither is followed."""
    headers = {"Location": endpoint.url + "/elsewhere", "Retry-After": "7200"}
    endpoint.replies = lambda *_: Reply(status, {"error": {"message": "report text echoed"}}, headers)
    with pytest.raises(PacerError, match=rf"6 of 6 requests got no answer.*\(HTTP {status}\)") as raised:
        label()
    assert "echoed" not in str(raised.value)
    assert set(endpoint.seen.values()) == {1}
    endpoint.replies = good
    assert label()["statuses"] == {"ok": 6}


def test_nothing_more_is_asked_once_an_answer_cannot_be_stored(endpoint, label, sample, monkeypatch) -> None:
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
        label(concurrency=2)
    assert sum(endpoint.seen.values()) == 2


def test_an_answer_is_on_disk_before_its_slot_asks_again(endpoint, label, tmp_path) -> None:
    journal = tmp_path / "llm_cache.jsonl"
    on_disk: list[int] = []

    def replies(asked: dict[str, Any], _: int) -> Reply:
        on_disk.append(sum('"raw"' in line for line in journal.read_text().splitlines()))
        return good(asked)

    endpoint.replies = replies
    label(concurrency=1)
    assert on_disk == [0, 1, 2, 3, 4, 5]
