"""Tables of the one schema: what they say of themselves, and damage."""

from __future__ import annotations

import polars as pl
import pytest

from pacer.core.errors import DataError
from pacer.data.schemas import RECORD_SCHEMA, read_about, read_records, write_table


def test_a_table_says_how_it_was_made(tmp_path) -> None:
    row = dict.fromkeys(RECORD_SCHEMA) | {"record_id": "sn-1", "emphasis": [0.0, 1.0]}
    table = pl.DataFrame([row], RECORD_SCHEMA)
    write_table(tmp_path / "r.parquet", table, RECORD_SCHEMA, {"cleaner": "iu_xray", "limit": None})
    assert read_about(tmp_path / "r.parquet") == {"cleaner": "iu_xray", "limit": None}
    assert dict(pl.read_parquet(tmp_path / "r.parquet").schema) == RECORD_SCHEMA
    pl.DataFrame({"x": ["a"]}).write_parquet(tmp_path / "t.parquet")
    assert read_about(tmp_path / "t.parquet") == {}


def test_a_page_that_has_changed_is_named_with_its_file(tmp_path) -> None:
    """By whichever way a table is read; without its checksum a turned bit would be another record."""
    path = tmp_path / "r.parquet"
    rows = [dict.fromkeys(RECORD_SCHEMA) | {"record_id": f"sn-{number}"} for number in range(50)]
    write_table(path, pl.DataFrame(rows, RECORD_SCHEMA), RECORD_SCHEMA)
    content = bytearray(path.read_bytes())
    content[40] ^= 1  # in the page of the ids
    path.write_bytes(content)
    for read in (lambda: read_records(path, ["record_id"]), lambda: read_records(path)):
        with pytest.raises(DataError, match=r"r\.parquet is not a readable Parquet file: .*CRC checksum"):
            read()


def test_some_columns_of_the_records(tmp_path) -> None:
    path = tmp_path / "r.parquet"
    row = dict.fromkeys(RECORD_SCHEMA) | {"record_id": "sn-1", "split": "val"}
    write_table(path, pl.DataFrame([row], RECORD_SCHEMA), RECORD_SCHEMA)
    assert read_records(path, ["split"]).to_dicts() == [{"split": "val"}]
    assert read_records(path, ["split", "record_id"]).columns == ["split", "record_id"]
    write_table(path, pl.DataFrame([row, row], RECORD_SCHEMA), RECORD_SCHEMA)
    with pytest.raises(DataError, match="holds record sn-1 twice"):
        read_records(path, ["split"])
