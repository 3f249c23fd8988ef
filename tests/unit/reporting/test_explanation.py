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


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path, Path]:
    """Records, commitments and answers where the pipeline has them, below the working directory."""
    monkeypatch.chdir(tmp_path)
    corpus, anchors = Path("data/corpus/records.parquet"), Path("data/anchors/anchors.parquet")
    answers, records = anchors.with_name("llm_cache.jsonl"), few_records(".jpg")
    texts = ["Possible edema. No pneumothorax <script>.", "The lungs are clear."]
    records = records.with_columns(report_raw=pl.Series([texts[i % 2] for i in range(len(records))]))
    write_table(corpus, records, RECORD_SCHEMA)
    train = records.filter(pl.col("split") == "train")["record_id"][0]
    lists = {"positive": ["edema"], "negative": [], "uncertain": []}
    raw = json.dumps(lists | {"rationale": {"edema": ["possible EDEMA", "wet <b>lungs</b>"]}})
    write_jsonl(answers, [cache_line(train, raw.replace("wet", "older"), current=False), cache_line(train, raw)])
    build_anchors(corpus, answers, anchors)
    return corpus, anchors, answers


def record_by(origin: str, tables: tuple[Path, Path, Path]) -> str:
    return pl.read_parquet(tables[1]).filter(origin=origin)["record_id"][0]


def show(record: str) -> str:
    result = CliRunner().invoke(app, ["anchors", "show", record], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.output


def test_a_labelled_record_stands_beside_the_rules_and_the_labelling_models_evidence(tables) -> None:
    labelled = record_by("llm", tables)
    found = explain(labelled, *tables)
    report = pl.read_parquet(tables[0]).filter(record_id=labelled)["report_raw"][0]
    assert (found.origin, found.anchor) == ("llm", Anchor(positive=("edema",)))
    assert found.by_rules == extract_anchor(report)
    absent = "not in the report in these words"
    assert found.evidence == [
        ("edema", "possible EDEMA", "" if "Possible edema" in report else absent),
        ("edema", "wet <b>lungs</b>", absent),
    ]
    shown = show(labelled)
    for words in (
        report,
        "made by the labelling model",
        "the rules alone would say: ",
        "what the labelling model gives as evidence",
        "wet <b>lungs</b>",
        "what the rules read",
        "positive, uncertain, negative, bold: decides, underlined: because of it",
    ):
        assert words in shown, words
    assert "the same" not in shown and "older" not in shown
    # the cache was labelled anew, and the anchors were not made again: its evidence is not that of this commitment
    answers = tables[2]
    answers.write_text(answers.read_text().replace('\\"positive\\": [\\"edema\\"]', '\\"positive\\": []'))
    assert explain(labelled, *tables).evidence == []


def test_what_the_rules_read_in_a_record_of_theirs(tables) -> None:
    text = "Possible edema. No pneumothorax <script>."
    records, anchors = pl.read_parquet(tables[0]), pl.read_parquet(tables[1]).filter(origin="rules")
    record = records.filter(pl.col("record_id").is_in(anchors["record_id"].to_list()), report_raw=text)["record_id"][0]
    found = explain(record, *tables)
    assert found.evidence == [] and "the rules alone would say" not in show(record)
    assert found.read == [
        ("edema", "edema", "uncertain", "Possible", "yes"),
        ("pneumothorax", "pneumothorax", "negative", "No", "yes"),
    ]


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
