"""The anchors of a corpus: answers where they can be read, rules elsewhere, and the audit."""

import json
from pathlib import Path

import polars as pl
import pytest

from pacer.commitments.anchor import ANCHOR_SCHEMA, DESCRIBED, POLARITIES, Anchor
from pacer.commitments.rules.extract import extract_anchor
from pacer.commitments.targets import build_anchors
from pacer.core.errors import DataError
from tests.support.labelling import build, cache_line


def line(record_id: str, raw: str | None = None, **lists: list[str]) -> dict:
    content = {"sample_uid": record_id, "positive": [], "negative": [], "uncertain": []} | lists
    return cache_line(record_id, json.dumps(content) if raw is None else raw)


def test_answers_replace_rules_where_they_can_be_read(records: pl.DataFrame, tmp_path: Path) -> None:
    lines = [
        line("sn-train0sn", positive=["Pneumonia"], negative=["pneumonia", "hernia"]),
        line("sn-train1sn", raw="no json"),
        line("mw-train0mw", uncertain=["pneumonia"], negative=["pleural effusion"]),
    ]
    anchors, audit = build(records, tmp_path / "cache.jsonl", lines)
    assert dict(anchors.schema) == ANCHOR_SCHEMA
    assert anchors["record_id"].to_list() == records["record_id"].to_list()
    rows = {row["record_id"]: row for row in anchors.iter_rows(named=True)}
    assert rows["sn-train0sn"] == {
        "record_id": "sn-train0sn",
        "positive": ["pneumonia"],
        "negative": [],
        "uncertain": [],
        "origin": "llm",
    }
    assert rows["sn-train1sn"]["positive"] == ["support devices"]
    assert rows["sn-train1sn"]["origin"] == "rules"
    assert rows["sn-test0sn"]["uncertain"] == ["pneumonia"]
    said = {line["name"]: (line["detail"], line["good"]) for line in audit["checks"]}
    assert said["Targets"] == ("60", True) and said["Empty targets"] == ("15", True)
    assert said["Targets by a labelling model"] == ("sn 1 of 48, mw 1 of 12", True)
    assert said["Labelling answers"] == ("2 ok, 1 unreadable", False)
    assert said["Labels against rules"] == ("50.0 % of 2 targets identical", True)
    json.dumps(audit, allow_nan=False)


def test_empty_cache_leaves_everything_to_the_rules(records: pl.DataFrame, tmp_path: Path) -> None:
    anchors, _ = build(records, tmp_path / "cache.jsonl", [])
    assert set(anchors["origin"]) == {"rules"}
    for text, *fields in zip(records["report_raw"], *(anchors[name] for name in POLARITIES), strict=True):
        assert extract_anchor(text) == Anchor(*(tuple(field) for field in fields))


def test_attributes_come_from_the_rules_for_every_origin(records: pl.DataFrame, tmp_path: Path) -> None:
    """Only of the chosen kinds, and of findings that the anchor does not deny; without a kind there is no column."""
    report = "Small left pleural effusion, unchanged. Right pneumonia. Left lung nodule."
    records = records.with_columns(report_raw=pl.lit(report))
    answer = line("sn-train0sn", positive=["pleural effusion"], negative=["pneumonia"])
    anchors = build(records, tmp_path / "cache.jsonl", [answer], ["side", "course"])[0]
    assert dict(anchors.schema) == ANCHOR_SCHEMA | DESCRIBED
    rows = {row["record_id"]: row["attributes"] for row in anchors.iter_rows(named=True)}
    assert rows.pop("sn-train0sn") == ["stable left pleural effusion"]
    expected = ["left lung lesion", "right pneumonia", "stable left pleural effusion"]
    assert {tuple(sorted(row)) for row in rows.values()} == {tuple(expected)}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([line("sn-test0sn")], "1 record_ids in the labelling sample also occur in val or test"),
        ([line("sn-nobody")], r"answers for records that are not in the corpus \(1\), e.g. sn-nobody"),
        ([line("sn-train0sn"), line("sn-train0sn")], "record sn-train0sn has two answers"),
        ([{"record_id": "sn-train0sn"}], r"line 1, raw: Field required"),
        (None, "does not exist"),
    ],
)
def test_bad_cache(records: pl.DataFrame, tmp_path: Path, lines: list[dict] | None, message: str) -> None:
    with pytest.raises(DataError, match=message):
        build(records, tmp_path / "cache.jsonl", lines)


def test_the_rules_of_the_paper(tmp_path: Path, records: pl.DataFrame) -> None:
    cache, table, out = (tmp_path / name for name in ("cache.jsonl", "records.parquet", "anchors.parquet"))
    cache.touch()
    records.with_columns(report_raw=pl.lit("Likely edema.")).write_parquet(table)
    build_anchors(table, cache, out, "paper")
    assert pl.read_parquet(out)["positive"].to_list() == [["edema"]] * len(records)
    build_anchors(table, cache, out)
    assert pl.read_parquet(out)["uncertain"].to_list() == [["edema"]] * len(records)
