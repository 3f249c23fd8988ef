"""Records and labelling settings for the tests of commitments."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pacer.config import Labelling
from pacer.core.anchor import ANCHOR_SCHEMA, DESCRIBED
from pacer.core.io import write_jsonl
from pacer.core.schemas import RECORD_SCHEMA, read_table
from pacer.labels.labelling import label_sample
from pacer.labels.sampling import sample_records
from pacer.labels.targets import build_commitments
from tests.support.endpoint import Endpoint
from tests.support.profiles import profile

REPORTS = (
    "Possible pneumonia. No effusion.",
    "Right PICC. Heart size is normal.",
    "Unchanged small left effusion.",
    "Lungs clear.",
)


def record(context: str, name: str, split: str, report: str) -> dict[str, str]:
    """What the labelling reads of a record, of a study and a subject of their own."""
    ids = {
        "record_id": f"{context}-{name}",
        "study_id": f"study-{name}",
        "subject_id": f"subject-{name}",
    }
    return ids | {"context": context, "split": split, "report_raw": report}


@pytest.fixture
def records() -> pl.DataFrame:
    """40 training records of sn and 12 of mw, and four each in val and test; all studies and
    subjects differ."""
    counts = {("sn", "train"): 40, ("mw", "train"): 12, ("sn", "val"): 4, ("sn", "test"): 4}
    rows = [
        record(context, f"{split}{number}{context}", split, REPORTS[number % len(REPORTS)])
        for (context, split), count in counts.items()
        for number in range(count)
    ]
    return pl.DataFrame(rows, schema=RECORD_SCHEMA)


@pytest.fixture
def labelling() -> Callable[..., Labelling]:
    def make(**changes: Any) -> Labelling:
        given = {"provider": "none", "recorded": None, "concurrency": 2, "timeout": 20.0}
        return Labelling.model_validate(
            profile("phantom").anchors.llm.model_dump() | given | changes
        )

    return make


@pytest.fixture
def sample(records: pl.DataFrame) -> pl.DataFrame:
    """Three records of each context."""
    return sample_records(records, 3, seed=1)


#: The API key of all tests; it must turn up nowhere.
KEY = "sk-a-key-that-nobody-may-see"


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.001)
    # the server speaks plain HTTP, and reading the system's certificates takes longer than most
    # tests
    monkeypatch.setattr("ssl.SSLContext.load_verify_locations", lambda *_, **__: None)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    server = Endpoint()
    yield server
    server.close()


@pytest.fixture
def asking(endpoint: Endpoint, labelling: Callable[..., Labelling]) -> Callable[..., Labelling]:
    """Settings that ask the loopback server."""

    def make(**changes: Any) -> Labelling:
        return labelling(
            provider="openai", base_url=endpoint.url, send_reports_to="127.0.0.1", **changes
        )

    return make


@pytest.fixture
def label(
    records: pl.DataFrame, sample: pl.DataFrame, asking: Callable[..., Labelling], tmp_path: Path
) -> Callable[..., dict[str, Any]]:
    """The audit of a labelling of the sample, or of another, at the loopback server, or as
    ``config`` says."""

    def make(
        of: pl.DataFrame = sample,
        records: pl.DataFrame = records,
        config: Labelling | None = None,
        rules: str = "careful",
        **changes: Any,
    ):
        return label_sample(of, records, config or asking(**changes), tmp_path, rules)

    return make


def build(
    records: pl.DataFrame, cache: Path, lines: list[dict] | None = None, sides: bool = False
) -> tuple[pl.DataFrame, dict[str, Any]]:
    """The commitments and their audit, by way of files in several row groups; ``lines``: what
    to write to the cache."""
    if lines is not None:
        write_jsonl(cache, lines)
    table, out = cache.with_name("records.parquet"), cache.with_name("anchors.parquet")
    records.write_parquet(table, row_group_size=7)
    audit = build_commitments(table, cache, out, sides=sides)
    return read_table(out, ANCHOR_SCHEMA, optional=DESCRIBED), audit


def cached(out: Path) -> list[dict[str, Any]]:
    """The lines of a cache."""
    return [json.loads(line) for line in (out / "llm_cache.jsonl").read_text().splitlines()]
