"""Large tables a batch at a time."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from pacer.records.columns import TableWriter, batches
from pacer.records.schemas import RECORD_SCHEMA, read_about

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
    with TableWriter(tmp_path / "r.parquet", RECORD_SCHEMA, {"cleaner": "iu_xray", "limit": None}) as writer:
        writer.add(dict.fromkeys(RECORD_SCHEMA) | {"record_id": "sn-1", "emphasis": [0.0, 1.0]})
    assert read_about(tmp_path / "r.parquet") == {"cleaner": "iu_xray", "limit": None}
    assert dict(pl.read_parquet(tmp_path / "r.parquet").schema) == RECORD_SCHEMA
    assert read_about(written(tmp_path, ["a"])) == {}
