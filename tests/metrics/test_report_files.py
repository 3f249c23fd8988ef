from __future__ import annotations

import json

import polars as pl
import pytest

from pacer.core.errors import DataError
from pacer.metrics.report_files import HYPOTHESIS_COLUMNS, REFERENCE_COLUMNS, read_reports

IDS, TEXTS = ["s1", "s2", "7"], ["the heart is normal .", 'small , "left" effusion .', ""]
ROWS = [{"study_id": key, "report": text} for key, text in zip(IDS, TEXTS, strict=True)]


def write(folder, kind: str):
    path = folder / f"reports.{kind.removesuffix('-list')}"
    if kind == "csv":
        pl.DataFrame(ROWS).write_csv(path)
    elif kind == "tsv":
        pl.DataFrame(ROWS).write_csv(path, separator="\t")
    elif kind == "parquet":
        pl.DataFrame(ROWS).write_parquet(path)
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    elif kind == "json":  # LLM-RG4's and R2GenGPT's test_result.json
        path.write_text(json.dumps({row["study_id"]: [row["report"]] for row in ROWS}))
    else:
        path = folder / "reports.json"
        path.write_text(json.dumps(ROWS))
    return path


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet", "jsonl", "json", "json-list"])
@pytest.mark.parametrize("columns", [REFERENCE_COLUMNS, HYPOTHESIS_COLUMNS])
def test_every_kind_gives_the_same_rows(tmp_path, kind, columns):
    found = read_reports(write(tmp_path, kind), columns)
    assert (found.ids, found.texts) == (IDS, TEXTS)


def test_r2gens_files_have_texts_alone(tmp_path):
    path = tmp_path / "res.csv"
    path.write_text('the heart is normal .\n"one , two"\n""\n')
    found = read_reports(path, HYPOTHESIS_COLUMNS)
    assert found.ids is None and found.texts == ["the heart is normal .", "one , two", ""]


def test_columns_can_be_named(tmp_path):
    pl.DataFrame({"id": ["a"], "uid": ["b"], "report": ["x"], "out": ["y"]}).write_csv(tmp_path / "r.csv")
    assert read_reports(tmp_path / "r.csv", HYPOTHESIS_COLUMNS).texts == ["x"]
    found = read_reports(tmp_path / "r.csv", HYPOTHESIS_COLUMNS, "uid", "out")
    assert (found.ids, found.texts, found.columns) == (["b"], ["y"], {"id": "uid", "text": "out"})


SECRET = "zephyrine effusion"


@pytest.mark.parametrize("name, content, problem", [
    ("r.csv", "", "is empty"),
    ("r.csv", f"id,words\n1,{SECRET}\n", "no column of reports: expected hypothesis, .*it has id, words"),
    ("r.csv", f"key,report\n1,{SECRET}\n", "no column of ids: expected record_id, .*it has key, report"),
    ("r.csv", f"id,report\n1,{SECRET}\n\n2,x\n", "row 2 is blank"),
    ("r.csv", f"id,report\n,{SECRET}\n", "row 1, id: expected an id .*got nothing"),
    ("r.csv", f'id,report\n1,"{SECRET}\n', "row 0"),
    ("r.json", "[1]", "row 1: expected an object, got a number"),
    ("r.json", '"text"', "expected an object of ids and texts"),
    ("r.json", json.dumps({"a": [SECRET, SECRET]}), "id a: expected one text, got a list of 2"),
    ("r.json", json.dumps({"a": {"text": SECRET}}), "id a: expected one text, got an object"),
    ("r.jsonl", json.dumps({"id": 1.5, "report": SECRET}), "row 1, id: expected an id"),
    ("r.jsonl", json.dumps({"id": 1, "report": [SECRET]}), "row 1, report: expected text, got a list of 1"),
    ("r.jsonl", "{cut", "line 1 is not valid JSON"),
    ("r.parquet", SECRET, "not a readable Parquet file"),
    ("r.txt", SECRET, "the kind of a file is told by its name"),
])
def test_bad_files_are_one_clear_error_without_text(tmp_path, name, content, problem):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=problem) as error:
        read_reports(tmp_path / name, HYPOTHESIS_COLUMNS)
    assert SECRET not in str(error.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match="is not a file; expected reports as"):
        read_reports(tmp_path / "r.csv", HYPOTHESIS_COLUMNS)
    pl.DataFrame(ROWS).write_csv(tmp_path / "r.csv")
    with pytest.raises(DataError, match="no column uid for the ids; it has study_id, report"):
        read_reports(tmp_path / "r.csv", HYPOTHESIS_COLUMNS, "uid")
