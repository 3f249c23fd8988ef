"""A labelling of many records by processes that a test can kill, against an endpoint that misbehaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from pacer.config import Labelling
from pacer.core.io import read_json, write_json
from pacer.data.schemas import RECORD_SCHEMA
from tests.support.endpoint import Endpoint, Misbehaviour
from tests.support.labelling import KEY, REPORTS, build, cached

ROOT = Path(__file__).parents[2]
SLOTS = 16
#: The status of an answer of each kind that the server gives.
STATUS = {
    "good": "ok",
    "foreign": "ok",
    "twice": "ok",
    "prose": "unparseable",
    "page": "unparseable",
    "no_completion": "malformed",
    "other": "other_record",
    "empty": "empty",
    "refusal": "refused",
    "length": "cut_off",
}


class Work:
    """Records, their sample, and processes that label it."""

    def __init__(self, folder: Path, endpoint: Endpoint, count: int, config: Labelling):
        self.folder, self.endpoint = folder, endpoint
        folder.mkdir(exist_ok=True)
        rows = [
            {
                "record_id": f"{context}-{n}",
                "context": context,
                "split": "train",
                "study_id": f"study-{n}",
                "subject_id": f"subject-{n}",
                "report_raw": f"{REPORTS[n % len(REPORTS)]} Image {n}.",
            }
            for context in ("sn", "sw", "mn", "mw")
            for n in range(count // 4)
        ]
        self.records = pl.DataFrame(rows, schema=RECORD_SCHEMA)
        self.records.write_parquet(folder / "records.parquet")
        sample = self.records.select("record_id", "context", pl.lit(["negation"]).alias("strata"))
        sample.write_parquet(folder / "sample.parquet")
        write_json(folder / "config.json", config.model_dump())
        self.cache = folder / "llm_cache.jsonl"
        self.output = ""

    def label(self, kill_when: Callable[[], bool] = lambda: False, number: int = signal.SIGKILL) -> int:
        """The exit code of a process that labels; it gets the signal as soon as the condition holds."""
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENAI_LOG": "debug", "PYTHONWARNINGS": "error"}
        log = self.folder / "log.txt"
        with open(log, "w") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.labelling_drive", str(self.folder)],
                cwd=ROOT,
                env=environment,
                stdout=file,
                stderr=file,
            )
            while process.poll() is None:
                if kill_when():
                    process.send_signal(number)
                    break
                time.sleep(0.005)
            process.wait(30)
        self.output += log.read_text()
        return process.returncode

    def check(self, expected: Callable[[str], str]) -> dict[str, Any]:
        """Every record is labelled or by the rules, and nothing is paid twice that is not counted."""
        audit = read_json(self.folder / "audit.json")
        lines = {line["request_hash"]: line for line in cached(self.folder)}
        by_record = {line["record_id"]: line for line in lines.values()}
        assert set(by_record) == set(self.records["record_id"]) and len(lines) == len(by_record)
        assert audit["answered"] == len(lines) and audit["unanswered"] == 0
        assert {record: line["status"] for record, line in by_record.items()} == {
            record: expected(record) for record in by_record
        }
        anchors, built = build(self.records, self.folder / "llm_cache.jsonl")
        origins = Counter(anchors["origin"])
        assert origins["llm"] == audit["statuses"]["ok"] and origins.total() == self.records.height
        assert {name: n for name, n in built["answers"]["statuses"].items() if n} == audit["statuses"]

        assert set(self.endpoint.paid) == set(lines)
        audit["twice"] = self.endpoint.paid.total() - len(self.endpoint.paid)
        files = "".join(path.read_text() for path in self.folder.glob("*.json*"))
        assert KEY not in files + self.output
        assert "Image" not in files.replace("Image 0", "") + self.output
        assert "Traceback" not in self.output
        return audit


def label_with_kills(work: Work, world: Misbehaviour, kills: Sequence[int]) -> dict[str, Any]:
    """Kill the labelling whenever that many answers were paid, tear the last line off, and finish; the audit."""
    paid = work.endpoint.paid
    for count in kills:
        assert work.label(lambda count=count: paid.total() >= count) == -9
        work.cache.write_bytes(work.cache.read_bytes()[:-9])
    assert kills[-1] <= paid.total() < work.records.height
    assert work.label() == 1, "the stuck request fails this time"
    assert "run the stage again for the rest" in work.output
    assert work.label() == 0

    audit = work.check(lambda record: STATUS[world.kind(record)])
    # nothing is paid twice but what was under way at a kill, and the answer whose line was torn
    assert audit["twice"] <= len(kills) * (SLOTS + 1)
    assert set(audit["statuses"]) == set(STATUS.values())
    assert work.endpoint.most_in_flight <= SLOTS + len(kills) * SLOTS  # the server finishes what a killed client began
    seen = work.endpoint.seen.total()
    assert work.label() == 0
    assert work.endpoint.seen.total() == seen
    return audit
