"""Llama's tokenizer against sentencepiece on Open-I's reports."""

from __future__ import annotations

import gzip
import json

from pacer.data.cleaning import clean_report
from tests.support.real import real
from tests.unit.backbones.test_tokenizer import both, ids, vicuna

__all__ = ["both", "vicuna"]

SECTIONS = ("indication", "findings", "impression")


def test_real_reports_with_doubled_blanks(both) -> None:
    tokenizer, reference = both
    with gzip.open(real("openi/reports.jsonl.gz"), "rt") as lines:
        reports = [" ".join(filter(None, map(json.loads(line).get, SECTIONS))) for line in lines]
    # as they are, as upstream cleans them, and with the blanks that removed marks of de-identification leave
    texts = {t.strip() for r in reports for t in (r, clean_report(r), r.replace("XXXX", "")) if "  " in t.strip()}
    assert len(texts) > 1000
    for text in texts:
        assert ids(tokenizer, text) == reference.encode(text)
