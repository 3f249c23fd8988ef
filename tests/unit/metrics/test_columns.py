"""Columns of the user: numbers are scores, missing values are left out, and what is neither is an error."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from pacer.core.errors import DataError
from pacer.metrics.columns import column_scores, read_score_columns

IDS = ["101", "102", "103"]


@pytest.mark.parametrize("index", ["", " ", "Unnamed: 0", "__index_level_0__"])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_row_numbers_are_never_data(tmp_path: Path, index: str, kind: str) -> None:
    table = pl.DataFrame({index: ["0", "1", "2"], "record_id": IDS, "green": [0.5, 0.6, 0.7]})
    getattr(table, f"write_{kind}")(tmp_path / f"c.{kind}")
    assert read_score_columns(tmp_path / f"c.{kind}", IDS, []).columns == ["green"]


@pytest.mark.parametrize("word", ["nan", "NaN", "NAN", "-nan", "inf"])
def test_a_nan_among_the_numbers_of_a_column_is_an_error_in_any_spelling(tmp_path: Path, word: str) -> None:
    (tmp_path / "c.csv").write_text(f"record_id,green\n101,0.5\n102,{word}\n103,0.7\n")
    with pytest.raises(DataError, match=r"column green: (record 102 has no finite number|.*that of record 102 is not)"):
        read_score_columns(tmp_path / "c.csv", IDS, [])


@pytest.mark.parametrize("word", ["", "None", "null", "NULL", "N/A", "<NA>"])
def test_a_missing_value_leaves_a_column_a_score(tmp_path: Path, word: str) -> None:
    (tmp_path / "c.csv").write_text(f"record_id,green\n101,0.5\n102,{word}\n103,0.7\n")
    scores = column_scores(read_score_columns(tmp_path / "c.csv", IDS, []), [])
    assert scores == {"green": pytest.approx(0.6), "green_n": 2}
