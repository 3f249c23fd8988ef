"""What the audit says of a corpus's texts."""

from pathlib import Path

import polars as pl
import pytest

from pacer.core.schemas import RECORD_SCHEMA, write_table
from pacer.corpus.audit_texts import audit_texts
from pacer.text.cleaning.cleaners import CLEANERS
from tests.support.made_records import few_records

SHARED, CHANGED, NOTHING = (
    "Texts of over 20 words shared by several patients",
    "Targets in which the cleaner changes the findings that the rules read, by kind of mark",
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
    records = records.with_columns(report=pl.lit("no edema ."), report_raw=pl.lit("No edema."))
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
        ("a stroke", "Bibasilar edema/clear apices. 2. Clear."),
        ("a question mark", "Left effusion. Pneumonia?"),
        ("a full stop without a blank", "No edema.Heart size is normal."),
        ("a comma or semicolon", "Heart size:normal;no effusion;edema."),
        ("a line end", "Edema\nNo effusion\nPneumonia"),
        ("brackets", "[ ] Edema\n[x] Effusion"),
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


def test_shared_targets_that_state_nothing_are_counted(tmp_path: Path) -> None:
    reports = ["no edema .", "left effusion .", "edema ?", "stable .", "stable .", "normal ."]
    lines = lines_of(tmp_path, report=reports)
    assert lines[NOTHING] == "studies: 2 × of 2 studies with one target (first: s3)"
