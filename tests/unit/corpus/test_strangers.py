"""Tables as strangers hand them over: `strangers.yaml` has each, and what is right for it."""

import csv
import gzip
import io
import unicodedata
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from PIL import Image

from pacer.config import Corpus
from pacer.core.errors import DataError
from pacer.core.schemas import PRIOR_SCHEMA, read_records, read_table
from tests.support.cases import cases
from tests.support.corpus import BASE, built, lines_of, looks_of
from tests.support.dicom import write_dicom
from tests.support.real import real


@cases(__file__)
def test_a_strangers_table(kind: str, case: dict[str, Any], tmp_path: Path) -> None:
    kind = case.get("folder", "tables")
    root = real(f"field/{kind}/{case['field']}") if "field" in case else tmp_path
    if not root.is_dir() or root == tmp_path:
        content, root = _content(case) if root == tmp_path else root.read_bytes(), tmp_path
        (tmp_path / "t.csv").write_bytes(gzip.compress(content) if case.get("packed") else content)
        _draw(content.decode(case.get("encoding", "utf-8")), case, tmp_path)
    for name, text in case.get("files", {}).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    table = {"file": "t.csv", "columns": {}} | case.get("table", {})
    files = {
        "source": "files",
        "format": "table",
        "root": str(root),
        "table": table,
        "max_bad_rows": 9,
    }
    files["images"] = "img" if root != tmp_path else BASE["images"]
    config = Corpus.model_validate(BASE | files | case.get("corpus", {}))
    if "error" in case:
        with pytest.raises(DataError, match=case["error"]) as error:
            built(config, tmp_path)
        assert "truncated" not in str(error.value)
        return
    audit = built(config, tmp_path)
    records, lines = read_records(tmp_path / "corpus" / "records.parquet"), lines_of(audit)
    priors = read_table(tmp_path / "corpus" / "priors.parquet", PRIOR_SCHEMA)
    problems = pl.read_csv(tmp_path / "corpus" / "problems.csv", infer_schema=False)
    by_id = {record["record_id"]: record for record in records.to_dicts()}
    for record_id, fields in case.get("records", {}).items():
        assert {name: by_id[record_id][name] for name in fields} == fields
    for name, words in case.get("lines", {}).items():
        assert words.strip() in lines[name] and case.get("advice", "") in lines[name]
    assert set(case.get("looks", [])) <= looks_of(audit)
    for topic, notes in case.get("notes", {}).items():
        assert audit["notes"].get(topic) == notes
    reasons = Counter[str]()
    for reason, number in audit["excluded"]["reasons"].items():
        reasons[reason if reason in case.get("reasons", {}) else reason.partition(":")[0]] += number
    known = {
        "reports": dict(records.select("record_id", "report").iter_rows()),
        "studies": sorted(records["study_id"].unique()),
        "splits": dict(sorted(records.unique("study_id")["split"].value_counts().iter_rows())),
        "priors": dict(priors.select("study_id", "prior_study_id").iter_rows()),
        "chosen": {study: list(choice) for study, *choice in priors.iter_rows()},
        "reasons": dict(reasons),
        "left out": audit["left_out"]["reasons"],
        "rows": {name: audit["rows"][name] for name in case.get("rows", {})},
        "doubted": problems.filter(kind="doubted").height,
    }
    expected = {
        name: sorted(case[name]) if name == "studies" else case[name]
        for name in known.keys() & case
    }
    assert {name: known[name] for name in expected} == expected
    assert "doubted" in case or not known["doubted"] or "field" in case


def _content(case: dict[str, Any]) -> bytes:
    """A table as its case writes it; a written-out line break within a text is one, unless the case
    is raw."""
    content = case["csv"].encode(case.get("encoding", "utf-8"))
    return content if case.get("raw") else content.replace(rb"\n", b"\n")


def _draw(text: str, case: dict[str, Any], folder: Path) -> None:
    """Write the images that a table names: all of one size, and of one content if they are
    ``equal``; or take those of a folder of ``field``."""
    if "pictures" in case:
        (folder / "pictures").symlink_to(real(f"field/{case['pictures']}"))
        return
    text = text.removeprefix("sep=;\n").replace('\\"', '""')
    given = case.get("table", {}).get("columns", {})
    columns = [given.get(name, name) for name in ("image", "frontal", "lateral")]
    rows = csv.DictReader(
        io.StringIO(text, newline=""), delimiter=";" if ";" in text.partition("\n")[0] else ","
    )
    stripped = [{name.strip(): cell for name, cell in row.items() if name} for row in rows]
    named = [(row.get(column) or "").replace("\\", "/") for row in stripped for column in columns]
    for nth, name in enumerate(filter(None, named)):
        if "." in name and ".." not in name and name not in case.get("missing", []):
            name = (
                unicodedata.normalize("NFC" if nth == 0 else "NFD", name)
                if case.get("renamed")
                else name
            )
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            if "headers" in case and name.endswith(".dcm"):
                write_dicom(
                    path, np.arange(400).reshape(20, 20) + nth, **case["headers"].get(name, {})
                )
            elif not path.exists():
                Image.new("L", (16, 16), 99 if name in case.get("equal", []) else nth).save(path)
