"""The records of a phase: the rows of the tables, in the order of the records."""

import polars as pl
import pytest

from pacer.commitments.anchor import POLARITIES
from pacer.core.contexts import CONTEXTS
from pacer.core.errors import DataError
from pacer.data.schemas import EMPHASIS_SCHEMA, RECORD_SCHEMA
from pacer.training.examples import RecordTable


@pytest.fixture
def files(records: pl.DataFrame, anchors: pl.DataFrame, tmp_path):
    """Paths of records, emphasis and anchors as the stages write them."""
    complete = pl.DataFrame(records.to_dicts(), schema=RECORD_SCHEMA)
    paths = [tmp_path / f"{name}.parquet" for name in ("records", "emphasis", "anchors")]
    complete.with_columns(emphasis=pl.lit(None)).cast(pl.Schema(RECORD_SCHEMA)).write_parquet(paths[0])
    complete.select(list(EMPHASIS_SCHEMA)).write_parquet(paths[1])
    anchors.write_parquet(paths[2])
    return paths


def test_rows_are_those_of_the_tables(files, records, anchors) -> None:
    contexts = ("sn", "mw")
    table = RecordTable.read(*files, contexts)
    columns = ["record_id", "context", "split", "report", "prior_report", "emphasis", *POLARITIES]
    expected = (
        records.join(anchors, on="record_id").filter(pl.col("context").is_in(contexts)).select(columns).to_dicts()
    )
    assert len(table) == len(expected) == 16 and table.labelled
    rows = [table.row(number) for number in range(len(table))]
    assert [{name: row[name] for name in columns} for row in rows] == expected
    assert "report_raw" not in rows[0]  # the text of every target once
    assert [table.record_id(number) for number in range(len(table))] == [row["record_id"] for row in expected]
    numbers = table.rows("val", ("mw", "sn"))
    assert list(numbers) == ["mw", "sn"]
    assert [table.row(int(number))["record_id"] for number in numbers["mw"]] == ["mw-6", "mw-7"]
    assert not RecordTable.read(*files[:2], None, contexts).labelled


@pytest.mark.parametrize(("stage", "place"), [("emphasis", 1), ("anchors", 2)])
def test_rows_of_other_records_are_refused(files, stage: str, place: int) -> None:
    made = pl.read_parquet(files[place])
    for other in (made.reverse(), made.head(20), pl.concat([made, made.tail(1)])):
        other.write_parquet(files[place])
        with pytest.raises(DataError, match=f"{stage}: its records do not match the corpus"):
            RecordTable.read(*files, CONTEXTS)
