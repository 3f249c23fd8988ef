"""Columns of a user's file: which are taken as scores and groups, and which are refused."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pacer.core.errors import DataError
from pacer.metrics.columns import check_names, column_scores, names_by_kind, read_score_columns
from pacer.metrics.score import mean_of_contexts
from tests.support.cases import listed_cases

IDS = ["sn-1", "sn-2", "007"]


@pytest.mark.parametrize(("name", "text", "columns"), listed_cases(__file__, "read"))
def test_numbers_and_texts_are_read_by_record(tmp_path: Path, name: str, text: str, columns: dict[str, Any]) -> None:
    (tmp_path / name).write_text(text)
    found = read_score_columns(tmp_path / name, IDS)
    assert found.to_dict(as_series=False) == columns
    typed = pl.DataFrame({"record_id": IDS} | columns)
    typed = typed.with_columns(urgent=pl.col("urgent") == "true") if "urgent" in columns else typed
    typed.write_parquet(tmp_path / "columns.parquet")
    assert read_score_columns(tmp_path / "columns.parquet", IDS).equals(found)


@pytest.mark.parametrize(("text", "sentence"), listed_cases(__file__, "refused"))
def test_a_file_that_does_not_fit_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "columns.csv").write_text(text)
    with pytest.raises(DataError, match=sentence):
        read_score_columns(tmp_path / "columns.csv", IDS)


def test_too_many_texts_are_refused(tmp_path: Path) -> None:
    ids = [str(number) for number in range(21)]
    (tmp_path / "columns.csv").write_text("record_id,age\n" + "".join(f"{key},{key} years\n" for key in ids))
    with pytest.raises(
        DataError, match=r"column age has 21 distinct values; use numbers \(a score\), or up to 20 groups"
    ):
        read_score_columns(tmp_path / "columns.csv", ids)


def test_a_column_of_numbers_is_a_score_with_a_count() -> None:
    found = pl.DataFrame({"words": [1.5, None, 3.0], "dose_n": [1.0, 2.0, 6.0], "sex": ["M", None, "F"]})
    assert names_by_kind(found) == {"scores": ["words", "dose_n"], "groups": ["sex"]}
    scores = column_scores(found)
    assert scores == {"words": 2.25, "words_n": 2, "dose_n": 3.0, "dose_n_n": 3}
    assert mean_of_contexts({"sn": scores, "mw": scores}, found.columns) == {"words": 2.25, "dose_n": 3.0}
    assert column_scores(found[1:2])["words"] is None


@pytest.mark.parametrize("names", [["bleu4"], ["mine", "mine_n"], ["mine", "mine"], ["gate"], ["my_labels"], [" "]])
def test_a_name_is_free_or_refused(names: list[str]) -> None:
    check_names(["mine", "yours"], ["bleu4", "gate_n"])
    with pytest.raises(DataError, match=r"may name a score, ids, row numbers or a cases\.parquet column"):
        check_names(names, ["bleu4", "gate_n"])
