"""Records and labelling settings for the tests of anchors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from pacer.core.config import Labelling
from pacer.corpus.records import RECORD_SCHEMA

REPORTS = (
    "Possible pneumonia. No effusion.",
    "Right PICC. Heart size is normal.",
    "Unchanged small left effusion.",
    "Lungs clear.",
)


@pytest.fixture
def records() -> pl.DataFrame:
    """40 training records of sn and 12 of mw, and four each in val and test; all studies and subjects differ."""
    rows = []
    for context, split, count in (("sn", "train", 40), ("mw", "train", 12), ("sn", "val", 4), ("sn", "test", 4)):
        for number in range(count):
            name = f"{split}{number}{context}"
            rows.append({
                "record_id": f"{context}-{name}", "context": context, "split": split, "study_id": f"study-{name}",
                "subject_id": f"subject-{name}", "report_raw": REPORTS[number % len(REPORTS)],
            })  # fmt: skip
    return pl.DataFrame(rows, schema=RECORD_SCHEMA)


@pytest.fixture
def labelling() -> Callable[..., Labelling]:
    def make(**changes: Any) -> Labelling:
        settings: dict[str, Any] = {
            "provider": "none", "recorded": None, "model": "gpt-4.1-mini", "base_url": None, "temperature": 0.0,
            "max_tokens": 600, "concurrency": 2, "send_reports_to": None, "prompt_file": None,
        }  # fmt: skip
        return Labelling.model_validate(settings | changes)

    return make
