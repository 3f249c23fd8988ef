"""Labelling: consent, requests, troubles, budget, resuming, and recorded answers."""

from __future__ import annotations

import json
import threading
import time
from email.utils import formatdate
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pacer.anchors import asking as asking_module
from pacer.anchors import client
from pacer.anchors.anchor import Anchor
from pacer.anchors.build import build_anchors
from pacer.anchors.client import retry_after
from pacer.anchors.labelling import label_sample
from pacer.anchors.request import answer_schema, system_prompt
from pacer.anchors.sampling import sample_records
from pacer.anchors.vocabulary import FINDINGS
from pacer.core.errors import ConfigError, DataError, PacerError
from pacer.core.io import hash_bytes
from tests.anchors.conftest import KEY, cached
from tests.anchors.server import Drop, Reply, answer, completion


def good(asked: dict[str, Any], _: int = 0) -> Reply:
    return Reply(body=completion(answer(asked)))


def scratch(out: Path) -> Path:
    return out / "llm_cache.jsonl.scratch"


def test_success_and_request_of_the_paper(endpoint, asking, sample, records, tmp_path) -> None:
    audit = label_sample(sample, records, asking(), tmp_path)
    assert (audit["sampled"], audit["answered"], audit["unanswered"], audit["reused"]) == (6, 6, 0, 0)
    assert audit["statuses"] == {"ok": 6}
    assert audit["models"] == {"served-1": 6}
    assert (audit["names_off_vocabulary"], audit["findings_repeated"]) == (6, 6)
    lines = cached(tmp_path)
    assert [line["record_id"] for line in lines] == sorted(sample["record_id"])
    assert lines[0]["anchor"] == {"positive": ["edema"], "negative": [], "uncertain": []}
    assert lines[0]["dropped"] == {"off_vocabulary": ["hernia"], "repeated": 1}
    assert {line["prompt_hash"] for line in lines} == {hash_bytes(system_prompt(None).encode())}
    assert {line["request_hash"] for line in lines} == set(endpoint.paid)  # the key is the hash of what was sent
    assert not scratch(tmp_path).exists()

    request = endpoint.requests[0]
    assert (request["model"], request["temperature"], request["max_tokens"]) == ("gpt-4.1-mini", 0.0, 600)
    assert request["response_format"] == {"type": "json_object"}
    assert request["messages"][0] == {"role": "system", "content": system_prompt(None)}
    content = json.loads(request["messages"][1]["content"])
    row = records.row(by_predicate=pl.col("record_id") == content["sample_uid"], named=True)
    strata = sample.row(by_predicate=pl.col("record_id") == content["sample_uid"], named=True)["strata"]
    assert list(content) == ["sample_uid", "scenario", "report", "regex_anchor", "risk_buckets"]
    assert content["scenario"] == row["context"]
    assert content["report"] == row["report_raw"]
    assert set(content["regex_anchor"]) == {"positive", "negative", "uncertain"}
    assert content["risk_buckets"] == strata


def test_candidate_of_the_caller(endpoint, asking, sample, records, tmp_path) -> None:
    label_sample(sample, records, asking(), tmp_path, candidate=lambda report: Anchor(("fracture",)))
    contents = [json.loads(request["messages"][1]["content"]) for request in endpoint.requests]
    assert {tuple(content["regex_anchor"]["positive"]) for content in contents} == {("fracture",)}


def test_structured_mode(endpoint, asking, sample, records, tmp_path) -> None:
    """Strict schemas: every object closed, every property required (the API refuses others)."""
    label_sample(sample, records, asking(structured=True), tmp_path)
    assert endpoint.requests[0]["response_format"] == answer_schema()
    schema = answer_schema()["json_schema"]["schema"]
    for part in (schema, schema["properties"]["rationale"]):
        assert part["additionalProperties"] is False
        assert part["required"] == list(part["properties"])
    assert schema["properties"]["negative"]["items"]["enum"] == list(FINDINGS)
    label_sample(sample, records, asking(), tmp_path)
    assert len(endpoint.requests) == 12


@pytest.mark.parametrize(
    "trouble",
    [
        Reply(429, {"error": {}}, {"Retry-After-Ms": "1"}),
        Reply(429, {"error": {}}, {"Retry-After": formatdate(0, usegmt=True)}),
        Reply(500, b"<html>"), Reply(503, {}), Reply(408, {}), Reply(504, {}), Drop(), Drop({"a": 1}, sent=3),
        Drop({"a": 1}, sent=3, reset=True),
    ],
)  # fmt: skip
def test_trouble_then_success(endpoint, asking, sample, records, tmp_path, trouble) -> None:
    def replies(asked: dict[str, Any], before: int) -> Reply:
        if before:
            return good(asked)
        if isinstance(trouble, Drop):
            raise trouble
        return trouble

    endpoint.replies = replies
    maybe = isinstance(trouble, Drop) or trouble.status == 504  # the endpoint may have done the work
    audit = label_sample(sample, records, asking(max_requests=12 if maybe else 6), tmp_path)
    assert audit["statuses"] == {"ok": 6}
    assert sum(audit["troubles"].values()) == 6
    assert set(endpoint.seen.values()) == {2}
    assert set(endpoint.paid.values()) == {1}
    assert audit["lost_and_perhaps_paid"] == (6 if maybe else 0)


def test_hanging_endpoint(endpoint, asking, sample, records, tmp_path) -> None:
    def replies(asked: dict[str, Any], before: int) -> Reply:
        if not before:
            raise Drop(after=1.0)
        return good(asked)

    endpoint.replies = replies
    audit = label_sample(sample, records, asking(timeout=0.5, concurrency=6), tmp_path)
    assert audit["statuses"] == {"ok": 6}
    assert audit["troubles"]["timeout"] >= 6
    assert audit["lost_and_perhaps_paid"] == audit["troubles"]["timeout"]


def test_retry_after_is_waited_for_by_all(endpoint, asking, sample, records, tmp_path) -> None:
    """Once a refusal has reached the client, no slot sends anything before the time it named."""
    moments: list[float] = []

    def replies(asked: dict[str, Any], before: int) -> Reply:
        moments.append(time.monotonic())
        if len(moments) == 2:
            return Reply(429, {"error": {}}, {"Retry-After": "1"})
        time.sleep(0.02)
        return good(asked)

    endpoint.replies = replies
    label_sample(sample, records, asking(concurrency=2), tmp_path)
    assert len(moments) == 7
    refused = moments[1]
    assert not [moment for moment in moments if refused + 0.5 < moment < refused + 1.0]
    assert moments[-1] >= refused + 1.0
    assert sum(moment > refused + 0.5 for moment in moments) >= 3


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None), ({"retry-after": "2"}, 2.0), ({"retry-after": "0.5"}, 0.5), ({"retry-after": "-3"}, 0.0),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25), ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None), ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
    ],
)  # fmt: skip
def test_retry_after_in_all_its_forms(headers, seconds) -> None:
    assert retry_after(headers) == seconds


def test_retry_after_as_a_date_ahead() -> None:
    assert retry_after({"retry-after": formatdate(time.time() + 100, usegmt=True)}) == pytest.approx(100, abs=30)


def test_told_to_wait_for_hours(endpoint, asking, sample, records, tmp_path) -> None:
    endpoint.replies = lambda *_: Reply(429, {"error": {}}, {"Retry-After": "7200"})
    with pytest.raises(PacerError, match="asks to wait 7200 s"):
        label_sample(sample, records, asking(), tmp_path)
    assert sum(endpoint.seen.values()) <= 2


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


def test_answer_that_cannot_be_decoded_is_never_asked_again(endpoint, asking, sample, records, tmp_path) -> None:
    endpoint.replies = lambda *_: Reply(body=b"no gzip", headers={"Content-Encoding": "gzip"})
    assert label_sample(sample, records, asking(), tmp_path)["statuses"] == {"empty": 6}
    assert set(endpoint.seen.values()) == {1}


def test_unreadable_answers_are_kept_with_their_reason(endpoint, asking, sample, records, tmp_path) -> None:
    bodies = iter([
        completion("no json"), completion('{"positive": ["edema"', finish="length"), completion(None),
        completion('{"positive": "edema"}'), completion(None, refusal="no"), completion('{"positive": ['),
    ])  # fmt: skip
    lock = threading.Lock()

    def garbage(*_: Any) -> Reply:
        with lock:
            return Reply(body=next(bodies))

    endpoint.replies = garbage
    audit = label_sample(sample, records, asking(), tmp_path)
    assert audit["statuses"] == {"cut_off": 1, "empty": 1, "malformed": 1, "refused": 1, "unparseable": 2}
    assert all(line["anchor"] is None for line in cached(tmp_path))
    _, built = build_anchors(records, tmp_path / "llm_cache.jsonl")
    assert {name: n for name, n in built["answers"]["statuses"].items() if n} == audit["statuses"]


def test_lone_surrogates_in_an_answer(endpoint, asking, sample, records, tmp_path) -> None:
    endpoint.replies = lambda asked, _: Reply(body=completion("\ud800" + answer(asked)))
    assert label_sample(sample, records, asking(), tmp_path)["statuses"] == {"ok": 6}


def test_evidence_is_counted_and_never_named(endpoint, asking, sample, records, tmp_path, capfd) -> None:
    rationale = {"edema": "an invented phrase", "pneumonia": "heart size, is NORMAL", "hernia": ["Lungs clear", ""]}
    endpoint.replies = lambda asked, _: Reply(body=completion(answer(asked, rationale=rationale)))
    audit = label_sample(sample, records, asking(), tmp_path)
    reports = records.join(sample, on="record_id", how="semi")["report_raw"]
    present = sum(("Heart size is normal" in report) + ("Lungs clear" in report) for report in reports)
    assert present > 0
    assert audit["evidence"] == {"phrases": 24, "not_in_report": 24 - present, "share": (24 - present) / 24}
    assert "invented" not in json.dumps(audit) + "".join(capfd.readouterr())


def test_failed_requests_are_asked_again_and_others_are_not(endpoint, asking, sample, records, tmp_path) -> None:
    down = set(sample["record_id"][:2])
    endpoint.replies = lambda asked, _: Reply(503, {}) if asked["sample_uid"] in down else good(asked)
    with pytest.raises(PacerError, match=r"2 of 6 requests got no answer.*HTTP 503.*run the stage again"):
        label_sample(sample, records, asking(attempts=2), tmp_path)
    assert not (tmp_path / "llm_cache.jsonl").exists()
    journal = scratch(tmp_path) / "answers" / "answers.jsonl"
    with open(journal, "a") as file:
        file.write('{"record_id": "cut off by a cra')
    endpoint.requests.clear()
    endpoint.replies = good
    audit = label_sample(sample, records, asking(), tmp_path)
    assert audit["reused"] == 4
    assert sorted(endpoint.asked()) == sorted(down)

    endpoint.requests.clear()
    assert label_sample(sample, records, asking(), tmp_path)["reused"] == 6
    assert endpoint.requests == []


def test_unanswered_requests_may_fall_to_the_rules(endpoint, asking, sample, records, tmp_path) -> None:
    down = sample["record_id"][0]
    endpoint.replies = lambda asked, _: Reply(503, {}) if asked["sample_uid"] == down else good(asked)
    audit = label_sample(sample, records, asking(attempts=2, unanswered="rules"), tmp_path)
    assert (audit["answered"], audit["unanswered"], audit["troubles"]) == (5, 1, {"server_error": 2})
    anchors, _ = build_anchors(records, tmp_path / "llm_cache.jsonl")
    assert anchors.row(by_predicate=pl.col("record_id") == down, named=True)["origin"] == "rules"


def test_lost_answers_are_bounded(endpoint, asking, sample, records, tmp_path) -> None:
    def replies(*_: Any) -> Reply:
        raise Drop({"a": 1}, sent=3)

    endpoint.replies = replies
    with pytest.raises(PacerError, match=r"6 of 6 requests got no answer.*disconnected"):
        label_sample(sample, records, asking(), tmp_path)
    assert set(endpoint.seen.values()) == {client.MAX_LOST}


def test_dead_endpoint_is_given_up(endpoint, asking, records, sample, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(asking_module, "MAX_IN_A_ROW", 4)
    endpoint.replies = lambda *_: Reply(500, {})
    with pytest.raises(PacerError, match="4 requests in a row got no answer"):
        label_sample(sample, records, asking(attempts=2, concurrency=1), tmp_path)
    assert sum(endpoint.seen.values()) == 8


def test_endpoint_that_is_not_there(endpoint, asking, sample, records, tmp_path) -> None:
    config = asking(attempts=2).model_copy(update={"base_url": "http://127.0.0.1:9/v1"})
    with pytest.raises(PacerError, match=r"6 of 6 requests got no answer.*unreachable"):
        label_sample(sample, records, config, tmp_path)


@pytest.mark.parametrize("status", [401, 402, 403, 404, 400, 307])
def test_endpoint_that_refuses_everything(endpoint, asking, sample, records, tmp_path, status) -> None:
    endpoint.replies = lambda *_: Reply(status, {"error": {"message": "report text echoed"}},
                                        {"Location": endpoint.url + "/elsewhere"})  # fmt: skip
    with pytest.raises(PacerError, match=r"refused the request of ") as error:
        label_sample(sample, records, asking(), tmp_path)
    assert "echoed" not in str(error.value)
    assert sum(endpoint.seen.values()) <= (6 if status == 400 else 2)
    endpoint.replies = good
    assert label_sample(sample, records, asking(), tmp_path)["statuses"] == {"ok": 6}


def test_account_without_credit_is_no_rate_limit(endpoint, asking, sample, records, tmp_path) -> None:
    endpoint.replies = lambda *_: Reply(429, {"error": {"code": "insufficient_quota", "message": "pay"}})
    with pytest.raises(PacerError, match="refused the request of"):
        label_sample(sample, records, asking(concurrency=1), tmp_path)
    assert sum(endpoint.seen.values()) == 1


def test_one_refused_report_falls_to_the_rules(endpoint, asking, sample, records, tmp_path) -> None:
    """Wherever it stands in the order, and also when it is the last one left."""
    refused = sample["record_id"][0]
    endpoint.replies = lambda asked, _: Reply(400, {}) if asked["sample_uid"] == refused else good(asked)
    assert label_sample(sample, records, asking(concurrency=1), tmp_path)["statuses"] == {"ok": 5, "refused": 1}
    assert set(endpoint.seen.values()) == {1}

    others = sample.filter(pl.col("record_id") != refused)
    label_sample(others, records, asking(), tmp_path / "b")
    assert label_sample(sample, records, asking(), tmp_path / "b")["statuses"] == {"ok": 5, "refused": 1}


@pytest.mark.parametrize("consent", [None, "api.openai.com", "localhost"])
@pytest.mark.parametrize("mode", ["requests", "batch"])
def test_nothing_is_sent_without_consent(endpoint, asking, sample, records, tmp_path, consent, mode) -> None:
    config = asking(mode=mode).model_copy(update={"send_reports_to": consent})
    with pytest.raises(ConfigError, match="report text is not sent"):
        label_sample(sample, records, config, tmp_path)
    assert endpoint.keys == set()


def test_endpoint_of_the_environment_needs_consent_too(
    endpoint, sample, records, labelling, tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
    config = labelling(provider="openai", send_reports_to="api.openai.com")
    with pytest.raises(ConfigError, match="report text is not sent"):
        label_sample(sample, records, config, tmp_path)
    assert endpoint.keys == set()


def test_no_proxy_sees_reports_without_encryption(endpoint, asking, sample, records, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert label_sample(sample, records, asking(), tmp_path)["statuses"] == {"ok": 6}


def test_missing_key(asking, sample, records, tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(ConfigError, match="needs an API key in OPENAI_API_KEY"):
        label_sample(sample, records, asking(), tmp_path)


def test_slots_are_bounded(endpoint, asking, sample, records, tmp_path) -> None:
    def slow(asked: dict[str, Any], _: int) -> Reply:
        time.sleep(0.05)
        return good(asked)

    endpoint.replies = slow
    label_sample(sample, records, asking(concurrency=3), tmp_path)
    assert 1 <= endpoint.most_in_flight <= 3


def test_an_answer_is_on_disk_before_its_slot_asks_again(endpoint, asking, sample, records, tmp_path) -> None:
    journal = scratch(tmp_path) / "answers" / "answers.jsonl"
    on_disk: list[int] = []

    def replies(asked: dict[str, Any], _: int) -> Reply:
        on_disk.append(sum('"raw"' in line for line in journal.read_text().splitlines()))
        return good(asked)

    endpoint.replies = replies
    label_sample(sample, records, asking(concurrency=1), tmp_path)
    assert on_disk == [0, 1, 2, 3, 4, 5]


def test_estimate_comes_first_and_binds(endpoint, asking, sample, records, tmp_path, capfd) -> None:
    for limit in ({"max_requests": 5}, {"max_dollars": 0.005}):
        with pytest.raises(ConfigError, match=rf"{next(iter(limit))}.*does not cover 6 requests.*Nothing was sent"):
            label_sample(sample, records, asking(**limit), tmp_path)
    assert endpoint.keys == set()
    label_sample(sample, records, asking(max_requests=6, max_dollars=0.02), tmp_path)
    assert "6 requests to send (0 paid before): about 0.01 M input tokens (characters / 4)" in capfd.readouterr().err


def test_dollars_follow_the_usage(endpoint, asking, sample, records, tmp_path) -> None:
    audit = label_sample(sample, records, asking(), tmp_path)
    assert audit["prompt_tokens"] == 6000 and audit["completion_tokens"] == 600 and audit["without_usage"] == 0
    assert audit["dollars"] == pytest.approx((6000 * 0.4 + 600 * 1.6) / 1e6)


def test_work_stops_when_the_money_is_spent_and_goes_on_with_more(endpoint, asking, sample, records, tmp_path) -> None:
    """The endpoint counts more tokens than estimated: the limit is passed by no more than the answers in flight."""
    dear = completion("{}") | {"usage": {"prompt_tokens": 20_000, "completion_tokens": 600}}
    endpoint.replies = lambda *_: Reply(body=dear)
    with pytest.raises(PacerError, match=r"max_dollars: 0.02 is spent: . requests.*answers are kept"):
        label_sample(sample, records, asking(max_dollars=0.02, concurrency=1), tmp_path)
    paid = sum(endpoint.paid.values())
    assert 2 <= paid < 6
    with pytest.raises(ConfigError, match=r"max_dollars: 0.02 does not cover"):
        label_sample(sample, records, asking(max_dollars=0.02), tmp_path)
    label_sample(sample, records, asking(max_dollars=0.2), tmp_path)
    assert set(endpoint.seen.values()) == {1}


def test_lost_answers_count_towards_the_budget(endpoint, asking, sample, records, tmp_path) -> None:
    def replies(asked: dict[str, Any], before: int) -> Reply:
        if not before:
            raise Drop()
        return good(asked)

    endpoint.replies = replies
    with pytest.raises(PacerError, match=r"max_requests: 7 is spent: 7 requests"):
        label_sample(sample, records, asking(max_requests=7, concurrency=1), tmp_path)
    assert sum(endpoint.seen.values()) == 7
    with pytest.raises(ConfigError, match=r"max_requests: 8 does not cover 3 requests to send \(7 paid before\)"):
        label_sample(sample, records, asking(max_requests=8), tmp_path)
    label_sample(sample, records, asking(), tmp_path)
    more = sample_records(records, 4, seed=1)[0]
    with pytest.raises(ConfigError, match=r"2 requests to send \(12 paid before\)"):
        label_sample(more, records, asking(max_requests=0), tmp_path)


def test_an_answer_is_used_as_long_as_the_question_is_the_same(endpoint, asking, sample, records, tmp_path) -> None:
    """Changes of prompt, report, candidate and settings ask again; old answers stay and come back with their question;
    other parameters never ask."""
    label_sample(sample, records, asking(), tmp_path)
    first = (tmp_path / "llm_cache.jsonl").read_text()
    for change in ({"concurrency": 1}, {"max_dollars": 5.0}, {"timeout": 3.0}, {"mode": "batch"}, {"attempts": 1}):
        assert label_sample(sample, records, asking(**change), tmp_path)["reused"] == 6
    assert (tmp_path / "llm_cache.jsonl").read_text() == first
    assert sum(endpoint.seen.values()) == 6

    (tmp_path / "prompt.md").write_text("Answer in JSON.")
    audit = label_sample(sample, records, asking(prompt_file=str(tmp_path / "prompt.md")), tmp_path)
    assert (audit["reused"], audit["older_answers"], audit["answered"]) == (0, 6, 6)
    lines = cached(tmp_path)
    assert len(lines) == 12 and sum(line["current"] for line in lines) == 6
    assert len({line["prompt_hash"] for line in lines}) == 2
    _, built = build_anchors(records, tmp_path / "llm_cache.jsonl")
    assert built["answers"]["read"] == 6

    changed = pl.when(pl.col("record_id") == sample["record_id"][0]).then(pl.lit("New.")).otherwise("report_raw")
    assert label_sample(sample, records.with_columns(changed.alias("report_raw")), asking(), tmp_path)["reused"] == 5
    for change in ({"max_tokens": 500}, {"model": "other"}, {"temperature": 0.5}, {"structured": True}):
        assert label_sample(sample, records, asking(**change), tmp_path)["reused"] == 0
    before = sum(endpoint.seen.values())
    assert label_sample(sample, records, asking(), tmp_path)["reused"] == 6
    assert sum(endpoint.seen.values()) == before


def test_other_providers_keep_paid_answers_and_use_none(
    endpoint, asking, labelling, sample, records, tmp_path
) -> None:
    label_sample(sample, records, asking(), tmp_path)
    audit = label_sample(sample, records, labelling(), tmp_path)
    assert (audit["answered"], audit["unanswered"], audit["older_answers"]) == (0, 6, 6)
    anchors, _ = build_anchors(records, tmp_path / "llm_cache.jsonl")
    assert set(anchors["origin"]) == {"rules"}
    assert label_sample(sample, records, asking(), tmp_path)["reused"] == 6


def test_provider_none_writes_an_empty_cache(sample, records, labelling, tmp_path) -> None:
    audit = label_sample(sample, records, labelling(), tmp_path)
    assert (audit["answered"], audit["unanswered"]) == (0, 6)
    assert cached(tmp_path) == []
    assert not scratch(tmp_path).exists()


def test_recorded_answers(sample, records, labelling, tmp_path) -> None:
    ids = sample["record_id"].to_list()
    lines = [{"record_id": i, "response": completion(answer({"sample_uid": i}))} for i in [*ids[:4], "sn-unsampled"]]
    lines.append({"record_id": ids[4], "response": completion(answer({"sample_uid": ids[0]}))})
    path = tmp_path / "answers.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    config = labelling(provider="recorded", recorded=str(path))
    for _ in range(2):
        audit = label_sample(sample, records, config, tmp_path)
        assert (audit["answered"], audit["unanswered"], audit["older_answers"]) == (5, 1, 0)
        assert audit["statuses"] == {"ok": 4, "other_record": 1}
        assert audit["dollars"] == 0
    path.write_text("".join(json.dumps(lines[0]) + "\n" for _ in range(2)))
    with pytest.raises(DataError, match=rf"line 2: record {ids[0]} has two answers"):
        label_sample(sample, records, config, tmp_path)
    path.write_text(json.dumps({"record_id": ids[0]}) + "\n")
    with pytest.raises(DataError, match="line 1 must be an object with record_id and response"):
        label_sample(sample, records, config, tmp_path)


def test_recorded_answers_and_paid_ones_to_the_same_questions(
    endpoint, asking, labelling, sample, records, tmp_path
) -> None:
    """Recorded answers are never taken for the endpoint's, and put none of those aside."""
    path = tmp_path / "answers.jsonl"
    lines = [{"record_id": i, "response": completion(answer({"sample_uid": i}, positive=[]))} for i in
             sample["record_id"]]  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    recorded = labelling(provider="recorded", recorded=str(path))
    label_sample(sample, records, recorded, tmp_path)
    audit = label_sample(sample, records, asking(), tmp_path)
    assert (audit["reused"], audit["models"]) == (0, {"served-1": 6})
    assert sum(endpoint.paid.values()) == 6 and len(cached(tmp_path)) == 6
    audit = label_sample(sample, records, recorded, tmp_path)
    assert (audit["older_answers"], len(cached(tmp_path))) == (6, 12)
    anchors, _ = build_anchors(records, tmp_path / "llm_cache.jsonl")
    assert anchors.filter(origin="llm")["positive"].list.len().sum() == 0
    assert label_sample(sample, records, asking(), tmp_path)["reused"] == 6
    assert len(cached(tmp_path)) == 6


def test_cache_of_an_earlier_version_and_foreign_files(sample, records, labelling, tmp_path) -> None:
    path = tmp_path / "llm_cache.jsonl"
    path.write_text(json.dumps({"record_id": "a", "request_hash": "b", "raw": "", "status": "empty"}) + "\n")
    label_sample(sample, records, labelling(), tmp_path)
    assert cached(tmp_path) == []
    path.write_text('{"something": "else"}\n')
    with pytest.raises(DataError, match="no labelling answer"):
        label_sample(sample, records, labelling(), tmp_path)


def test_the_key_and_reports_turn_up_nowhere(endpoint, asking, sample, records, tmp_path, capfd, caplog) -> None:
    caplog.set_level("DEBUG")
    secret = records.with_columns(pl.lit("Zebrafish seen. No effusion.").alias("report_raw"))
    endpoint.replies = lambda asked, before: good(asked) if before else Reply(500, {"error": {"message": KEY}})
    label_sample(sample, secret, asking(), tmp_path)
    endpoint.replies = lambda asked, _: Reply(401, {"error": {"message": f"{KEY} {asked['report']}"}})
    with pytest.raises(PacerError) as error:
        label_sample(sample, secret, asking(max_tokens=9), tmp_path)
    shown = "".join(capfd.readouterr()) + caplog.text + repr(error.value)
    for cause in (error.value.__cause__, error.value.__context__):
        assert cause is None or error.value.__suppress_context__
    files = "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    assert endpoint.keys == {f"Bearer {KEY}"}
    assert KEY not in shown + files
    assert "zebrafish" not in (shown + files).lower()
