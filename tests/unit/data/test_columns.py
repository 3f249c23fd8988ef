"""Large tables a batch at a time."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacer.core.errors import DataError
from pacer.data.columns import batches, read_columns
from pacer.data.schemas import RECORD_SCHEMA, read_about, read_records, write_table

TEXTS = st.lists(st.sampled_from(["a", "b", "c", "ü", "", "a "]) | st.none(), max_size=30)


def written(folder, values, row_group_size=4):
    path = folder / "t.parquet"
    pl.DataFrame({"x": pl.Series(values, dtype=pl.String)}).write_parquet(path, row_group_size=row_group_size)
    return path


@given(values=TEXTS, size=st.integers(1, 9))
def test_batches_are_of_the_size_asked_for(tmp_path_factory, values, size) -> None:
    frames = list(batches(written(tmp_path_factory.mktemp("t"), values), size=size))
    assert [value for frame in frames for value in frame["x"]] == values
    assert all(frame.height == size for frame in frames[:-1])


def test_a_table_says_how_it_was_made(tmp_path) -> None:
    row = dict.fromkeys(RECORD_SCHEMA) | {"record_id": "sn-1", "emphasis": [0.0, 1.0]}
    table = pl.DataFrame([row], RECORD_SCHEMA)
    write_table(tmp_path / "r.parquet", table, RECORD_SCHEMA, {"cleaner": "iu_xray", "limit": None})
    assert read_about(tmp_path / "r.parquet") == {"cleaner": "iu_xray", "limit": None}
    assert dict(pl.read_parquet(tmp_path / "r.parquet").schema) == RECORD_SCHEMA
    assert read_about(written(tmp_path, ["a"])) == {}


def test_a_page_that_has_changed_is_named_with_its_file(tmp_path) -> None:
    """By whichever way a table is read; without its checksum a turned bit would be another record."""
    path = tmp_path / "r.parquet"
    rows = [dict.fromkeys(RECORD_SCHEMA) | {"record_id": f"sn-{number}"} for number in range(50)]
    write_table(path, pl.DataFrame(rows, RECORD_SCHEMA), RECORD_SCHEMA)
    content = bytearray(path.read_bytes())
    content[40] ^= 1  # in the page of the ids
    path.write_bytes(content)
    for read in (lambda: list(batches(path)), lambda: read_columns(path, ["record_id"]), lambda: read_records(path)):
        with pytest.raises(DataError, match=r"r\.parquet is not a readable Parquet file: .*CRC checksum"):
            read()
