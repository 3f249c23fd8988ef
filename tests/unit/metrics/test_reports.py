"""Files of reports as other systems leave them."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from pacer.core.errors import DataError
from pacer.metrics.report_files import HYPOTHESIS_COLUMNS, REFERENCE_COLUMNS, Reports, reports_of
from tests.unit.metrics.test_strict_input import written

IDS, TEXTS = ["s1", "s2", "7"], ["the heart is normal .", 'small , "left" effusion .', ""]
ROWS = [{"study_id": key, "report": text} for key, text in zip(IDS, TEXTS, strict=True)]
SECRET = "zephyrine effusion"


def read(path, *options, columns=HYPOTHESIS_COLUMNS) -> tuple[list, list]:
    found: Reports = reports_of(path, columns, *options)
    return found.rows["id"].to_list(), found.rows["text"].to_list()


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet", "jsonl"])
def test_every_kind_gives_the_same_rows(tmp_path, kind):
    assert read(written(tmp_path / f"reports.{kind}", ROWS)) == (IDS, TEXTS)


def test_a_column_of_texts_alone_has_a_name(tmp_path):
    path = tmp_path / "res.csv"
    path.write_text('report\nthe heart is normal .\n"one , two"\n""\n')
    assert read(path) == (["1", "2", "3"], ["the heart is normal .", "one , two", ""])
    assert reports_of(path, HYPOTHESIS_COLUMNS).columns == {"text": "report"}
    path.write_text("generated_text\na .\n")
    assert read(path, None, "generated_text")[1] == ["a ."]
    with pytest.raises(DataError, match=r"generated_text: none is known .*; its first line must be a name"):
        read(path)


def test_columns_are_the_known_ones_or_those_that_are_named(tmp_path):
    path = tmp_path / "r.csv"
    pl.DataFrame({"id": ["a"], "uid": ["b"], "report": ["x"], "out": ["y"]}).write_csv(path)
    assert read(path) == (["a"], ["x"]) and read(path, "uid", "out") == (["b"], ["y"])
    path.write_text("Study_ID,Subject_id,REPORT\n7,p,x\n")
    found = reports_of(path, REFERENCE_COLUMNS)
    assert found.columns == {"id": "Study_ID", "text": "REPORT"} and found.rows["subject_id"].to_list() == ["p"]
    path.write_text("id,report,prediction\n7,x,y\n")
    with pytest.raises(DataError, match=r"may hold the reports: report, prediction; choose one with --hypothesis-text"):
        read(path)
    assert read(path, columns=REFERENCE_COLUMNS)[1] == ["x"]
    path.write_text("ID,id,report\n7,8,x\n")
    assert read(path, "id")[0] == ["8"]


@pytest.mark.parametrize("blank", ["", "  ", None, float("nan")])
def test_blank_cells_say_nothing(tmp_path, blank):
    rows = [{"id": "a", "report": "x", "study_id": "s"}, {"id": "b", "report": "y", "study_id": blank}]
    pl.DataFrame(rows, strict=False).write_parquet(tmp_path / "r.parquet")
    assert reports_of(tmp_path / "r.parquet", REFERENCE_COLUMNS).rows["study_id"].to_list()[1] in (None, "NaN")


@pytest.mark.parametrize(
    "name, content, problem",
    [
        ("r.csv", "", "holds no reports"),
        ("r.csv", "id,report\n", "holds no reports"),
        ("r.jsonl", "\n", "holds no reports"),
        ("r.csv", f"id,words\n1,{SECRET}\n", "has the columns id, words: none is known as that of reports; expected"),
        ("r.csv", f"key,report\n1,{SECRET}\n", "the columns key, report: none is known as that of ids; expected one"),
        ("r.csv", f"id,report\n1,{SECRET}\n\n2,x\n", "line 3, id: expected an id"),
        ("r.csv", f"id,report\n,{SECRET}\n", "line 2, id: expected an id"),
        ("r.csv", f"report\n{SECRET}\n\n", "line 3: a blank line"),
        ("r.csv", f"{SECRET}!,b\n1,x\n", "the columns a text, b: none is known as that of reports; .*; none .* of ids"),
        ("r.csv", f"id,id,report\n1,1,{SECRET}\n", "column name more than once"),
        ("r.csv", f"{SECRET} .\na .\n", "the columns a text: none is known .*; its first line must be a name"),
        ("r.csv", '"heart normal , lungs clear ."\nb .\n', "the columns a text: .*; its first line must be a name"),
        ("r.tsv", "id,report\n1,x\n", "none is known .*; separate cells by tabs, not by comma"),
        ("r.csv", "id;report\n1;x\n", "none is known .*; separate cells by commas, not by semicolon"),
        ("r.csv", f"id;report\n1;{SECRET}, small\n", "2 cells, but the header has 1; cells are separated by comma"),
        ("r.json", "[1]", "must be an object of ids and texts, a list of objects, .*, got 1;"),
        ("r.json", json.dumps({"a": [SECRET, SECRET]}), "row 1, text: expected text, got a list of 2"),
        ("r.json", '{"": "a"}', "row 1, id: expected an id"),
        ("r.json", f'{{"s1": "{SECRET}", "s2": "a", "s1": "b"}}', "holds the id s1 more than once"),
        ("r.jsonl", json.dumps({"id": 1.5, "report": SECRET}), "line 1, id: expected an id"),
        ("r.jsonl", json.dumps({"id": 1, "report": [SECRET]}), "line 1, report: expected text, got a list of 1"),
        ("r.json", "{cut", "r.json is not valid JSON"),
    ],
)
def test_bad_files_are_one_clear_error_without_text(tmp_path, name, content, problem):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=problem) as error:
        read(tmp_path / name)
    assert SECRET not in str(error.value)


def test_files_and_columns_that_are_not_there(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        read(tmp_path / "r.csv")
    pl.DataFrame(ROWS).write_csv(tmp_path / "r.csv")
    with pytest.raises(
        DataError, match="has the columns study_id, report: none is uid; --hypothesis-id must name one of them"
    ):
        read(tmp_path / "r.csv", "uid")


@pytest.mark.parametrize("encoding", ["latin-1", "utf-8-sig"])
@pytest.mark.parametrize(
    "name, content",
    [("r.jsonl", '{{"id": 1, "report": "{}"}}'), ("r.json", '{{"1": "{}"}}'), ("r.csv", "id,report\n1,{}\n")],
)
def test_other_encodings_are_named_and_a_byte_order_mark_is_passed_over(tmp_path, name, content, encoding):
    text = f"{SECRET} épanchement"
    (tmp_path / name).write_bytes(content.format(text).encode(encoding))
    if encoding == "utf-8-sig":
        assert read(tmp_path / name) == (["1"], [text])
        return
    with pytest.raises(DataError, match="UTF-8") as error:
        read(tmp_path / name)
    assert SECRET not in str(error.value)


@pytest.mark.parametrize("column", ["id", "study_id", "subject_id"])
def test_ids_that_were_rounded_pair_nothing(tmp_path: Path, column: str) -> None:
    row = {"id": "a", "study_id": "s", "subject_id": "p", "report": "clear"} | {column: "1.23457E+12"}
    (tmp_path / "references.csv").write_text(f"{','.join(row)}\n{','.join(row.values())}\n")
    with pytest.raises(DataError, match=rf"line 2, {column}: 1.23457E\+12 is an id that .* has rounded"):
        reports_of(tmp_path / "references.csv", REFERENCE_COLUMNS)


def test_an_id_is_a_study_only_where_its_column_says_so() -> None:
    for column, studies in (("study_id", ["1", "2"]), ("image_id", [None, None])):
        references = reports_of(pl.DataFrame({column: ["1", "2"], "report": ["x", "y"]}), REFERENCE_COLUMNS)
        assert references.rows["study_id"].to_list() == studies
