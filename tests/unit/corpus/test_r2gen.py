"""R2Gen's annotation.json, for IU X-Ray and MIMIC-CXR."""

import json
from pathlib import Path
from typing import Any

import pytest

from pacer.config import Corpus
from pacer.corpus.readers.r2gen import read
from pacer.corpus.source import Source
from tests.support.cases import cases
from tests.support.corpus import BASE, read_rows

IMAGES = ["CXR2384_IM-0942/0.png", "CXR2384_IM-0942/1.png"]
RECORDS: dict[str, dict[str, Any]] = {
    "iu": {
        "id": "CXR2384_IM-0942",
        "report": "Lungs are clear.",
        "split": "train",
        "image_path": IMAGES,
    },
    "mimic": {
        "id": "02aa804e",
        "report": "No effusion.",
        "image_path": ["p10/p10000032/s50414267/02aa804e.jpg"],
        "split": "train",
        "subject_id": 10000032,
        "study_id": 50414267,
    },
}


@cases(__file__)
def test_a_record(kind: str, case: dict[str, Any], tmp_path: Path) -> None:
    record = RECORDS[kind] | case.get("change", {})
    record = {name: value for name, value in record.items() if name not in case.get("absent", [])}
    _check(case.get("record", record), case, tmp_path)


@pytest.mark.parametrize(
    "change", [{"id": "\ud800"}, {"report": "secret \udfff"}, {"image_path": ["\ud800"]}]
)
def test_half_of_a_surrogate_pair(change: dict[str, Any], tmp_path: Path) -> None:
    _check(RECORDS["iu"] | change, {"field": next(iter(change)), "reason": "surrogate"}, tmp_path)


def _check(record: Any, case: dict[str, Any], folder: Path) -> None:
    files = {"annotation": folder / "annotation.json"}
    files["annotation"].write_text(json.dumps({"train": [record], "val": []}))
    if "views" in case:
        files["views"] = folder / "views.csv"
        files["views"].write_text(case["views"])
    of_format = {"format": "r2gen", "r2gen": {"annotation": "annotation.json", "views": None}}
    of_files = {"source": "files", "root": str(folder), "contexts": ["sn", "mn"]}
    config = Corpus.model_validate(BASE | of_files | of_format)
    (row,), notes = read_rows(read, Source(folder / "images", files, None), config)
    assert notes.read == {"annotation": 1}
    assert notes.topics == case.get("notes", notes.topics)
    assert {name: row.get(name) for name in case.get("study", {})} == case.get("study", {})
    assert "study" in case or case["reason"] in row["reason"]
    assert row.get("field", "") == case.get(
        "field", row.get("field", "")
    ) and "secret" not in row.get("reason", "")
