"""Odd but valid input for each line of pacer/tables/mending.yaml, and what must come out.

As a script it runs the lines, which a JSON file holds by name, with the polars of the environment;
it needs nothing else but the standard library (and openpyxl for workbooks): ``python
tests/support/mending.py lines.json``. It prints the polars version.
"""

import json
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import redirect_stdout
from datetime import datetime
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import polars.selectors as cs


class Case(NamedTuple):
    """A file, by name, with its text or a frame, the values of the line, and the columns that come
    out; and the text of further files, with their encoding."""

    path: str
    content: str | Callable[[], pl.DataFrame]
    values: dict[str, Any]
    expected: dict[str, list[Any]]
    others: dict[str, str] | None = None
    encoding: str = "utf-8"


def csv(*rows: str) -> str:
    return "\n".join(rows) + "\n"


def ids_of_floats() -> pl.DataFrame:
    return pl.DataFrame({"id": [101.0, None, 123456789012345.0]})


def ids_of_text() -> pl.DataFrame:
    return pl.DataFrame({"id": ["101.0", "7", None], "n": [1, 2, 3]})


def dates_of_cells() -> pl.DataFrame:
    days: list = [datetime(2023, 1, 28), " 3.7.2024", None, datetime(2024, 2, 1, 8, 30)]
    dates = pl.Series("date", [*days, "02.11.2024"], pl.Object)
    return pl.DataFrame({"id": list("12345")}).with_columns(dates)


def pictures() -> pl.DataFrame:
    cells = [{"bytes": b"PNG", "path": "a.png"}, None, {"bytes": None, "path": None}]
    return pl.DataFrame({"id": ["1", "2", "3"], "image": cells})


def bytes_alone() -> pl.DataFrame:
    return pl.DataFrame({"id": ["1", "2"], "image": [None, b"PNG"]})


def lists() -> pl.DataFrame:
    images = [["a.png", "b.png"], [], None, ["c.png"]]
    return pl.DataFrame(
        {"id": list("1234"), "image": images, "view": [["PA", "AP"], [], [], [None]]}
    )


def one_list() -> pl.DataFrame:
    return pl.DataFrame({"id": ["1", "2"], "image": [[], ["a.png"]]})


#: What pacer.tables.mending.reading returns for a file with these properties.
READ = "pl.read_csv('t.csv', separator=';', encoding='utf-16-le', skip_lines=1, infer_schema=False)"
CASES: dict[str, list[Case]] = {
    "ids_without_point": [
        Case(
            "t.csv",
            csv("id,text", "101.0,a", '"7,",b', " 0012,c", "1.5,d", ",e", "p1.0,f"),
            {"column": "id"},
            {"id": ["101", "7", "0012", "1.5", None, "p1.0"], "text": list("abcdef")},
        ),
        Case(
            "t.parquet",
            ids_of_floats,
            {"column": "id"},
            {"id": ["101", None, "123456789012345"]},
        ),
        Case(
            "t.csv",
            csv("sep=;", "id;n", "7.0;é"),
            {"column": "id", "encoding": "utf-16-le", "read": READ},
            {"id": ["7"], "n": ["é"]},
        ),
        Case("t.xlsx", ids_of_text, {"column": "id"}, {"id": ["101", "7", None], "n": list("123")}),
    ],
    "ids_from_source": [
        Case(
            "t.csv",
            "id\n1.23E+12\n",
            {},
            {"id": ["1234567890123", "007"]},
            {"source.csv": "id\n1234567890123\n007\n"},
        ),
        Case(
            "t.csv",
            "id;n\n1.23E+12;a\n",
            {"read": "pl.read_csv('t.csv', separator=';', encoding='cp1252', infer_schema=False)"},
            {"id": ["1234567890123", "007"], "n": ["é", "b;"]},
            {"source.csv": 'id;n\n1234567890123;é\n007;"b;"\n'},
            "cp1252",
        ),
    ],
    "ids_of_one_length": [
        Case(
            "t.csv",
            csv("id,n", "007,1", " 7,2", "p1,3", ",4"),
            {"column": "id"},
            {"id": ["007", "007", "p1", None], "n": list("1234")},
        )
    ],
    "blank_dates": [
        Case(
            "t.csv",
            csv(
                "text,id",
                "Since 03.07.2024 and 7/3/24.,1",
                ",2",
                "2024-07-03: 1.2 x 3.4 cm at T4-5.,3",
            ),
            {"column": "text"},
            {
                "text": ["Since ___ and ___.", None, "___: 1.2 x 3.4 cm at T4-5."],
                "id": list("123"),
            },
        )
    ],
    "prefix_study": [
        Case(
            "t.csv",
            csv("subject,study", "p1,1", "p2,1", "p3,"),
            {"subject": "subject", "study": "study"},
            {"subject": ["p1", "p2", "p3"], "study": ["p1/1", "p2/1", None]},
        )
    ],
    "site": [
        Case(
            "t.csv",
            "",
            {},
            {"id": ["01", "01"], "site": ["north", "south"], "text": [None, "a"]},
            {"north.csv": "id\n01\n", "south.csv": "id,text\n01,a\n"},
        )
    ],
    "quotes_after_backslash": [
        Case(
            "t.csv",
            csv("id;text", r'1;"Lungs \"clear\"; heart."', r'2;"C:\\"', r'3;"a""b\c"', "4;", "5;é"),
            {"separator": ";", "encoding": "cp1252"},
            {"id": list("12345"), "text": ['Lungs "clear"; heart.', "C:\\", 'a"b\\c', None, "é"]},
        )
    ],
    "without_quotes": [
        Case(
            "t.tsv",
            csv("id\ttext", '1\t"Hazy" opacity', '2\tfilm of 17"', '3\t"', "4\t", "5\té"),
            {"separator": "\t", "encoding": "cp1252"},
            {"id": list("12345"), "text": ['"Hazy" opacity', 'film of 17"', '"', None, "é"]},
        )
    ],
    "lines_in_quotes": [
        Case(
            "t.csv",
            csv('"id,text"', '"1,""Clear, normal."""', '"2,é"', "3,plain"),
            {"separator": ",", "encoding": "utf-8"},
            {"id": list("123"), "text": ["Clear, normal.", "é", "plain"]},
        ),
        Case(
            "t.csv",
            csv("id,text", '"1,""two\nlines"""'),
            {"separator": ",", "encoding": "utf-8"},
            {"id": ["1"], "text": ["two\nlines"]},
        ),
    ],
    "explode_lists": [
        Case(
            "t.parquet",
            lists,
            {"columns": ["image", "view"]},
            {
                "id": ["1", "1", "2", "3", "4"],
                "image": ["a.png", "b.png", None, None, "c.png"],
                "view": ["PA", "AP", None, None, None],
            },
        ),
        Case(
            "t.parquet",
            one_list,
            {"columns": ["image"]},
            {"id": ["1", "2"], "image": [None, "a.png"]},
        ),
        Case(
            "t.jsonl",
            csv('{"id": 1, "image": []}', '{"id": 2, "image": ["a.png", "b.png"]}'),
            {"columns": ["image"]},
            {"id": [1, 2, 2], "image": [None, "a.png", "b.png"]},
        ),
    ],
    "lists_as_text": [
        Case(
            "t.csv",
            csv(
                "id,image,view",
                "1,\"['a b.png', 'c.png']\",\"['PA', 'LATERAL']\"",
                '2,"[""d.png""]",PA',
                "3,e.png;f.png,AP; LL",
                "4,[],[]",
                "5,,",
                "6,\"['g, 1.png' 'h.png']\",\"PA,AP\"",
            ),
            {"columns": ["image", "view"]},
            {
                "id": list("11233456") + ["6"],
                "image": ["a b.png", "c.png", "d.png", "e.png", "f.png", None, None]
                + ["g, 1.png", "h.png"],
                "view": ["PA", "LATERAL", "PA", "AP", "LL", None, None, "PA", "AP"],
            },
        )
    ],
    "write_pictures": [
        Case(
            "t.parquet",
            pictures,
            {"column": "image", "folder": "img/new"},
            {"id": ["1", "2", "3"], "image": ["t-0", None, None]},
        ),
        Case(
            "t.parquet",
            bytes_alone,
            {"column": "image", "folder": "img"},
            {"id": ["1", "2"], "image": [None, "t-1"]},
        ),
    ],
    "dates_with_month_names": [
        Case(
            "t.csv",
            csv("date", "05-JAN-2018", " 5-jan-2018 ", '""', "31-Dec-1999"),
            {"column": "date"},
            {"date": ["2018-01-05", "2018-01-05", None, "1999-12-31"]},
        )
    ],
    "times_am_pm": [
        Case(
            "t.csv",
            csv("time,id", "1:05 pm,1", "12:00 AM,2", " 12:30 PM,3", '"",4'),
            {"column": "time"},
            {"time": ["13:05:00", "00:00:00", "12:30:00", None], "id": list("1234")},
        )
    ],
    "times_of_dicom": [
        Case(
            "t.csv",
            csv("time,id", "130500.2,1", "85027.0,2", "830,3", ",4", "000000,5"),
            {"column": "time"},
            {"time": ["13:05:00", "08:50:27", "00:08:30", None, "00:00:00"], "id": list("12345")},
        )
    ],
    "seconds_since_1970": [
        Case(
            "t.csv",
            csv("date,id", "1514808000,1", " 1514808000.0,2", '"",3'),
            {"column": "date"},
            {"date": ["2018-01-01 12:00:00", "2018-01-01 12:00:00", None], "id": list("123")},
        )
    ],
    "spreadsheet_days": [
        Case(
            "t.csv",
            csv("date,id", "43831,1", "43831.75,2", ",3", "60.0,4"),
            {"column": "date"},
            {"date": ["2020-01-01", "2020-01-01", None, "1900-02-28"], "id": list("1234")},
        )
    ],
    "dates_of_cells": [
        Case(
            "t.xlsx",
            dates_of_cells,
            {"column": "date"},
            {
                "id": list("12345"),
                "date": ["2023-01-28", "2024-07-03", None, "2024-02-01 08:30:00", "2024-11-02"],
            },
        )
    ],
    "swap_days": [
        Case(
            "t.csv",
            csv("date,id", "2020-04-03,1", "25/03/2020,2", ",3", " 2020-12-01,4"),
            {"column": "date", "sign": "/"},
            {"date": ["04/03/2020", "25/03/2020", None, "12/01/2020"], "id": list("1234")},
        )
    ],
    "midnight_to_null": [
        Case(
            "t.csv",
            csv("when,id", "00:00:00,1", "00:00,2", "10:00,3", "2018-01-01 00:00:00,4", ",5")
            + csv("2018-01-01T00:00,6", "2018-01-01,7", "0:00:00.0,8", "20:00:00,9"),
            {"column": "when"},
            {
                "when": [None, None, "10:00", "2018-01-01", None, "2018-01-01", "2018-01-01", None]
                + ["20:00:00"],
                "id": list("123456789"),
            },
        )
    ],
    "null_dates": [
        Case(
            "t.csv",
            csv("date,id", "1900-01-01,1", "1900-01-01 00:00,2", "1900-01-10,3", ",4"),
            {"column": "date", "date": "1900-01-01"},
            {"date": [None, None, "1900-01-10", None], "id": list("1234")},
        )
    ],
    "one_split_from_file_names": [
        Case(
            "t.csv",
            "",
            {},
            {"id": ["01", "02", "03"], "split": ["train", "val", "test"], "age": [None, None, "9"]},
            {"train.csv": "id\n01\n", "val.csv": "id\n02\n", "test.csv": "id,age\n03,9\n"},
        )
    ],
    "split_from_path": [
        Case(
            "t.csv",
            csv("image", "train/p1.png", "d\\Validation\\p2.png", "x/test/val.png", "p/train.png"),
            {"column": "image"},
            {
                "image": ["train/p1.png", "d\\Validation\\p2.png", "x/test/val.png", "p/train.png"],
                "split": ["train", "val", "test", None],
            },
        )
    ],
    "views": [
        Case(
            "t.csv",
            csv("view,id", " pa,1", "LAT,2", ",3", "Ap ,4", "AP supine,5"),
            {"column": "view"},
            {"view": ["PA", "LATERAL", None, "AP", "AP supine"], "id": list("12345")},
        )
    ],
    "last_text": [
        Case(
            "t.csv",
            csv("study,findings", "1,b", "1,a", "1,", "2,c", '3,""'),
            {"study": "study", "column": "findings"},
            {"study": list("11123"), "findings": ["a", "a", "a", "c", None]},
        )
    ],
    "decode_entities": [
        Case(
            "t.csv",
            csv("text,id", "&lt; 5 mm &amp; clear,1", ",2", "A&E,3"),
            {"column": "text"},
            {"text": ["< 5 mm & clear", None, "A&E"], "id": list("123")},
        )
    ],
    "strip_tags": [
        Case(
            "t.csv",
            csv("text,id", "<p class=a>Clear.</p>A<BR/>B,1", ",2", "x < 5 mm > y,3"),
            {"column": "text"},
            {"text": ["Clear.\nA\nB", None, "x < 5 mm > y"], "id": list("123")},
        )
    ],
    "drop_signatures": [
        Case(
            "t.csv",
            csv("text,id", '"Clear.\r\n  ELECTRONICALLY SIGNED by\nDr. A",1', ",2")
            + csv('"As dictated.\nHeart.",3', '"A.\nDr. med. A. Roe\nSigned\nIMPRESSION: B.",4')
            + csv('"A.\ngez. Roe",5', '"A.\n\nA. Roe, MD\n1 May",6', '"Dr. Roe was called.\nB.",7')
            + csv('"DR CHEST PA\nClear.",8'),
            {"column": "text"},
            {
                "text": [
                    "Clear.\r\n\n",
                    None,
                    "As dictated.\nHeart.",
                    "A.\n\n\nIMPRESSION: B.",
                    "A.\n",
                ]
                + ["A.\n\n\n1 May", "Dr. Roe was called.\nB.", "DR CHEST PA\nClear."],
                "id": list("12345678"),
            },
        )
    ],
    "colons_after_headings": [
        Case(
            "t.csv",
            csv("text,id", '"Findings\r\nClear.\n IMPRESSION \nNormal.",1', ",2")
            + csv('"FINDINGS: No\ncomparison\nis available.",3'),
            {"column": "text"},
            {
                "text": ["Findings:\nClear.\nIMPRESSION:\nNormal.", None]
                + ["FINDINGS: No\ncomparison\nis available."],
                "id": list("123"),
            },
        )
    ],
    "rename_heading": [
        Case(
            "t.csv",
            csv("text,id", '"EXAM: x\n Result : Clear.",1', ",2", "The result: none.,3"),
            {"column": "text", "heading": "RESULT"},
            {"text": ["EXAM: x\nFINDINGS: Clear.", None, "The result: none."], "id": list("123")},
        )
    ],
    "exam": [
        Case(
            "t.csv",
            csv("text,id", '"\nKNEE, two views\nNo fracture.",1', "Heart normal.,2", ",3")
            + csv('"Chest.\nNo CT for comparison.",4', '"Wide heart.\nEXAM: CT chest. Clear.",5')
            + csv(
                '"Degenerative thoracic spine.\nClear.",6',
                '"Screws in the thoracic spine\nseen.",7',
            ),
            {"column": "text"},
            {
                # a line that ends with a period, or of more than three words, is no title
                "text": ["\nKNEE, two views\nNo fracture.", "Heart normal.", None]
                + ["Chest.\nNo CT for comparison.", "Wide heart.\nEXAM: CT chest. Clear."]
                + ["Degenerative thoracic spine.\nClear.", "Screws in the thoracic spine\nseen."],
                "id": list("1234567"),
                "exam": ["KNEE, two views", *["chest radiograph"] * 3, "CT chest"]
                + ["chest radiograph"] * 2,
            },
        )
    ],
}


def run(case: Case, line: str) -> None:
    """Run a line in a folder with the files of a case. Raises an AssertionError if anything but the
    expected comes out."""
    encoding = case.values.get("encoding", "utf-8")
    if isinstance(case.content, str):
        Path(case.path).write_text(case.content, encoding=encoding, newline="")
    elif case.path.endswith(".xlsx"):
        book = import_module("openpyxl").Workbook()
        for row in (case.content().columns, *case.content().rows()):
            book.worksheets[0].append(row)
        book.save(case.path)
    else:
        case.content().write_parquet(case.path)
    for name, content in (case.others or {}).items():
        Path(name).write_text(content, encoding=case.encoding)
    with redirect_stdout(StringIO()):
        exec(line, {})
    table = pl.read_parquet("t.mended.parquet")
    texts = cs.temporal().cast(pl.String).str.replace(r"\.0+$", "")
    columns = table.with_columns(texts).to_dict(as_series=False)
    assert columns == case.expected, (case, columns)


def main(lines: Path) -> None:
    """Run the lines, of the form ``{name: [a line for each case]}``."""
    for name, codes in json.loads(lines.read_text(encoding="utf-8")).items():
        for case, code in zip(CASES[name], codes, strict=True):
            with tempfile.TemporaryDirectory() as folder:
                os.chdir(folder)
                try:
                    run(case, code)
                except Exception as error:
                    reason = f"{name} fails with polars {pl.__version__}: {error!r}"
                    raise SystemExit(f"{reason}\n{code}") from None
                finally:
                    os.chdir("/")
    print(pl.__version__)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
