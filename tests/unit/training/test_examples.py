"""What is counted before a phase starts."""

from __future__ import annotations

import polars as pl

from pacer.model.assemble import load_tokenizer
from pacer.training.examples import Examples
from tests.support.models import specification
from tests.support.training import record_table


def test_what_targets_lose_is_counted(records: pl.DataFrame, backbones, features) -> None:
    rows = records.filter(pl.col("context") == "sn").to_dicts()
    rows[0]["report"] = "no effusion . " * 60  # beyond 100 tokens
    rows[4]["emphasis"] = None
    rows[5]["emphasis"] = [1.0, 0.0]  # of BOS, which no loss counts
    rows[6]["emphasis"] = [7.0]  # a record of val
    table = record_table(pl.DataFrame(rows, schema=records.schema))
    found = Examples(table, load_tokenizer(backbones), features, specification("warmup")).statistics()[0]
    assert found == {"targets/reports": 6.0, "targets/cut": 1.0, "targets/emphasised": 4.0}


def test_marks_beyond_the_cut_emphasise_nothing(records: pl.DataFrame, backbones, features) -> None:
    rows = records.filter(context="sn", split="train").to_dicts()
    rows[0] |= {"report": "no effusion . " * 60, "emphasis": [0.0] * 100 + [1.0]}
    rows[1] |= {"report": "no effusion . " * 60, "emphasis": [0.0] * 99 + [1.0]}  # of the last token that is kept
    table = record_table(pl.DataFrame(rows[:2], schema=records.schema))
    counts = Examples(table, load_tokenizer(backbones), features, specification("warmup")).statistics()[0]
    assert counts == {"targets/reports": 2.0, "targets/cut": 2.0, "targets/emphasised": 1.0}
