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
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Records and commitments where the pipeline has them, below the working directory."""
    monkeypatch.chdir(tmp_path)
    corpus, anchors = Path("data/corpus/records.parquet"), Path("data/anchors/anchors.parquet")
    records = few_records(".jpg")
    texts = ["Possible edema. No pneumothorax <script>.", "The lungs are clear."]
    records = records.with_columns(report_raw=pl.Series([texts[i % 2] for i in range(len(records))]))
    write_table(corpus, records, RECORD_SCHEMA)
    train = records.filter(pl.col("split") == "train")["record_id"][0]
    lists = {"positive": ["edema"], "negative": [], "uncertain": []}
    raw = json.dumps(lists | {"rationale": {"edema": ["possible EDEMA", "wet <b>lungs</b>"]}})
    old = cache_line(train, raw.replace("wet", "older"), current=False)
    write_jsonl(answers_of((corpus, anchors)), [old, cache_line(train, raw)])
    build_anchors(corpus, answers_of((corpus, anchors)), anchors)
    return corpus, anchors


def labelled_of(tables: tuple[Path, Path]) -> str:
    return pl.read_parquet(tables[1]).filter(pl.col("origin") == "llm")["record_id"][0]


def answers_of(tables: tuple[Path, Path]) -> Path:
    return tables[1].with_name("llm_cache.jsonl")


def show(record: str) -> str:
    result = CliRunner().invoke(app, ["anchors", "show", record], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.output


def test_a_labelled_record_stands_beside_the_rules_and_the_labelling_models_evidence(tables: tuple[Path, Path]) -> None:
    labelled, answers = labelled_of(tables), answers_of(tables)
    found = explain(labelled, *tables, answers)
    report = pl.read_parquet(tables[0]).filter(record_id=labelled)["report_raw"][0]
    assert (found.origin, found.anchor) == ("llm", Anchor(positive=("edema",)))
    assert found.by_rules == extract_anchor(report)
    absent = "not in the report in these words"
    assert found.evidence.rows == (
        ("edema", "possible EDEMA", "" if "Possible edema" in report else absent),
        ("edema", "wet <b>lungs</b>", absent),
    )
    shown = show(labelled)
    for words in (
        "made by the labelling model",
        "the rules alone would say: ",
        "what the labelling model gives as evidence",
        "wet <b>lungs</b>",
        "what the rules read",
        "positive, uncertain, negative, bold: decides, underlined: because of it",
    ):
        assert words in shown, words
    assert "the same" not in shown and "older" not in shown
    assert report in shown
    other = pl.read_parquet(tables[1]).filter(pl.col("origin") == "rules")["record_id"][0]
    assert explain(other, *tables, answers).evidence.rows == ()
    assert "the rules alone would say" not in show(other)


def test_evidence_of_another_answer_is_not_shown(tables: tuple[Path, Path]) -> None:
    """The cache was labelled anew, and the anchors were not made again."""
    labelled, answers = labelled_of(tables), answers_of(tables)
    answers.write_text(answers.read_text().replace('\\"positive\\": [\\"edema\\"]', '\\"positive\\": []'))
    assert explain(labelled, *tables, answers).evidence.rows == ()


def test_what_is_not_there_is_named(tables: tuple[Path, Path], tmp_path: Path) -> None:
    first = pl.read_parquet(tables[0])["record_id"][0]
    with pytest.raises(DataError, match=f"has no record nobody; ids look like {first}"):
        explain("nobody", *tables)
    pl.read_parquet(tables[1]).filter(pl.col("record_id") != first).write_parquet(tmp_path / "fewer.parquet")
    with pytest.raises(DataError, match="has no anchor for record"):
        explain(first, tables[0], tmp_path / "fewer.parquet")
    with pytest.raises(DataError, match=r"missing\.parquet does not exist; correct the path"):
        explain(first, tables[0], tmp_path / "missing.parquet")
