"""Side, severity and course of findings: sentences marked by hand, and what the audit says of a
corpus's texts."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pacer.text.rules.table import Match, Patterns, Rule

from pacer.commitments.audit import audit_texts
from pacer.data.cleaning import CLEANERS
from pacer.data.schemas import RECORD_SCHEMA, write_table
from pacer.text.rules import (
    TABLE,
    Attributes,
    extract_anchor,
    read_attributes,
    sentence_attributes,
)
from tests.support.cases import cases, listed_cases
from tests.support.made_records import few_records
from tests.support.real import real


def read(text: str) -> dict[str, set[str]]:
    return {finding: set().union(*values) for finding, values in read_attributes(text).items()}


@pytest.mark.parametrize(("text", "expected"), listed_cases(__file__, "sentences"))
def test_affirmed_findings_of_a_sentence(text: str, expected: dict[str, str]) -> None:
    affirmed = extract_anchor(text).positive
    assert {
        finding: words for finding, words in read(text).items() if finding in affirmed
    } == marked(expected)


@pytest.mark.parametrize(("text", "expected"), listed_cases(__file__, "phrases"))
def test_words_describe_the_findings_of_their_phrase(text: str, expected: dict[str, str]) -> None:
    assert read(text) == marked(expected)


def marked(values: dict[str, str]) -> dict[str, set[str]]:
    return {finding: set(words.split()) for finding, words in values.items()}


@pytest.mark.parametrize(("difference", "reference", "report"), listed_cases(__file__, "pairs"))
def test_pairs_differ_in_one_attribute(difference: str, reference: str, report: str) -> None:
    both = set(extract_anchor(reference).positive) & set(extract_anchor(report).positive)
    one, other = read_attributes(reference), read_attributes(report)
    differing = {
        name
        for finding in both
        for name in Attributes._fields
        if getattr(one[finding], name) != getattr(other[finding], name)
    }
    assert both and differing == {difference} - {"same"}


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.example)
def test_every_row_reads_its_example(row: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example says what the row's reading says, and the row itself is found in it."""
    found: list[Match] = []
    find = Patterns.find
    sentence_attributes.cache_clear()
    monkeypatch.setattr(Patterns, "find", lambda *text: found.extend(find(*text)) or find(*text))
    assert read(row.example) == marked(dict(one.split(":") for one in row.reading.split(", ")))
    assert any(match.row is row for match in found)


@cases(__file__, "qualifiers")
def test_people_gave_the_same_qualifiers(kind: str, case: dict[str, Any]) -> None:
    attribute, meanings = (
        case["attribute"],
        {name: set(words.split()) for name, words in case["meanings"].items()},
    )
    pairs = []
    for row in map(
        json.loads, gzip.decompress(real("openi/reports.jsonl.gz").read_bytes()).splitlines()
    ):
        text = f"{row.get('findings') or ''} {row.get('impression') or ''}"
        terms = [term.split("/") for term in row.get("mesh_major", [])]
        for heading, finding in case["headings"].items():
            given = [qualifiers for name, *qualifiers in terms if name == heading]
            values = [
                meanings[one] for one in (given[0] if len(given) == 1 else ()) if one in meanings
            ]
            if (
                values
                and finding in extract_anchor(text).positive
                and re.search(case["words"], text, re.I)
            ):
                pairs.append(
                    (set().union(*values), getattr(read_attributes(text)[finding], attribute))
                )
    found = [(given, got) for given, got in pairs if got]
    assert len(pairs) > 300 and len(found) / len(pairs) > case["read"]
    right = sum(
        bool(given & got) if attribute == "severity" else given == got for given, got in found
    )
    assert right > case["right"] * len(found)


SHARED, CHANGED, CONTEXT, NOTHING = (
    "Texts of over 20 words shared by several patients",
    "Targets in which the cleaner changes the findings that the rules read, by kind of mark",
    "Findings that the indication or history affirms and the target does not mention",
    "Targets that over 2% of the studies share and that neither affirm nor deny a finding",
)


def lines_of(
    folder: Path, cleaner: str = "upstream", **columns: list[str | None]
) -> dict[str, str]:
    """The lines, by name, of records of a study each with these values; the raw target is
    cleaned."""
    length = len(next(iter(columns.values())))
    records = (
        few_records(".png")
        .head(length)
        .with_columns(study_id=pl.Series([f"s{i}" for i in range(length)]))
    )
    records = records.with_columns(
        indication=None, history=None, report=pl.lit("no edema ."), report_raw=pl.lit("No edema.")
    )
    records = records.with_columns(
        pl.Series(name, values, pl.String) for name, values in columns.items()
    )
    if "report_raw" in columns:
        records = records.with_columns(
            report=pl.Series(map(CLEANERS[cleaner], columns["report_raw"]))
        )
    write_table(
        folder / "r.parquet", records, RECORD_SCHEMA, {"cleaner": cleaner, "format": "table"}
    )
    return {check.name: check.detail for check in audit_texts(folder / "r.parquet")}


def test_long_findings_that_two_patients_share_are_counted(tmp_path: Path) -> None:
    """Of the same length, one affirms nothing, one is of one patient, and one is short."""
    filler = (
        "the heart and the mediastinum are normal in size and shape and the bones are as "
        "usual for the age ."
    )
    texts = [f"large pleural effusion . {filler}"] * 2 + [f"no pleural effusion . {filler}"] * 2
    texts += [f"large pneumothorax . {filler}"] * 2 + ["large pneumothorax ."] * 2
    lines = lines_of(
        tmp_path, report=texts, subject_id=["p0", "p1", "p2", "p3", "p4", "p4", "p6", "p7"]
    )
    assert lines == {SHARED: "1 targets"}


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        ("a stroke", "Atelectasis/consolidation. 2. Clear."),
        ("a question mark", "Left effusion. Pneumonia?"),
        ("a full stop without a blank", "No edema.Heart size is normal."),
        ("a comma or semicolon", "Heart size:normal;no effusion;edema."),
        ("a line end", "Edema\nNo effusion\nPneumonia"),
        ("brackets", "[ ] Edema\n[x] Effusion"),
        ("tags", "<edema>0</edema>"),
    ],
)
def test_what_a_cleaner_changes_is_counted_by_mark(kind: str, raw: str, tmp_path: Path) -> None:
    same = "Mild edema, left effusion; no pneumothorax (2 views). Tip 2.5 cm."
    lines = lines_of(tmp_path, report_raw=[same, raw, raw])
    assert (
        lines[CHANGED]
        == f"targets: 2 × {kind} (first: s1); corpus.cleaner: decimals changes the fewest"
    )
    assert CHANGED not in lines_of(tmp_path, report_raw=[same, same])


def test_findings_of_the_context_and_shared_targets_that_state_none(tmp_path: Path) -> None:
    reports = ["no edema .", "left effusion .", "edema ?", "stable .", "stable .", "normal ."]
    indications = ["Left effusion.", "Left effusion.", "Edema.", None, "Edema?", "No edema."]
    lines = lines_of(
        tmp_path,
        report=reports,
        indication=indications,
        history=[None, None, None, "Edema.", None, "cough"],
    )
    assert lines[CONTEXT] == "studies: 1 × indication (first: s0), 1 × history (first: s3)"
    assert lines[NOTHING] == "studies: 2 × of 2 studies with one target (first: s3)"
    assert CONTEXT not in lines_of(
        tmp_path, report=["edema .", "edema ."], indication=["Edema.", None]
    )
