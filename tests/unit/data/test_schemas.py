"""Tables of the one schema: what they say of themselves, and damage."""

from pathlib import Path

import polars as pl
import pytest

from pacer.core.errors import DataError
from pacer.data.schemas import RECORD_SCHEMA, read_about, read_records, write_table

RECORDS = pl.DataFrame(
    [dict.fromkeys(RECORD_SCHEMA) | {"record_id": f"sn-{n}", "split": "val"} for n in range(50)], RECORD_SCHEMA
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "r.parquet"


def test_a_table_says_how_it_was_made(path: Path) -> None:
    table = RECORDS.with_columns(emphasis=pl.lit([0.0, 1.0]))
    write_table(path, table, RECORD_SCHEMA, {"cleaner": "iu_xray", "limit": None})
    assert read_about(path) == {"cleaner": "iu_xray", "limit": None}
    assert dict(pl.read_parquet(path).schema) == RECORD_SCHEMA
    RECORDS.write_parquet(path)
    assert read_about(path) == {}


def test_some_columns_of_the_records(path: Path) -> None:
    write_table(path, RECORDS.head(1), RECORD_SCHEMA)
    assert read_records(path, ["split"]).to_dicts() == [{"split": "val"}]
    assert read_records(path, ["split", "record_id"]).columns == ["split", "record_id"]
    assert dict(read_records(path).schema) == RECORD_SCHEMA
    write_table(path, pl.concat([RECORDS, RECORDS.head(1)]), RECORD_SCHEMA)
    with pytest.raises(DataError, match="record sn-0 appears twice"):
        read_records(path, ["split"])


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (RECORDS.drop("view"), r"missing columns: \['view'\]"),
        (RECORDS.with_columns(more=1), r"unknown columns: \['more'\]"),
        (RECORDS.with_columns(view=1), "column view is Int32, expected String"),
        ("no table", "not a readable Parquet file"),
        (None, "does not exist"),
    ],
    ids=["missing column", "unknown column", "other type", "no table", "no file"],
)
def test_records_are_read_strictly(path: Path, table: pl.DataFrame | str | None, message: str) -> None:
    if isinstance(table, pl.DataFrame):
        table.write_parquet(path)
    elif table is not None:
        path.write_text(table)
    with pytest.raises(DataError, match=message):
        read_records(path)
