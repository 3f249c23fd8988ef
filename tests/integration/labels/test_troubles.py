"""Endpoints that misbehave: what is tried again, what never, and what is left when the process is
killed."""

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Set
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pacer.config import Labelling
from pacer.core.errors import PacerError
from pacer.core.io import read_json, write_json, yaml_beside
from pacer.core.schemas import RECORD_SCHEMA
from tests.support.endpoint import Drop, Endpoint, Reply, answer, completion, good
from tests.support.labelling import KEY, REPORTS, build, cached, record
from tests.support.waiting import PATIENCE


class Misbehaviour:
    """Faults by the hash of the record id: none to several troubles, and then an answer of one of
    many kinds.

    Args:
        stuck: records whose requests fail ten times in a row.
    """

    def __init__(self, seed: int, hang: float, stuck: Set[str]):
        self.seed, self.hang, self.stuck = seed, hang, stuck

    def troubles(self, record_id: str) -> list[str]:
        draw = random.Random(f"{self.seed}:{record_id}")
        if record_id in self.stuck:
            return ["error"] * 10
        page = ["page"] * (draw.random() < 0.02)  # is not retried in the same run
        lost = draw.choices(("none", "hang", "truncated"), (96, 0.4, 3.6))[0]
        kinds = draw.choices(("limit", "error"), k=3)
        count = draw.choices((0, 1, 2, 3), (80, 12, 5, 3))[0]
        return kinds[:count] + [lost] * (lost != "none") + page

    def kind(self, record_id: str) -> str:
        """The kind of answer in the end."""
        names = ("good", "prose", "other", "refusal", "length")
        return random.Random(f"{self.seed}:kind:{record_id}").choices(names, (95, 2, 1, 1, 1))[0]

    def __call__(self, asked: dict[str, Any], before: int) -> Reply | Drop:
        record_id = asked["sample_uid"]
        troubles = self.troubles(record_id)
        if before >= len(troubles):
            return self.final(self.kind(record_id), asked)
        whole = completion(answer(asked))
        wait = random.Random(f"{record_id}:{before}").uniform(0.0, 0.02)
        replies = {
            "limit": Reply(
                429, {"error": {"message": asked["report"]}}, {"Retry-After": f"{wait:.3f}"}
            ),
            "error": Reply(500, {"error": {"message": asked["report"]}}),
            "page": Reply(body=b"<html>an HTTP 200 that is no API answer</html>"),
            "hang": Drop(after=self.hang),
            "truncated": Drop(whole, sent=len(json.dumps(whole)) // 2),
        }
        return replies[troubles[before]]

    @staticmethod
    def final(kind: str, asked: dict[str, Any]) -> Reply:
        bodies = {
            "good": completion(answer(asked)),
            "prose": completion("There is no JSON in this answer."),
            "other": completion(answer({"sample_uid": "sn-other"})),
            "refusal": completion(None, refusal="I cannot help with that."),
            "length": completion(answer(asked)[:30], finish="length"),
        }
        return Reply(body=bodies[kind])


@pytest.mark.parametrize(
    "trouble", [Reply(429, {"error": {}}, {"Retry-After-Ms": "1"}), Drop({"a": 1}, sent=3)]
)
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
    endpoint, label, records, monkeypatch, tmp_path, trouble, reason
) -> None:
    endpoint.replies = lambda asked, before: good(asked) if before else trouble
    with monkeypatch.context() as patched:
        patched.setattr("pacer.labels.endpoint.ATTEMPTS", 1)
        audit = label(timeout=0.5, concurrency=6, unanswered="rules")
    assert (audit["answered"], audit["troubles"]) == (0, {reason: 6})
    assert cached(tmp_path) == []
    anchors, _ = build(records, tmp_path / "llm_cache.jsonl")
    assert set(anchors["origin"]) == {"rules"}
    endpoint.seen.clear()
    audit = label(concurrency=6)
    assert (audit["statuses"], audit["troubles"]) == ({"ok": 6}, {})
    assert set(endpoint.seen.values()) == {2}


def test_failed_requests_are_asked_again_and_others_are_not(
    endpoint, label, sample, tmp_path
) -> None:
    down = set(sample["record_id"][:2])
    endpoint.replies = lambda asked, _: (
        Reply(503, {}) if asked["sample_uid"] in down else good(asked)
    )
    with pytest.raises(
        PacerError, match=r"2 of 6 requests got no answer.*HTTP 503.*rerun the stage"
    ):
        label()
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
    endpoint.replies = lambda asked, _: Reply(
        status, {"error": {"message": asked["report"]}}, headers
    )
    with pytest.raises(
        PacerError, match=rf"6 of 6 requests got no answer.*: HTTP {status}"
    ) as raised:
        label()
    assert not any(report[:10] in str(raised.value) for report in REPORTS)
    assert set(endpoint.seen.values()) == {1}
    endpoint.replies = good
    assert label()["statuses"] == {"ok": 6}


def test_nothing_more_is_asked_once_an_answer_cannot_be_stored(
    endpoint, label, sample, monkeypatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    def replies(asked: dict[str, Any], _: int) -> Reply:
        monkeypatch.setattr("pacer.labels.labelling.os.fsync", full)
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


ROOT = Path(__file__).parents[3]
SLOTS = 16
TEXTS = yaml_beside(__file__, "troubles.yaml")
#: What labels the sample in a folder, and the status of an answer of each kind that the server
#: gives.
SCRIPT, STATUS = TEXTS["script"], TEXTS["status"]


class Work:
    """Records, their sample, and processes that label it."""

    def __init__(self, folder: Path, count: int, config: Labelling):
        self.folder, self.cache, self.output = folder, folder / "llm_cache.jsonl", ""
        folder.mkdir(exist_ok=True)
        rows = [
            record(context, str(n), "train", f"{REPORTS[n % len(REPORTS)]} Image {n}.")
            for context in ("sn", "sw", "mn", "mw")
            for n in range(count // 4)
        ]
        self.records = pl.DataFrame(rows, schema=RECORD_SCHEMA)
        self.records.write_parquet(folder / "records.parquet")
        sample = self.records.select("record_id", "context", pl.lit(["negation"]).alias("strata"))
        sample.write_parquet(folder / "sample.parquet")
        write_json(folder / "config.json", config.model_dump())

    def label(self, kill_when: Callable[[], bool] = lambda: False) -> int:
        """The exit code of a process that labels; it is killed as soon as the condition holds."""
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "OPENAI_LOG": "debug",
            "PYTHONWARNINGS": "error",
        }
        command = [sys.executable, "-c", SCRIPT, str(self.folder)]
        log = self.folder / "log.txt"
        with open(log, "w") as file:
            process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=file, stderr=file)
            while process.poll() is None:
                if kill_when():
                    process.kill()
                    break
                time.sleep(0.005)
            process.wait(PATIENCE)
        self.output += log.read_text()
        return process.returncode


def test_requests_killed_twice(
    endpoint: Endpoint, asking: Callable[..., Labelling], tmp_path: Path
) -> None:
    endpoint.keep = False
    world = endpoint.replies = Misbehaviour(seed=7, hang=3.0, stuck={"mw-99"})
    work = Work(tmp_path, 400, asking(concurrency=SLOTS, timeout=2.0))
    for count in (120, 250):
        assert work.label(lambda count=count: endpoint.paid.total() >= count) == -9
        work.cache.write_bytes(work.cache.read_bytes()[:-9])  # the last line is torn
    assert 250 <= endpoint.paid.total() < 400
    assert work.label() == 1, "the stuck request fails this time"
    assert "rerun the stage for the rest" in work.output
    assert work.label() == 0

    lines, audit = cached(tmp_path), read_json(tmp_path / "audit.json")
    assert len({line["request_hash"] for line in lines}) == len(lines) == 400 == audit["answered"]
    expected = {record: STATUS[world.kind(record)] for record in work.records["record_id"]}
    assert {line["record_id"]: line["status"] for line in lines} == expected
    assert set(audit["statuses"]) == set(STATUS.values())
    assert ", for example " in work.output  # the stuck record and those that first got a page
    anchors, _ = build(work.records, work.cache)
    assert Counter(anchors["origin"]) == {
        "llm": audit["statuses"]["ok"],
        "rules": 400 - audit["statuses"]["ok"],
    }
    # nothing is paid twice but what was under way at a kill, and the answer whose line was torn
    assert set(endpoint.paid) == {line["request_hash"] for line in lines}
    assert endpoint.paid.total() - len(endpoint.paid) <= 2 * (SLOTS + 1)
    files = "".join(path.read_text() for path in tmp_path.glob("*.json*"))
    assert KEY not in files + work.output and "Traceback" not in work.output
    assert "Image" not in files + work.output
    seen = endpoint.seen.total()
    assert work.label() == 0
    assert endpoint.seen.total() == seen
