"""Hundreds of requests to an endpoint that misbehaves, with the process killed in the middle.

Real processes, real kills (SIGKILL). Every record ends labelled or with the rules, none is lost, and none is paid twice
but for what was under way at a kill.
"""

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import polars as pl
from ruamel.yaml import YAML

from pacer.config import Labelling
from pacer.core.io import read_json, write_json
from pacer.data.schemas import RECORD_SCHEMA
from tests.support.endpoint import Endpoint, Misbehaviour
from tests.support.labelling import KEY, REPORTS, build, cached, record

ROOT = Path(__file__).parents[3]
SLOTS = 16
TEXTS = YAML(typ="safe").load(Path(__file__).with_name("kills.yaml"))
#: What labels the sample in a folder, and the status of an answer of each kind that the server gives.
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
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENAI_LOG": "debug", "PYTHONWARNINGS": "error"}
        command = [sys.executable, "-c", SCRIPT, str(self.folder)]
        log = self.folder / "log.txt"
        with open(log, "w") as file:
            process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=file, stderr=file)
            while process.poll() is None:
                if kill_when():
                    process.kill()
                    break
                time.sleep(0.005)
            process.wait(30)
        self.output += log.read_text()
        return process.returncode


def test_requests_killed_twice(endpoint: Endpoint, asking: Callable[..., Labelling], tmp_path: Path) -> None:
    endpoint.keep = False
    world = endpoint.replies = Misbehaviour(seed=7, hang=3.0, stuck={"mw-99"})
    work = Work(tmp_path, 400, asking(concurrency=SLOTS, timeout=2.0, attempts=6))
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
    assert Counter(anchors["origin"]) == {"llm": audit["statuses"]["ok"], "rules": 400 - audit["statuses"]["ok"]}
    # nothing is paid twice but what was under way at a kill, and the answer whose line was torn
    assert set(endpoint.paid) == {line["request_hash"] for line in lines}
    assert endpoint.paid.total() - len(endpoint.paid) <= 2 * (SLOTS + 1)
    files = "".join(path.read_text() for path in tmp_path.glob("*.json*"))
    assert KEY not in files + work.output and "Traceback" not in work.output
    assert "Image" not in files + work.output
    seen = endpoint.seen.total()
    assert work.label() == 0
    assert endpoint.seen.total() == seen
