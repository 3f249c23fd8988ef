"""The mapped records of a phase: the same rows as the tables, in little memory, and in the anchors' order."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest

from pacer.core.contexts import CONTEXTS
from pacer.core.errors import DataError
from pacer.records.schemas import RECORD_SCHEMA, SPLITS
from pacer.training import record_table
from pacer.training.record_table import ANCHOR_COLUMNS, COLUMNS, RecordTable, write_record_table


@pytest.fixture
def files(records: pl.DataFrame, anchors: pl.DataFrame, tmp_path):
    """Records and anchors as the stages write them."""
    whole = pl.DataFrame(records.to_dicts(), schema=RECORD_SCHEMA)
    whole.write_parquet(tmp_path / "records.parquet", row_group_size=5)
    anchors.write_parquet(tmp_path / "anchors.parquet", row_group_size=7)
    return tmp_path


@pytest.mark.parametrize("block", [3, 4096])
def test_mapped_rows_are_those_of_the_tables(files, records, anchors, monkeypatch, block) -> None:
    monkeypatch.setattr(record_table, "_BLOCK", block)
    contexts = ("sn", "mw")
    write_record_table(files / "records.parquet", files / "anchors.parquet", contexts, files / "a.arrow")
    table = RecordTable.map(files / "a.arrow")
    expected = records.join(anchors, on="record_id").filter(pl.col("context").is_in(contexts))
    expected = expected.select(*COLUMNS, *ANCHOR_COLUMNS).to_dicts()
    assert len(table) == len(expected) == 16
    assert table.labelled
    assert [table.row(number) for number in range(len(table))] == expected
    assert [CONTEXTS[code] for code in table.context] == [row["context"] for row in expected]
    assert [SPLITS[code] for code in table.split] == [row["split"] for row in expected]
    assert [table.record_id(number) for number in range(len(table))] == [row["record_id"] for row in expected]
    blocks = list(table.in_blocks())
    assert [row for _, rows in blocks for row in rows] == expected
    assert all(rows[0] == table.row(first) for first, rows in blocks)
    rows = table.rows("val", ("mw", "sn"))
    assert list(rows) == ["mw", "sn"]
    assert [table.row(int(number))["record_id"] for number in rows["mw"]] == ["mw-6", "mw-7"]


def test_the_texts_are_mapped_and_not_copied(files) -> None:
    write_record_table(files / "records.parquet", None, CONTEXTS, files / "a.arrow")
    before = pa.total_allocated_bytes()
    table = RecordTable.map(files / "a.arrow")
    assert not table.labelled
    assert pa.total_allocated_bytes() == before


def test_anchors_of_other_records_are_refused(files, anchors) -> None:
    anchors.reverse().write_parquet(files / "anchors.parquet")
    with pytest.raises(DataError, match=r"record sn-0 has no anchor in its place \(row 0\); run the anchors stage"):
        write_record_table(files / "records.parquet", files / "anchors.parquet", CONTEXTS, files / "a.arrow")
    anchors.head(20).write_parquet(files / "anchors.parquet")
    with pytest.raises(DataError, match=r"has no anchor in its place \(row 20\)"):
        write_record_table(files / "records.parquet", files / "anchors.parquet", CONTEXTS, files / "a.arrow")
    pl.concat([anchors, anchors.tail(1)]).write_parquet(files / "anchors.parquet")
    with pytest.raises(DataError, match=r"rows beyond those of the records \(row 32\)"):
        write_record_table(files / "records.parquet", files / "anchors.parquet", CONTEXTS, files / "a.arrow")
    assert not (files / "a.arrow").exists()


def test_no_records(files) -> None:
    pl.DataFrame(schema=RECORD_SCHEMA).write_parquet(files / "records.parquet")
    with pytest.raises(DataError, match="holds no record"):
        write_record_table(files / "records.parquet", None, CONTEXTS, files / "a.arrow")
    assert len(RecordTable([])) == 0
