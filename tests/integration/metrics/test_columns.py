"""Columns of a user's file: which are taken as scores and groups, and which are refused."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from pacer.core.errors import DataError
from pacer.core.io import hash_file
from pacer.metrics.columns import column_scores, names_by_kind, read_score_columns
from pacer.metrics.score import mean_of_contexts
from pacer.metrics.statistics.intervals import score_intervals
from pacer.reporting.score_tables import column_table
from tests.integration.metrics.test_scoring import Case

IDS = ["sn-1", "sn-2", "007"]
TABLE = "record_id,words,sex\n007,3,F\nsn-2,,\nsn-1,1.5, M \n"


def written(folder: Path, text: str = TABLE, name: str = "columns.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
def test_numbers_become_scores_and_texts_groups(tmp_path: Path, kind: str) -> None:
    path = written(tmp_path)
    table = pl.read_csv(path, schema_overrides={"record_id": pl.String})
    if kind == "parquet":
        table.write_parquet(tmp_path / "columns.parquet")
    if kind == "jsonl":
        table.write_ndjson(tmp_path / "columns.jsonl")
    found = read_score_columns(tmp_path / f"columns.{kind}", IDS, ["f1"])
    assert found.to_dict(as_series=False) == {"words": [1.5, None, 3.0], "sex": ["M", None, "F"]}
    assert names_by_kind(found) == {"scores": ["words"], "groups": ["sex"]}
    assert column_scores(found, ["f1"]) == {"words": 2.25, "words_n": 2}
    assert column_scores(found[1:2], []) == {"words": None, "words_n": 0}


def test_true_and_false_are_groups_and_a_column_named_like_a_count_keeps_its_mean(tmp_path: Path) -> None:
    text = "record_id,urgent,dose_n\nsn-1,True,1\nsn-2,FALSE,2\n007,true,6\n"
    found = read_score_columns(written(tmp_path, text), IDS, [])
    assert found["urgent"].to_list() == ["true", "false", "true"]
    table = found.with_columns(pl.Series("record_id", IDS), urgent=pl.Series([True, False, True]))
    table.write_parquet(tmp_path / "columns.parquet")
    assert read_score_columns(tmp_path / "columns.parquet", IDS, []).equals(found)
    scores = {context: column_scores(found, []) for context in ("sn", "mw")}
    assert mean_of_contexts(scores, found.columns) == {"dose_n": 3.0}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("record_id,words\nsn-1,1\nsn-2,1\n007,1\nother,1\n", "but not in the scored records: other"),
        ("id,words\nsn-1,1\n", "the one with the ids of the scored records must be record_id"),
        ("record_id,rougeL\nsn-1,1\nsn-2,1\n007,1\n", "column rougeL: cases.parquet has a column of this name"),
        ("record_id,my_labels\nsn-1,1\nsn-2,1\n007,1\n", "column my_labels: names with this ending are reserved"),
        ("", "columns.csv has the columns no columns; the one with"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        read_score_columns(written(tmp_path, text), IDS, ["rougeL"])


def test_too_many_texts_and_a_word_among_numbers_are_refused(tmp_path: Path) -> None:
    rows = "".join(f"{number},{number} years\n" for number in range(21))
    with pytest.raises(DataError, match=r"column age has 21 different texts, more than 20; give numbers, or bands"):
        read_score_columns(written(tmp_path, f"record_id,age\n{rows}"), [str(number) for number in range(21)], [])
    ids = [str(number) for number in range(30)]
    numbers = [f"{number},{'?' if number == '3' else 0.5}\n" for number in ids]
    with pytest.raises(DataError, match="column mine: most cells are numbers, but that of record 3 is not"):
        read_score_columns(written(tmp_path, "record_id,mine\n" + "".join(numbers)), ids, [])


def test_a_column_may_not_have_the_name_of_a_score() -> None:
    for names in (["bleu4"], ["mine", "mine_n"]):
        with pytest.raises(DataError, match=r"would be the score \w+, which is there already; rename it"):
            column_scores(pl.DataFrame({name: [1.0] for name in names}), ["bleu4"])


def test_columns_reach_scores_cases_and_intervals(tmp_path: Path, chexbert_directory, quick_meteor) -> None:
    case = Case(tmp_path, chexbert_directory())
    plain = case.score()
    ids = case.records["record_id"].to_list()
    rows = [f"{key},{number or ''},{'ab'[number % 2]}\n" for number, key in enumerate(ids)]
    path = written(tmp_path, f"record_id,words,site\n{''.join(rows[::-1])}")
    scores = case.score(columns=str(path))
    assert scores["sn"] == plain["sn"] | {"words": 2.0, "words_n": 3}  # the first record has none
    assert scores["mean"] == plain["mean"] | {"words": 3.75}
    cases = pl.read_parquet(tmp_path / "metrics/cases.parquet")
    assert cases["words"].to_list() == [None, *map(float, range(1, 8))] and cases["site"][:2].to_list() == ["a", "b"]
    signature = case.read("signature.json")
    assert signature["columns"] == {"scores": ["words"], "groups": ["site"]}
    assert signature["data"]["columns"] == hash_file(path)
    found = score_intervals(cases, "llm-rg4", 20, columns=["words"])
    assert found.scores["sn"]["words"].value == 2.0
    table = column_table(scores, ["words"], intervals=found)
    assert table is not None and table.columns == ("Context", "words", "n")
    assert table.rows[0] == ("SN", "2.000", "3") and table.rows[-1] == ("Mean", "3.750", "")
