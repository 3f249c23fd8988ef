"""The mapped records of a phase: the same rows as the tables, in little memory, and in the anchors' order."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest

from pacer.core.contexts import CONTEXTS
from pacer.core.errors import DataError
from pacer.data.schemas import EMPHASIS_SCHEMA, RECORD_SCHEMA, SPLITS
from pacer.training import record_table
from pacer.training.record_table import ANCHOR_COLUMNS, COLUMNS, EMPHASIS_COLUMNS, RecordTable, write_record_table


@pytest.fixture
def files(records: pl.DataFrame, anchors: pl.DataFrame, tmp_path):
    """Records, emphasis and anchors as the stages write them."""
    whole = pl.DataFrame(records.to_dicts(), schema=RECORD_SCHEMA)
    whole.with_columns(emphasis=pl.lit(None)).cast(pl.Schema(RECORD_SCHEMA)).write_parquet(
        tmp_path / "records.parquet", row_group_size=5
    )
    whole.select(list(EMPHASIS_SCHEMA)).write_parquet(tmp_path / "emphasis.parquet", row_group_size=6)
    anchors.write_parquet(tmp_path / "anchors.parquet", row_group_size=7)
    return tmp_path


def tables(files):
    return [files / f"{name}.parquet" for name in ("records", "emphasis", "anchors")]


@pytest.mark.parametrize("block", [3, 4096])
def test_mapped_rows_are_those_of_the_tables(files, records, anchors, monkeypatch, block) -> None:
    monkeypatch.setattr(record_table, "_BLOCK", block)
    contexts = ("sn", "mw")
    write_record_table(*tables(files), contexts, files / "a.arrow")
    table = RecordTable.map(files / "a.arrow")
    expected = records.join(anchors, on="record_id").filter(pl.col("context").is_in(contexts))
    expected = expected.select(*COLUMNS, *EMPHASIS_COLUMNS, *ANCHOR_COLUMNS).to_dicts()
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
    write_record_table(*tables(files)[:2], None, CONTEXTS, files / "a.arrow")
    before = pa.total_allocated_bytes()
    table = RecordTable.map(files / "a.arrow")
    assert not table.labelled
    assert pa.total_allocated_bytes() == before


def test_anchors_of_other_records_are_refused(files, anchors) -> None:
    anchors.reverse().write_parquet(files / "anchors.parquet")
    with pytest.raises(DataError, match=r"record sn-0 has no row in its place \(row 0\); run the stage anchors"):
        write_record_table(*tables(files), CONTEXTS, files / "a.arrow")
    anchors.head(20).write_parquet(files / "anchors.parquet")
    with pytest.raises(DataError, match=r"has no row in its place \(row 20\)"):
        write_record_table(*tables(files), CONTEXTS, files / "a.arrow")
    pl.concat([anchors, anchors.tail(1)]).write_parquet(files / "anchors.parquet")
    with pytest.raises(DataError, match=r"rows beyond those of the records \(row 32\)"):
        write_record_table(*tables(files), CONTEXTS, files / "a.arrow")
    assert not (files / "a.arrow").exists()


def test_emphasis_of_other_records_is_refused(files) -> None:
    pl.read_parquet(files / "emphasis.parquet").head(20).write_parquet(files / "emphasis.parquet")
    with pytest.raises(DataError, match=r"emphasis: record .* no row in its place \(row 20\); run the stage emphasis"):
        write_record_table(*tables(files), CONTEXTS, files / "a.arrow")


def test_no_records(files) -> None:
    pl.DataFrame(schema=RECORD_SCHEMA).write_parquet(files / "records.parquet")
    with pytest.raises(DataError, match="holds no record"):
        write_record_table(*tables(files)[:2], None, CONTEXTS, files / "a.arrow")
