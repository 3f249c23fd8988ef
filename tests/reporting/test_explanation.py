"""One commitment explained: the marks lie where the rules read, and nothing of the report is lost or interpreted."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest
from click.testing import Result
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from pacer.anchors.anchor import Anchor
from pacer.cli import app
from pacer.core.errors import DataError
from pacer.core.io import write_jsonl
from pacer.labelling.targets.build_anchors import build_anchors
from pacer.records.schemas import RECORD_SCHEMA, write_table
from pacer.reporting.explanation import explain, mark
from pacer.rules.extract import extract_anchor, find_mentions
from tests.made_records import few_records

WORDS = (
    "no",
    "possible",
    "edema",
    "effusions",
    "or",
    "pneumothorax",
    "is",
    "not seen",
    ".",
    ";",
    "<b>",
    "heart size",
    "normal",
    "cannot be excluded",
    "free of",
    "lung nodule",
    "hydropneumothorax",
    "\n",
    "unchanged",
)


@pytest.fixture
def tables(tmp_path: Path) -> tuple[Path, Path]:
    records = few_records(".jpg")
    texts = ["Possible edema. No pneumothorax <script>.", "The lungs are clear."]
    records = records.with_columns(report_raw=pl.Series([texts[i % 2] for i in range(len(records))]))
    write_table(tmp_path / "records.parquet", records, RECORD_SCHEMA)
    train = records.filter(pl.col("split") == "train")["record_id"][0]
    lists = {"positive": ["edema"], "negative": [], "uncertain": []}
    raw = json.dumps(lists | {"rationale": {"edema": ["possible EDEMA", "wet <b>lungs</b>"]}})
    old = {"record_id": train, "raw": raw.replace("wet", "older"), "current": False}
    write_jsonl(tmp_path / "cache.jsonl", [old, {"record_id": train, "raw": raw, "current": True}])
    build_anchors(tmp_path / "records.parquet", tmp_path / "cache.jsonl", tmp_path / "anchors.parquet")
    return tmp_path / "records.parquet", tmp_path / "anchors.parquet"


@given(st.lists(st.sampled_from(WORDS), max_size=14))
def test_runs_are_the_report_and_carry_what_decided(words: list[str]) -> None:
    report = " ".join(words)
    mentions = find_mentions(report)
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
    anchor = extract_anchor(report)
    assert decided == {finding: anchor.polarity(finding) for finding in decided}
    assert len(decided) == sum(len(field) for field in anchor.as_dict().values())


def test_a_labelled_record_shows_what_the_rules_would_say(tables: tuple[Path, Path]) -> None:
    table = pl.read_parquet(tables[1])
    labelled = table.filter(pl.col("origin") == "llm")["record_id"][0]
    found = explain(labelled, *tables)
    assert (found.origin, found.anchor) == ("llm", Anchor(positive=("edema",)))
    assert found.by_rules == extract_anchor(pl.read_parquet(tables[0]).filter(record_id=labelled)["report_raw"][0])
    page = page_of(labelled, tables, tables[0].parent / "none.jsonl")
    assert "the labelling model" in page and "the rules alone would say:" in page and "the same" not in page
    assert "<script" not in page and "http" not in page
    if found.read.rows[0][0] != "no finding is named":
        assert "&lt;script&gt;" in page


def test_the_page_marks_by_polarity(tables: tuple[Path, Path]) -> None:
    records = pl.read_parquet(tables[0])
    record = records.filter(pl.col("report_raw").str.contains("Possible"))["record_id"][-1]
    page = page_of(record, tables, tables[0].parent / "none.jsonl")
    styles = dict(re.findall(r'<span style="([^"]*)">(edema|pneumothorax|Possible)</span>', page.split("what the")[0]))
    words = {word: style for style, word in styles.items()}
    assert all("font-weight: bold" in words[word] and "color: " in words[word] for word in ("edema", "pneumothorax"))
    assert words["edema"] != words["pneumothorax"] and "underline" in words["Possible"]


def test_what_is_not_there_is_named(tables: tuple[Path, Path], tmp_path: Path) -> None:
    first = pl.read_parquet(tables[0])["record_id"][0]
    with pytest.raises(DataError, match=f"has no record nobody; ids look like {first}"):
        explain("nobody", *tables)
    pl.read_parquet(tables[1]).filter(pl.col("record_id") != first).write_parquet(tmp_path / "fewer.parquet")
    with pytest.raises(DataError, match="has no anchor for record"):
        explain(first, tables[0], tmp_path / "fewer.parquet")


def test_the_command_prints_and_writes(tables: tuple[Path, Path], tmp_path: Path) -> None:
    record = pl.read_parquet(tables[0])["record_id"][0]
    result = CliRunner().invoke(
        app,
        [
            "anchors",
            "show",
            record,
            "--records",
            str(tables[0]),
            "--anchors",
            str(tables[1]),
            "--html",
            str(tmp_path / "page.html"),
        ],
    )
    assert result.exit_code == 0, result.output
    page = (tmp_path / "page.html").read_text()
    assert record in result.output and record in page and page.startswith("<!DOCTYPE html>")


def labelled_of(tables: tuple[Path, Path]) -> str:
    return pl.read_parquet(tables[1]).filter(pl.col("origin") == "llm")["record_id"][0]


def show(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["anchors", "show", *map(str, arguments)], env={"COLUMNS": "200"})


def options(tables: tuple[Path, Path], answers: Path) -> list[object]:
    return ["--records", tables[0], "--anchors", tables[1], "--answers", answers]


def page_of(record: str, tables: tuple[Path, Path], answers: Path) -> str:
    page = tables[0].parent / "page.html"
    assert show(record, *options(tables, answers), "--html", page).exit_code == 0
    return page.read_text()


def test_the_labelling_models_own_evidence_is_shown(tables: tuple[Path, Path], tmp_path: Path) -> None:
    labelled, answers = labelled_of(tables), tmp_path / "cache.jsonl"
    found = explain(labelled, *tables, answers)
    report = pl.read_parquet(tables[0]).filter(record_id=labelled)["report_raw"][0]
    absent = "not in the report in these words"
    assert found.evidence.rows == (
        ("edema", "possible EDEMA", "" if "Possible edema" in report else absent),
        ("edema", "wet <b>lungs</b>", absent),
    )
    page = page_of(labelled, tables, answers)
    assert "what the labelling model gives as evidence" in page
    assert "wet &lt;b&gt;lungs" in page and "older" not in page and "the rules alone would say" in page
    shown = show(labelled, *options(tables, answers)).output
    assert "wet <b>lungs</b>" in shown and "not in the report in these words" in shown
    assert "what the rules read" in shown
    assert explain(labelled, *tables, tmp_path / "none.jsonl").evidence.rows == ()
    other = pl.read_parquet(tables[1]).filter(pl.col("origin") == "rules")["record_id"][0]
    assert explain(other, *tables, answers).evidence.rows == ()


def test_evidence_of_another_answer_is_not_shown(tables: tuple[Path, Path], tmp_path: Path) -> None:
    """The cache was labelled anew, and the anchors were not made again."""
    labelled, answers = labelled_of(tables), tmp_path / "cache.jsonl"
    answers.write_text(answers.read_text().replace('\\"positive\\": [\\"edema\\"]', '\\"positive\\": []'))
    assert explain(labelled, *tables, answers).evidence.rows == ()


def test_agreement_with_the_rules_is_said(tables: tuple[Path, Path], tmp_path: Path) -> None:
    labelled = labelled_of(tables)
    table = pl.read_parquet(tables[1])
    other = table.filter(pl.col("origin") == "rules")["record_id"][0]
    by_rules = extract_anchor(pl.read_parquet(tables[0]).filter(record_id=labelled)["report_raw"][0])
    write_jsonl(tmp_path / "cache.jsonl", [{"record_id": labelled, "raw": json.dumps(by_rules.as_dict())}])
    build_anchors(tables[0], tmp_path / "cache.jsonl", tables[1])
    assert "the rules alone would say: the same" in show(labelled, *options(tables, tmp_path / "no")).output
    assert "rules alone" not in show(other, *options(tables, tmp_path / "no")).output


def test_colours_have_a_legend(tables: tuple[Path, Path]) -> None:
    shown = show(labelled_of(tables), *options(tables, tables[0])[:4]).output
    assert "positive, uncertain, negative, bold: decides, underlined: because of it" in shown


def test_every_colour_of_the_page_can_be_read_on_white(tables: tuple[Path, Path], tmp_path: Path) -> None:
    """WCAG's contrast of 4.5 to 1."""
    page = page_of(labelled_of(tables), tables, tmp_path / "cache.jsonl")
    colours = set(re.findall(r"color: #([0-9a-f]{6})", page.split("<pre", 1)[1]))
    assert len(colours) > 1
    for colour in colours:
        shares = [int(colour[place : place + 2], 16) / 255 for place in (0, 2, 4)]
        red, green, blue = (share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares)
        assert 1.05 / (0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05) >= 4.5, colour


def test_files_that_are_none_are_named(tables: tuple[Path, Path], tmp_path: Path) -> None:
    first = pl.read_parquet(tables[0])["record_id"][0]
    (tmp_path / "text").write_text("no table")
    missing, text = tmp_path / "missing.parquet", tmp_path / "text"
    for records, anchors, message in (
        (missing, tables[1], "missing.parquet does not exist; run the stage"),
        (tables[0], missing, "missing.parquet does not exist; run the stage"),
        (text, tables[1], "text is not a readable Parquet file"),
        (tables[0], text, "text is not a readable Parquet file"),
        (tmp_path, tables[1], "does not exist; run the stage"),
        (tables[0], tmp_path, "does not exist; run the stage"),
    ):
        with pytest.raises(DataError, match=message):
            explain(first, records, anchors)
    result = show(first, *options(tables, missing), "--html", tmp_path)
    assert isinstance(result.exception, DataError) and "is a folder; name a file" in str(result.exception)
