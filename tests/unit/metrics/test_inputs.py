"""References and reports of any program: what fits is paired, what does not is named, never guessed
at."""

import gzip
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from pacer.core.errors import DataError
from pacer.metrics.options import Pairing
from pacer.metrics.pair import pair_reports
from pacer.metrics.predictions import read_predictions
from pacer.statistics.calls import pairs_of
from pacer.tables.generated import without_repeats
from pacer.tables.reports import HYPOTHESES, REFERENCES, reports_of
from pacer.tables.sources import Source
from tests.support.cases import listed_cases
from tests.support.repository import ROOT


def paired(
    references: Source, hypotheses: Source, **protocol: Any
) -> tuple[dict[str, tuple[str, str]], dict[str, Any]]:
    """Reference and report of each case, and the counts of what was done."""
    chosen = Pairing(**protocol)
    cases, origin = pairs_of(references, hypotheses, {}, chosen)
    counts = dict(origin.protocol or {})
    rows = cases.select("record_id", "reference", "hypothesis").iter_rows()
    return {key: (reference, report) for key, reference, report in rows}, counts


THREE = {"101": "no effusion .", "102": "the heart is large .", "103": "a tube ."}


class Index(list):
    names: list[str | None]


class Frame:
    """What is read of a frame of pandas, or of a series, which has no columns."""

    def __init__(self, index: list[Any], names: Sequence[str | None] = (None,), **content: Any):
        self.index = Index(map(tuple, index) if isinstance(index[0], list) else index)
        self.index.names = list(names)
        self.values = content.get("values")
        if "columns" in content:
            self.content = content["columns"]
            self.columns = [*self.content, *content.get("repeated", [])]

    def to_frame(self, name: str) -> "Frame":
        return Frame(self.index, self.index.names, columns={name: self.values})

    def __getitem__(self, name: str) -> list[Any]:
        return self.content[name]


class Data:
    """What is read of a data set of Hugging Face."""

    def __init__(self, content: dict[str, list[Any]]):
        self.content = content

    def __len__(self) -> int:
        return len(self.content)

    def with_format(self, kind: str) -> pa.Table:
        assert kind == "arrow"
        return pa.table(self.content)


class Splits(dict):
    """What is read of a dictionary of data sets by split."""

    with_format = Data.with_format


OBJECTS = {
    "frame": lambda content: Frame(**content),
    "series": lambda content: Frame(**content),
    "polars": pl.DataFrame,
    "lazy": pl.LazyFrame,
    "arrow": pa.table,
    "data set": Data,
    "splits": lambda content: Splits(test=Data(content)),
    "series of polars": lambda content: {
        name: pl.Series(values) for name, values in content.items()
    },
    "array": np.array,
    "polars series": pl.Series,
    "numbers": lambda texts: {np.int64(number): text for number, text in enumerate(texts)},
}


def source(spec: Any, folder: Path) -> Any:
    """The object or the file that a case describes."""
    name = next(iter(spec)) if isinstance(spec, Mapping) else ""
    if name in OBJECTS:
        return OBJECTS[name](spec[name])
    if name == "path" or not ("." in name or name == "folder"):
        return folder / spec[name] if name == "path" else spec
    path, content = folder / name, spec[name]
    if "round" in spec:
        content = content.replace(
            dict(id="a", study_id="s", subject_id="p")[spec["round"]] + ",", "1.23457E+12,"
        )
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif not path.suffix:  # a folder of texts
        path.mkdir()
        for file, text in content.items():
            (path / file).write_text(text, encoding="utf-8")
    elif path.suffix == ".parquet":
        pl.DataFrame(content).write_parquet(path)
    elif path.suffix == ".jsonl" and isinstance(content, dict):
        rows = (
            content
            if "report" in content
            else {"id": list(content), "report": list(content.values())}
        )
        path.write_text(
            "".join(
                json.dumps(dict(zip(rows, row))) + "\n" for row in zip(*rows.values(), strict=True)
            )
        )
    else:
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def filled(part: Any, value: str) -> Any:
    """A part of a case with a value in the place of EACH."""
    if isinstance(part, str):
        return value if part == "EACH" else part.replace("EACH", str(value))
    if isinstance(part, dict):
        return {filled(key, value): filled(item, value) for key, item in part.items()}
    return [filled(item, value) for item in part] if isinstance(part, list) else part


@pytest.mark.parametrize("described", listed_cases(__file__, "inputs"))
def test_inputs(described: dict[str, Any], tmp_path: Path) -> None:
    for value in described.get("each", [""]):
        case = filled(described, value)
        sides = (
            source(case.get(side, case.get("both", THREE)), tmp_path)
            for side in ("references", "hypotheses")
        )
        references, hypotheses = sides
        if "error" in case:
            with pytest.raises(DataError, match=case["error"]) as error:
                paired(references, hypotheses, **case.get("options", {}))
            assert "zephyrine" not in str(error.value), value
            continue
        pairs, counts = paired(references, hypotheses, **case.get("options", {}))
        if "pairs" in case:
            assert {key: [text.strip() for text in pair] for key, pair in pairs.items()} == case[
                "pairs"
            ], value
        for name, count in case.get("counts", {}).items():
            assert counts.get(name) == count, (value, name)
        for name, values in case.get("cells", {}).items():
            assert reports_of(references, REFERENCES).rows[name].to_list() == values, value


def test_a_workbook_is_read_as_its_csv_file(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl", reason="needs the extra `excel`")
    book = openpyxl.Workbook()
    for row in (
        ("id", "report", "prediction"),
        (7, "clear .", "no effusion ."),
        (8, "a tube .", None),
    ):
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    pairs, counts = paired(
        tmp_path / "t.xlsx",
        tmp_path / "t.xlsx",
        reference_text="report",
        hypothesis_text="prediction",
    )
    assert pairs == {"7": ("clear .", "no effusion ."), "8": ("a tube .", "")}
    assert counts["blank_hypotheses"] == "1 (8)"


@given(st.lists(st.sampled_from(["a b .", "c .", "d?", "no e ."]), max_size=12))
def test_sentences_stand_once(sentences):
    once = without_repeats(" ".join(sentences))
    assert once == without_repeats(once) == " ".join(dict.fromkeys(sentences))
    assert without_repeats("No effusion. no  effusion . Size 1.2 cm") == "No effusion. Size 1.2 cm"


SECRET = "zephyrine effusion"
LISTS = {"positive": ["edema"], "negative": [], "uncertain": []}
LINE = {
    "record_id": "sn-1",
    "report": SECRET,
    "anchor": LISTS,
    "fallback": False,
    "gate": 0.5,
}


def test_a_line_needs_no_more_than_id_and_report(tmp_path):
    path = tmp_path / "sn.jsonl"
    described = LINE | {"anchor": LISTS | {"attributes": ["left edema"]}, "tokens": 7}
    path.write_text(
        json.dumps({"record_id": "sn-2", "report": "x"}) + "\n" + json.dumps(described) + "\n"
    )
    whole, bare = read_predictions(path, ["sn-1", "sn-2"]).to_dicts()
    assert {name: whole[f"anchor_{name}"] for name in LISTS} == LISTS
    assert (whole["fallback"], whole["gate"]) == (False, 0.5)
    said = ("hypothesis", "anchor_positive", "fallback", "gate")
    assert [bare[name] for name in said] == ["x", None, False, None]
    twice = LINE | {"anchor": LISTS | {"negative": ["edema"], "uncertain": ["edema", "fracture"]}}
    path.write_text(json.dumps(twice) + "\n")
    [row] = read_predictions(path, ["sn-1"]).to_dicts()  # positive before uncertain before negative
    assert [row[f"anchor_{name}"] for name in LISTS] == [["edema"], [], ["fracture"]]


@pytest.mark.parametrize(("change", "problem"), listed_cases(__file__, "wrong"))
def test_columns_of_the_wrong_kind_are_named_with_line_and_record(tmp_path, change, problem):
    path = tmp_path / "sn.jsonl"
    path.write_text("\n" + json.dumps(LINE | change) + "\n")
    with pytest.raises(DataError, match=rf"sn.jsonl, line 2 \(sn-1\).*{problem}") as error:
        read_predictions(path, ["sn-1"])
    assert SECRET not in str(error.value)


DOCUMENT = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
#: The code of the recipes: lines that serve all of them, then each recipe below its heading.
CODE = re.findall(r"```python\n(import.*?)```", DOCUMENT, re.DOTALL)[0]
SHARED, *PARTS = re.split(r"^# (recipe \d)", CODE, flags=re.MULTILINE)
RECIPES = {
    name: f"{SHARED}# {name}{code}" for name, code in zip(PARTS[::2], PARTS[1::2], strict=True)
}
STUDIES, DICOMS = ["50414267", "53189527", "53911762"], ["02aa804e", "2a2277a9", "68b5c4b1"]
TEXTS = [
    "the heart is normal .",
    'small , "left" effusion .',
    "no pneumothorax . lines: unchanged .",
]
FRONTALS = [
    f"p10/p10000032/s{study}/{dicom}.jpg" for study, dicom in zip(STUDIES, DICOMS, strict=True)
]


def records(split: str = "test") -> pl.DataFrame:
    content = {
        "record_id": [f"sn-{n}" for n in range(3)],
        "context": "sn",
        "split": split,
        "study_id": STUDIES,
    }
    return pl.DataFrame(
        content | {"frontal": FRONTALS, "report": [f"reference {n} ." for n in range(3)]}
    )


@pytest.mark.parametrize("case", listed_cases(__file__, "systems"))
def test_a_systems_files_come_to_their_records(
    tmp_path: Path, monkeypatch, case: dict[str, Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    train = records("train").with_columns(record_id=pl.col("record_id") + "-t")
    pl.concat([records(), train]).write_parquet("records.parquet")
    records().write_parquet("references.parquet")
    for name, content in case["files"].items():
        Path(name).write_text(content if isinstance(content, str) else json.dumps(content))
    if "recipe" in case:
        exec(RECIPES[case["recipe"]], {})
    references = reports_of("references.parquet", REFERENCES, case.get("id"))
    paired, counts = pair_reports(references, reports_of(case["scored"], HYPOTHESES), Pairing())
    assert paired["reference"].to_list() == [f"reference {n} ." for n in range(3)]
    assert paired["hypothesis"].to_list() == TEXTS and counts["missing_hypotheses"] == 0


def test_reports_of_all_four_contexts_come_into_one_file(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    contexts = ("sn", "sw", "mn", "mw")
    own = {
        c: records().with_columns(
            record_id=pl.format("{}-{}", pl.lit(c), "study_id"), context=pl.lit(c)
        )
        for c in contexts
    }
    pl.concat(own.values()).write_parquet("records.parquet")
    for context in contexts:
        texts = [f"{context} {text}" for text in TEXTS]
        pl.DataFrame({"report": texts, "dicom_id": DICOMS}).reverse().write_csv(
            f"reports-{context}.csv"
        )
    exec(RECIPES["recipe 6"], {})
    references = reports_of("records.parquet", REFERENCES)
    paired, _ = pair_reports(references, reports_of("hypotheses.jsonl", HYPOTHESES), Pairing())
    assert paired["hypothesis"].to_list() == [
        f"{context} {text}" for context in contexts for text in TEXTS
    ]
    assert paired["context"].to_list() == [context for context in contexts for _ in TEXTS]


def test_records_that_a_system_left_out_take_the_report_of_the_nearest_radiograph(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    y, x = np.mgrid[0:1:64j, 0:1:64j]
    noise = 5 * np.random.default_rng(0).random(x.shape)
    for dicom, pixels, edge in zip(
        DICOMS, (200 * x, 200 * y, 40 + 100 * y + noise), (64, 64, 128), strict=True
    ):
        Image.fromarray(pixels.astype(np.uint8)).resize((edge, edge)).save(
            f"{dicom}.png"
        )  # brightness, size: no matter
    pl.DataFrame(
        {"image_id": FRONTALS, "path": [f"{dicom}.png" for dicom in DICOMS]}
    ).write_parquet("images.parquet")
    records().write_parquet("records.parquet")
    pl.DataFrame({"record_id": ["sn-1", "sn-0"], "report": TEXTS[1::-1]}).write_ndjson(
        "reports.jsonl"
    )
    exec(RECIPES["recipe 7"], {})
    found = pl.read_ndjson("hypotheses.jsonl")
    assert dict(found.iter_rows()) == {"sn-0": TEXTS[0], "sn-1": TEXTS[1], "sn-2": TEXTS[1]}
