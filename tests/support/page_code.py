"""Odd but valid input for the Python code of docs/data.md and docs/experiments.md that uses polars,
and what must come out.

As a script it runs the code with the polars of the environment; it needs numpy, Pillow and the
standard library besides: ``python tests/support/page_code.py``. It prints the polars version.
"""

import json
import os
import re
import tempfile
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
from PIL import Image

_DOCS = Path(__file__).resolve().parents[2] / "docs"


class PageCase(NamedTuple):
    """Files, by name, with their text, content for JSON, or a function that writes them; the
    columns that come out; and words that are printed."""

    files: dict[str, Any]
    expected: dict[str, list[Any]]
    printed: str = ""


def page_code() -> dict[str, str]:
    """Return the code that uses polars of both pages, by the words that head it."""
    data, experiments = (
        (_DOCS / f"{name}.md").read_text("utf-8") for name in ("data", "experiments")
    )
    found = {}
    for heading, code in re.findall(
        r"^\*\*([^*]+)\*\*(?:(?!^\*\*)[\s\S])*?^```python\n([\s\S]*?)^```", data, re.M
    ):
        shared, *parts = code.split("\n\n# ")
        if parts:
            found |= {re.split("[,:]", part)[0]: f"{shared}\n# {part}" for part in parts}
        else:
            found[heading] = code
    recipes = "import pathlib" + experiments.partition("import pathlib")[2].partition("```")[0]
    shared, *parts = re.split(r"^# (recipe \d)", recipes, flags=re.M)
    return found | {
        name: f"{shared}# {name}{code}" for name, code in zip(parts[::2], parts[1::2], strict=True)
    }


def csv(*rows: str) -> str:
    return "\n".join(rows) + "\n"


def picture(name: str) -> None:
    Image.new("L", (4, 4)).save(name, "PNG")


def one_colour(name: str) -> None:
    Image.new("L", (64, 64), 90).save(name)


def ramp(name: str) -> None:
    Image.linear_gradient("L").save(name)


def turned_ramp(name: str) -> None:
    Image.linear_gradient("L").rotate(90).save(name)


def nearly_a_ramp(name: str) -> None:
    Image.linear_gradient("L").rotate(5).save(name)


def records(name: str, contexts: tuple[str, ...] = ("sn",)) -> None:
    """Test records of four images, of which one is in no other file, and one of another split."""
    rows = [
        {
            "record_id": f"{context}-{number}",
            "context": context,
            "split": "train" if number == 4 else "test",
            "frontal": f"p10/p1/s{number}/0{number}e5.jpg",
        }
        for context in contexts
        for number in range(5)
    ]
    pl.DataFrame(rows).write_parquet(name)


def records_of_all_contexts(name: str) -> None:
    records(name, ("sn", "sw", "mn", "mw"))


def shard(rows: list[dict[str, Any]], schema: dict[str, Any]) -> Callable[[str], None]:
    return lambda name: pl.DataFrame(rows, schema).write_parquet(name)


_PICTURE = pl.Struct({"bytes": pl.Binary, "path": pl.String})
_LISTS = {"exam": pl.String, "image": pl.List(_PICTURE), "view": pl.List(pl.String)}
_CELL = {"bytes": b"PNG", "path": None}
_CHEXPERT = (
    "path_to_image,frontal_lateral,ap_pa,deid_patient_id,patient_report_date_order,"
    "section_findings,section_impression,section_clinical_history"
)

CASES: dict[str, list[PageCase]] = {
    "Hugging Face's Parquet": [
        PageCase(
            {
                "train-00000-of-00001.parquet": shard(
                    [
                        {"exam": "1", "image": [_CELL, _CELL], "view": ["PA", "LATERAL"]},
                        {"exam": "2", "image": [], "view": []},
                        {"exam": "3", "image": None, "view": None},
                    ],
                    _LISTS,
                ),
                "test-00000-of-00001.parquet": shard(
                    [{"exam": "4", "image": [{"bytes": None, "path": "x.png"}], "view": [None]}],
                    _LISTS | {"age": pl.Null},
                ),
                "validation-0.parquet": shard(
                    [{"exam": "5", "image": [], "view": [], "age": "60"}],
                    _LISTS | {"age": pl.String},
                ),
            },
            {
                "exam": ["1", "1", "2", "3", "5", "4"],
                "image": ["pictures/0", "pictures/1", None, None, None, None],
                "view": ["PA", "LATERAL", None, None, None, None],
                "split": ["train"] * 4 + ["validation", "test"],
                "age": [None] * 4 + ["60", None],
            },
        ),
        PageCase(
            {
                "validation-0.parquet": shard(
                    [{"exam": "01", "image": _CELL}, {"exam": "2", "image": None}],
                    {"exam": pl.String, "image": _PICTURE},
                )
            },
            {
                "exam": ["01", "2"],
                "image": ["pictures/0", None],
                "split": ["validation", "validation"],
            },
        ),
    ],
    "Kaggle's two tables of Open-I": [
        PageCase(
            {
                "indiana_reports.csv": csv(
                    "uid,MeSH,image,indication,comparison,findings,impression",
                    '1,normal,Xray Chest PA,cough,None.,"Clear, ""normal"".",',
                    "02,normal,Xray Chest PA,,,,Normal.",
                ),
                "indiana_projections.csv": csv(
                    "uid,filename,projection", "1,1_a.dcm.png,Frontal", "1,1_b.dcm.png,Lateral"
                )
                + "3,3_a.dcm.png,Frontal\n",
            },
            {
                "uid": ["1", "1", "02"],
                "MeSH": ["normal"] * 3,
                "indication": ["cough", "cough", None],
                "comparison": ["None.", "None.", None],
                "findings": ['Clear, "normal".', 'Clear, "normal".', None],
                "impression": [None, None, "Normal."],
                "filename": ["1_a.dcm.png", "1_b.dcm.png", None],
                "projection": ["Frontal", "Lateral", None],
            },
        )
    ],
    "CheXpert Plus": [
        PageCase(
            {
                "df_chexpert_plus_240401.csv": csv(
                    _CHEXPERT,
                    'train/patient1/study2/view1_frontal.jpg,Frontal,AP,patient1,2,"a\nb",,',
                    "train/patient1/study2/view2_lateral.jpg,Lateral,,patient1,2,,c,d",
                    "valid/patient1/study10/view1_frontal.jpg,Frontal,,patient1,,,,",
                )
            },
            {
                "study": ["patient1/study2", "patient1/study2", "patient1/study10"],
                "subject": ["patient1"] * 3,
                "order": ["2", "2", None],
                "history": [None, "d", None],
                "findings": ["a\nb", None, None],
                "impression": [None, "c", None],
                "image": [
                    "PNG/train/patient1/study2/view1_frontal.png",
                    "PNG/train/patient1/study2/view2_lateral.png",
                    "PNG/valid/patient1/study10/view1_frontal.png",
                ],
                "view": ["AP", "LATERAL", "Frontal"],
            },
        )
    ],
    "ReXGradient-160K": [
        PageCase(
            {
                f"metadata/{split}_metadata_view_position.json": {
                    f"{split}-{number}": {
                        "PatientID": "P1",
                        "ImagePath": images,
                        "ImageViewPosition": views,
                        "Indication": None,
                        "Findings": "é",
                        "Impression": "",
                    }
                    for number, (images, views) in enumerate(studies)
                }
                for split, studies in (
                    ("train", [(["../deid_png/a.png", "deid_png/b.png"], ["PA", None]), ([], [])]),
                    ("valid", [(["../c.png", "../d.png"], ["PA"]), (None, None)]),
                    ("test", [(["../e.png"], ["LATERAL"])]),
                )
            },
            {
                "study": ["train-0", "train-0", "train-1", "valid-1", "test-0"],
                "subject": ["P1"] * 5,
                "split": ["train", "train", "train", "valid", "test"],
                "indication": [None] * 5,
                "findings": ["é"] * 5,
                "impression": [""] * 5,
                "image": ["deid_png/a.png", "deid_png/b.png", None, None, "e.png"],
                "view": ["PA", None, None, None, "LATERAL"],
            },
            "left out: valid-0, with 2 images and 1 views",
        )
    ],
    "PadChest-GR": [
        PageCase(
            {
                "grounded_reports_20240819.json": [
                    {
                        "StudyID": "S0",
                        "findings": [{"sentence_en": "Clear. "}, {"sentence_en": "é"}],
                    },
                    {"StudyID": "S1", "findings": []},
                ],
                "master_table.csv": csv(
                    "StudyID,ImageID,PatientID,StudyDate_DICOM,label,split",
                    "S0,0.png,07,20150101,normal,train",
                    "S0,0.png,07,20150101,mass,train",
                    "S1,1.png,8,,normal,validation",
                    "S2,2.png,9,20150203,normal,test",
                ),
            },
            {
                "split": ["train", "validation", "test"],
                "view": ["FRONTAL"] * 3,
                "findings": ["Clear. é.", "", None],
                "date": ["2015-01-01", None, "2015-02-03"],
                "subject": ["07", "8", "9"],
                "study": ["S0", "S1", "S2"],
                "image": [f"Padchest_GR_files/{number}.png" for number in range(3)],
            },
        )
    ],
    "recipe 1": [
        PageCase(
            {
                "records.parquet": records,
                "order.csv": csv("record_id", "sn-1", "sn-0", "sn-2"),
                "res.csv": csv('"a, ""b"""', "007", '""'),
            },
            {"record_id": ["sn-1", "sn-0", "sn-2"], "report": ['a, "b"', "007", ""]},
        )
    ],
    "recipe 2": [
        PageCase(
            {
                "records.parquet": records,
                "reports.csv": csv("report,dicom_id", "a,02e5", ",00e5", '"b\nc",01e5', "d,99"),
            },
            {"record_id": ["sn-0", "sn-1", "sn-2"], "report": ["", "b\nc", "a"]},
        )
    ],
    "recipe 3": [
        PageCase(
            {
                "records.parquet": records,
                "answers.json": [
                    {"image_path": ["x/00e5.jpg", "y/02e5.png"], "candidate_findings": "a"},
                    {"image_path": [], "candidate_findings": "b"},
                    {"image_path": ["01e5.jpg"], "candidate_findings": None},
                ],
            },
            {"record_id": ["sn-0", "sn-1", "sn-2"], "report": ["a", "", "a"]},
        )
    ],
    "recipe 4": [
        PageCase(
            {
                "records.parquet": records,
                "reports.csv": csv(
                    "findings,impression,study_id", "a,,007", ",b,8", ",,9", "c,d,1"
                ),
            },
            {"study_id": ["007", "8", "9", "1"], "report": ["a", "b", "", "c d"]},
        )
    ],
    "recipe 5": [
        PageCase(
            {"records.parquet": records, "reports.txt": text},
            {"record_id": ["sn-0", "sn-1", "sn-2"], "report": ["a: é", "", "c"]},
        )
        for text in (
            "Image path: x/02e5.jpg\nGenerated report: c\nReference report: r\n\n"
            "Image path: 01e5.jpg\nGenerated report:\n\n"
            "Image path: x/00e5.jpg\nGenerated report: a: é",
            "Image path: C:\\x\\00e5.jpg\r\nGenerated report: a: é\r\n"
            "Image path: 01e5.jpg\r\nGenerated report: \r\n"
            "Image path: 02e5.jpg\r\nGenerated report: c\r\n",
        )
    ],
    "recipe 6": [
        PageCase(
            {
                "records.parquet": records_of_all_contexts,
                "reports-sn.csv": csv("dicom_id,report", "01e5,007", "00e5,1"),
                "reports-sw.csv": csv("dicom_id,report", "01e5,"),
                "reports-mn.csv": csv("dicom_id,report"),
                "reports-mw.csv": csv("dicom_id,report", '00e5,"a\nb"'),
            },
            {
                "record_id": ["mw-0", "sn-0", "sn-1", "sw-1"],
                "report": ["a\nb", "1", "007", ""],
            },
        )
    ],
    "recipe 7": [
        PageCase(
            {
                "records.parquet": records,
                "images.parquet": lambda name: pl.DataFrame(
                    {
                        "image_id": [f"p10/p1/s{number}/0{number}e5.jpg" for number in range(4)],
                        "path": [f"{number}.png" for number in range(4)],
                    }
                ).write_parquet(name),
                "reports.jsonl": "".join(
                    json.dumps({"record_id": f"sn-{number}", "report": text}) + "\n"
                    for number, text in ((0, "one colour"), (1, "turned"), (2, "ramp"))
                ),
                "0.png": one_colour,
                "1.png": turned_ramp,
                "2.png": ramp,
                "3.png": nearly_a_ramp,
            },
            {
                "record_id": ["sn-0", "sn-1", "sn-2", "sn-3"],
                "report": ["one colour", "turned", "ramp", "ramp"],
            },
        ),
        PageCase(
            {
                "records.parquet": lambda name: pl.DataFrame(
                    [{"record_id": "sn-0", "context": "sn", "split": "test", "frontal": "a/0.jpg"}]
                ).write_parquet(name),
                "images.parquet": lambda name: pl.DataFrame(
                    {"image_id": ["a/0.jpg"], "path": ["0.png"]}
                ).write_parquet(name),
                "reports.jsonl": '{"record_id": "sn-0", "report": "a"}\n',
                "0.png": ramp,
            },
            {"record_id": ["sn-0"], "report": ["a"]},
        ),
    ],
}
#: The files that the code writes.
_OUTPUTS = {
    "studies.parquet": pl.read_parquet,
    "hypotheses.jsonl": pl.read_ndjson,
    "hypotheses.csv": lambda path: pl.read_csv(path, infer_schema=False),
}


def run_case(case: PageCase, code: str) -> None:
    """Run the code in the current folder, with the files of a case. Raises an AssertionError if
    anything but the expected comes out."""
    for name, content in case.files.items():
        Path(name).parent.mkdir(exist_ok=True)
        if callable(content):
            content(name)
        else:
            text = content if isinstance(content, str) else json.dumps(content)
            Path(name).write_text(text, encoding="utf-8", newline="")
    printed = StringIO()
    with redirect_stdout(printed):
        exec(code, {})
    (table,) = (read(name) for name, read in _OUTPUTS.items() if Path(name).exists())
    table = table.with_columns(pl.selectors.temporal().cast(pl.String))
    if table.columns[0] == "record_id" and "order.csv" not in case.files:
        table = table.sort("record_id")
    columns = table.to_dict(as_series=False)
    assert columns == case.expected, (columns, case.expected)
    assert case.printed in printed.getvalue(), printed.getvalue()


def main() -> None:
    """Run all code on its cases, each in a folder of its own."""
    code = page_code()
    if code.keys() != CASES.keys():
        raise SystemExit(f"cases and pages differ: {sorted(code.keys() ^ CASES.keys())}")
    for name, cases in CASES.items():
        for case in cases:
            with tempfile.TemporaryDirectory() as folder:
                os.chdir(folder)
                try:
                    run_case(case, code[name])
                except Exception as error:
                    message = f"{name} fails with polars {pl.__version__}: {error!r}"
                    raise SystemExit(message) from None
                finally:
                    os.chdir("/")
    print(pl.__version__)


if __name__ == "__main__":
    main()
