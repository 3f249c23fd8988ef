from __future__ import annotations

import json

import polars as pl
import pytest

from pacer.core.errors import DataError
from pacer.external.report_files import HYPOTHESIS_COLUMNS, REFERENCE_COLUMNS, read_reports

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
def test_every_kind_gives_the_same_rows(tmp_path, kind):
    found = read_reports(write(tmp_path, kind), HYPOTHESIS_COLUMNS)
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


@pytest.mark.parametrize(
    "name, content, problem",
    [
        ("r.csv", "", "is empty"),
        ("r.jsonl", "\n", "is empty"),
        ("r.csv", f"id,words\n1,{SECRET}\n", "no report column, only id, words; expected hypothesis, .*"),
        ("r.csv", f"key,report\n1,{SECRET}\n", "no id column, only key, report; expected record_id, .*"),
        ("r.csv", f"id,report\n1,{SECRET}\n\n2,x\n", "line 3 is blank"),
        ("r.csv", f"id,report\n,{SECRET}\n", "line 2, id: the id is empty"),
        ("r.csv", f'id,report\n1,"{SECRET}\n', "line 2: unexpected end"),
        ("r.json", "[1]", "row 1: expected an object, got 1"),
        ("r.json", '"text"', "expected an object of ids and texts"),
        ("r.json", json.dumps({"a": [SECRET, SECRET]}), "id a: expected one text, got a list of 2"),
        ("r.jsonl", json.dumps({"id": 1.5, "report": SECRET}), "line 1, id: expected an id"),
        ("r.jsonl", json.dumps({"id": 1, "report": [SECRET]}), "line 1, report: expected text, got a list of 1"),
        ("r.jsonl", "{cut", "line 1 is not valid JSON"),
        ("r.jsonl", "\n[]", "line 2: expected an object, got a list of 0"),
        ("r.json", f'{{"a": {{"report": "x"}}, "b": "{SECRET}"}}', "id b: expected an object as for the others"),
        ("r.json", '{"": "a"}', "row 1, the keys: the id is empty"),
        ("r.parquet", SECRET, "cannot be read"),
        ("r.txt", SECRET, "must be a table"),
    ],
)
def test_bad_files_are_one_clear_error_without_text(tmp_path, name, content, problem):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=problem) as error:
        read_reports(tmp_path / name, HYPOTHESIS_COLUMNS)
    assert SECRET not in str(error.value)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
@pytest.mark.parametrize(
    "name, content",
    [("r.jsonl", '{{"id": 1, "report": "{}"}}'), ("r.json", '{{"1": "{}"}}'), ("r.csv", "id,report\n1,{}\n")],
)
def test_other_encodings_are_named(tmp_path, name, content, encoding):
    (tmp_path / name).write_bytes(content.format(f"{SECRET} épanchement").encode(encoding))
    with pytest.raises(DataError, match=r"not UTF-8.*save the file as UTF-8") as error:
        read_reports(tmp_path / name, HYPOTHESIS_COLUMNS)
    assert SECRET not in str(error.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match="does not exist; expected a file of reports"):
        read_reports(tmp_path / "r.csv", HYPOTHESIS_COLUMNS)
    pl.DataFrame(ROWS).write_csv(tmp_path / "r.csv")
    with pytest.raises(DataError, match="no column uid for the ids; it has study_id, report"):
        read_reports(tmp_path / "r.csv", HYPOTHESIS_COLUMNS, "uid")


@pytest.mark.parametrize(
    "columns, known, problem",
    [
        (("id", "report", "prediction"), HYPOTHESIS_COLUMNS, "report, prediction"),
        (("id", "generated", "report"), HYPOTHESIS_COLUMNS, "report, generated"),
        (("id", "Report", "report"), HYPOTHESIS_COLUMNS, "Report, report"),
        (("id", "text", "reference", "hypothesis"), REFERENCE_COLUMNS, "reference, text"),
    ],
)
def test_several_columns_of_reports_are_not_chosen_from(tmp_path, columns, known, problem):
    for name in ("r.csv", "r.jsonl", "r.parquet"):
        table = pl.DataFrame({column: [column] for column in columns})
        write = {"r.csv": table.write_csv, "r.jsonl": table.write_ndjson, "r.parquet": table.write_parquet}[name]
        write(tmp_path / name)
        with pytest.raises(
            DataError, match=f"several report columns: {problem}; choose one with --(hypothesis|reference)-text"
        ):
            read_reports(tmp_path / name, known)
        assert read_reports(tmp_path / name, known, text_column=columns[1]).texts == [columns[1]]


def test_names_of_columns_count_whatever_their_case(tmp_path):
    (tmp_path / "r.csv").write_text("Study_ID,Subject_id,REPORT\n7,p,x\n")
    found = read_reports(tmp_path / "r.csv", REFERENCE_COLUMNS)
    assert (found.ids, found.texts, found.columns) == (["7"], ["x"], {"id": "Study_ID", "text": "REPORT"})
    assert found.extra == {"study_id": ["7"], "subject_id": ["p"]}
    (tmp_path / "r.csv").write_text("ID,id,report\n7,8,x\n")
    with pytest.raises(DataError, match=r"has the column id more than once \(ID, id\)"):
        read_reports(tmp_path / "r.csv", REFERENCE_COLUMNS)


@pytest.mark.parametrize("heading", ["Report", "REPORT", "text "])
def test_a_heading_of_the_only_column_is_no_report(tmp_path, heading):
    (tmp_path / "r.csv").write_text(f"{heading}\na .\n")
    assert read_reports(tmp_path / "r.csv", HYPOTHESIS_COLUMNS).texts == ["a ."]


@pytest.mark.parametrize("heading", ["generated_report", "0", "caption", "Generated Text", "output of model"])
def test_what_looks_like_a_heading_is_neither_scored_nor_dropped(tmp_path, heading):
    path = tmp_path / "r.csv"
    path.write_text(f"{heading}\na .\n")
    with pytest.raises(DataError, match=r"first row looks like a heading.*--hypothesis-text.*a line `report` above"):
        read_reports(path, HYPOTHESIS_COLUMNS)
    assert read_reports(path, HYPOTHESIS_COLUMNS, text_column=heading).texts == ["a ."]
    path.write_text(f"report\n{heading}\na .\n")
    assert read_reports(path, HYPOTHESIS_COLUMNS).texts == [heading, "a ."]


@pytest.mark.parametrize("first", ["normal .", "no change.", "", "the heart is normal", "7 : 8 am"])
def test_short_reports_are_no_headings(tmp_path, first):
    (tmp_path / "r.csv").write_text(f'"{first}"\na .\n')
    found = read_reports(tmp_path / "r.csv", HYPOTHESIS_COLUMNS)
    assert found.texts == [first, "a ."] and found.columns == {"text": "the only column (2 rows, no header)"}


def test_columns_cannot_be_named_where_there_are_none(tmp_path):
    (tmp_path / "r.csv").write_text("the heart is normal .\na .\n")
    (tmp_path / "r.json").write_text('{"a": "x"}')
    for options in ((None, "out"), ("uid", None)):
        with pytest.raises(DataError, match=r"r.csv has no column .*it has text of 21 characters") as error:
            read_reports(tmp_path / "r.csv", HYPOTHESIS_COLUMNS, *options)
        assert "heart" not in str(error.value)
        with pytest.raises(DataError, match=r"r.json is an object of ids and texts.*no column (out|uid)"):
            read_reports(tmp_path / "r.json", HYPOTHESIS_COLUMNS, *options)


@pytest.mark.parametrize("header", ["id;report", '"id";"report"', "ID\tReport", "uid;words"])
def test_a_header_with_another_separator_is_no_report(tmp_path, header):
    (tmp_path / "r.csv").write_text(f"{header}\n1;a b\n")
    with pytest.raises(DataError, match=r"r.csv: its first row looks like a heading|r.csv, line 1: .*quotes"):
        read_reports(tmp_path / "r.csv", HYPOTHESIS_COLUMNS)


def test_reports_with_semicolons_are_reports(tmp_path):
    for report in ("no effusion; heart normal .", "report; the heart is normal ."):
        (tmp_path / "r.csv").write_text(f"{report}\na .\n")
        assert read_reports(tmp_path / "r.csv", HYPOTHESIS_COLUMNS).texts == [report, "a ."]


@pytest.mark.parametrize("name", ["r.json", "r.jsonl", "r.csv"])
def test_a_byte_order_mark_is_passed_over(tmp_path, name):
    content = {"r.json": '{"a": "x"}', "r.jsonl": '{"id": "a", "report": "x"}\n', "r.csv": "id,report\na,x\n"}[name]
    (tmp_path / name).write_text(content, encoding="utf-8-sig")
    found = read_reports(tmp_path / name, HYPOTHESIS_COLUMNS)
    assert (found.ids, found.texts) == (["a"], ["x"])
