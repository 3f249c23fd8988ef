"""One commitment explained: the marks lie where the rules read, and nothing of the report is lost or interpreted."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from pacer.anchors.anchor import Anchor
from pacer.anchors.build import build_anchors
from pacer.anchors.rules import VERSIONS, Version, extract_anchor, find_mentions
from pacer.cli import app
from pacer.core.errors import DataError
from pacer.core.io import write_jsonl
from pacer.corpus.records import RECORD_SCHEMA, write_table
from pacer.reporting.explanation import explain, explanation_page, mark
from tests.records import few_records

WORDS = ("no", "possible", "edema", "effusions", "or", "pneumothorax", "is", "not seen", ".", ";", "<b>", "heart size",
         "normal", "cannot be excluded", "free of", "lung nodule", "hydropneumothorax", "\n", "unchanged")


@pytest.fixture
def tables(tmp_path: Path) -> tuple[Path, Path]:
    records = few_records(".jpg")
    texts = ["Possible edema. No pneumothorax <script>.", "The lungs are clear."]
    records = records.with_columns(report_raw=pl.Series([texts[i % 2] for i in range(len(records))]))
    write_table(tmp_path / "records.parquet", records, RECORD_SCHEMA)
    train = records.filter(pl.col("split") == "train")["record_id"][0]
    answer = {"record_id": train, "raw": '{"positive": ["edema"], "negative": [], "uncertain": []}', "current": True}
    write_jsonl(tmp_path / "cache.jsonl", [answer])
    build_anchors(tmp_path / "records.parquet", tmp_path / "cache.jsonl", tmp_path / "anchors.parquet", "scoped")
    return tmp_path / "records.parquet", tmp_path / "anchors.parquet"


@given(st.lists(st.sampled_from(WORDS), max_size=14), st.sampled_from(VERSIONS))
def test_runs_are_the_report_and_carry_what_decided(words: list[str], version: Version) -> None:
    report = " ".join(words)
    mentions = find_mentions(report, version)
    runs = mark(report, mentions)
    assert "".join(run.text for run in runs) == report
    place, decided = 0, {}
    for run in runs:
        named = [m for m in mentions if m.start <= place and place + len(run.text) <= m.end] if run.text else []
        assert bool(run.polarity) == bool(named)
        for mention in named:
            if mention.decided:
                assert run.decided
                decided[mention.finding] = mention.polarity
        place += len(run.text)
    anchor = extract_anchor(report, version)
    assert decided == {finding: anchor.polarity(finding) for finding in decided}
    assert len(decided) == sum(len(field) for field in anchor.as_dict().values())


def test_a_labelled_record_shows_what_the_rules_would_say(tables: tuple[Path, Path]) -> None:
    table = pl.read_parquet(tables[1])
    labelled = table.filter(pl.col("origin") == "llm")["record_id"][0]
    found = explain(labelled, *tables)
    assert (found.origin, found.anchor) == ("llm", Anchor(positive=("edema",)))
    assert found.by_rules == extract_anchor(pl.read_parquet(tables[0]).filter(record_id=labelled)["report_raw"][0],
                                            "scoped")
    page = explanation_page(found)
    assert "the labelling model" in page and "The rules would say" in page
    assert "<script" not in page and "http" not in page
    if found.mentions:
        assert "&lt;script&gt;" in page


def test_the_page_marks_by_polarity(tables: tuple[Path, Path]) -> None:
    records = pl.read_parquet(tables[0])
    record = records.filter(pl.col("report_raw").str.contains("Possible"))["record_id"][-1]
    page = explanation_page(explain(record, *tables))
    assert re.search(r'<mark class="uncertain decided" title="edema: uncertain">edema</mark>', page)
    assert re.search(r'<mark class="negative decided" title="pneumothorax: negative">pneumothorax</mark>', page)
    assert '<span class="cue">Possible</span>' in page


def test_what_is_not_there_is_named(tables: tuple[Path, Path], tmp_path: Path) -> None:
    first = pl.read_parquet(tables[0])["record_id"][0]
    with pytest.raises(DataError, match=f"has no record nobody; ids look like {first}"):
        explain("nobody", *tables)
    pl.read_parquet(tables[1]).filter(pl.col("record_id") != first).write_parquet(tmp_path / "fewer.parquet")
    with pytest.raises(DataError, match="does not say which rules made it"):
        explain(first, tables[0], tmp_path / "fewer.parquet")


def test_the_command_prints_and_writes(tables: tuple[Path, Path], tmp_path: Path) -> None:
    record = pl.read_parquet(tables[0])["record_id"][0]
    result = CliRunner().invoke(app, ["anchors", "show", record, "--records", str(tables[0]), "--anchors",
                                      str(tables[1]), "--html", str(tmp_path / "page.html")])
    assert result.exit_code == 0, result.output
    assert record in result.output and (tmp_path / "page.html").read_text().startswith("<!doctype html>")
