"""One commitment explained: what the rules read, beside the evidence; nothing of the report is interpreted."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from pacer.cli import app
from pacer.commitments.anchor import Anchor
from pacer.commitments.rules.extract import extract_anchor
from pacer.commitments.targets import build_anchors
from pacer.core.errors import DataError
from pacer.core.io import write_jsonl
from pacer.data.schemas import RECORD_SCHEMA, write_table
from pacer.reporting.explanation import explain
from tests.support.labelling import cache_line
from tests.support.made_records import few_records

REPORT = "Possible edema. No pneumothorax <script>. Small pneumothorax."


def raw_answer(positive: list[str]) -> str:
    evidence = {"edema": ["possible EDEMA", "wet <b>lungs</b>"]}
    return json.dumps({"positive": positive, "negative": [], "uncertain": [], "rationale": evidence})


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path, Path]:
    """Records, commitments and answers where the pipeline has them, below the working directory."""
    monkeypatch.chdir(tmp_path)
    corpus, anchors = Path("data/corpus/records.parquet"), Path("data/anchors/anchors.parquet")
    answers, records = anchors.with_name("llm_cache.jsonl"), few_records(".jpg").with_columns(report_raw=pl.lit(REPORT))
    write_table(corpus, records, RECORD_SCHEMA)
    train = records.filter(pl.col("split") == "train")["record_id"][0]
    raw = raw_answer(["edema"])
    write_jsonl(answers, [cache_line(train, raw.replace("wet", "older"), current=False), cache_line(train, raw)])
    build_anchors(corpus, answers, anchors)
    return corpus, anchors, answers


def test_a_labelled_record_stands_beside_the_rules_and_the_labelling_models_evidence(tables) -> None:
    labelled, ruled = (pl.read_parquet(tables[1]).filter(origin=origin)["record_id"][0] for origin in ("llm", "rules"))
    found = explain(labelled, *tables)
    assert (found.origin, found.anchor) == ("llm", Anchor(positive=("edema",)))
    assert found.by_rules == extract_anchor(REPORT)
    absent = "not in the report in these words"
    assert found.evidence == [("edema", "possible EDEMA", ""), ("edema", "wet <b>lungs</b>", absent)]
    assert found.read == [
        ("edema", "edema", "uncertain", "Possible", "yes"),
        ("pneumothorax", "pneumothorax", "negative", "No", ""),
        ("pneumothorax", "pneumothorax", "positive", "", "yes"),
    ]
    shown, other = (
        CliRunner().invoke(app, ["anchors", "show", record], env={"COLUMNS": "200"}).output
        for record in (labelled, ruled)
    )
    for words in (
        REPORT,
        "made by the labelling model",
        "the rules alone would say: ",
        "what the labelling model gives as evidence",
        "wet <b>lungs</b>",
        "what the rules read",
        "positive, uncertain, negative, bold: decides, underlined: because of it",
    ):
        assert words in shown, words
    assert "the same" not in shown and "older" not in shown
    assert "the rules alone would say" not in other and REPORT in other
    # the cache was labelled anew, and the anchors were not made again: its evidence is not that of this commitment
    same = extract_anchor(REPORT).as_dict() | {"rationale": {"edema": ["edema"]}}
    write_jsonl(tables[2], [cache_line(labelled, raw_answer([])), cache_line(ruled, json.dumps(same))])
    assert [explain(record, *tables).evidence for record in (labelled, ruled)] == [[], []]


def test_what_is_not_there_is_named(tables, tmp_path: Path) -> None:
    corpus, anchors, answers = tables
    first = pl.read_parquet(corpus)["record_id"][0]
    with pytest.raises(DataError, match=f"has no record nobody; ids look like {first}"):
        explain("nobody", corpus, anchors, answers)
    pl.read_parquet(anchors).filter(pl.col("record_id") != first).write_parquet(tmp_path / "fewer.parquet")
    with pytest.raises(DataError, match="has no anchor for record"):
        explain(first, corpus, tmp_path / "fewer.parquet", answers)
    with pytest.raises(DataError, match=r"missing\.parquet does not exist; correct the path"):
        explain(first, corpus, tmp_path / "missing.parquet", answers)
