"""Comparison wording in Open-I's reports."""

from __future__ import annotations

import gzip
import json

from pacer.data.cleaning import CLEANERS
from pacer.data.wording import compares_with_prior
from tests.support.real import real


def test_real_reports() -> None:
    """Open-I: more than every fourth report compares; of those whose comparison field says that there is no earlier
    study, almost none does."""
    with gzip.open(real("openi/reports.jsonl.gz"), "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    texts = [f"{row['findings'] or ''} {row['impression'] or ''}" for row in rows]
    found = [compares_with_prior(text) for text in texts]
    without = [
        hit
        for row, hit in zip(rows, found)
        if (row["comparison"] or "").lower().strip(" .") in ("none", "none available")
    ]
    assert 0.26 < sum(found) / len(found) < 0.30
    assert len(without) > 1500 and sum(without) / len(without) < 0.025
    for clean in CLEANERS.values():
        same = sum(compares_with_prior(clean(text)) == hit for text, hit in zip(texts, found))
        assert same / len(texts) > 0.995
