"""Tables as strangers hand them over: `strangers.yaml` has each, and what is right for it."""

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from PIL import Image

from pacer.config import Corpus
from pacer.core.errors import DataError
from pacer.core.schemas import PRIOR_SCHEMA, read_records, read_table
from pacer.corpus.checks import IN_POLARS, TOPICS
from tests.support.cases import cases
from tests.support.corpus import built, lines_of, looks_of
from tests.support.dicom import write_dicom
from tests.support.profiles import profile
from tests.support.real import real

BASE = profile("table").corpus.model_dump() | {"images": ".", "max_bad_rows": 9}
TITLES = {topic: about["title"] for topic, about in TOPICS.items()}
#: The columns of a case that gives only `rows`.
HEADER = "subject,study,image,view,date,findings\n"


@cases(__file__)
def test_a_strangers_table(kind: str, case: dict[str, Any], tmp_path: Path) -> None:
    root, images = tmp_path, "."
    if "field" in case:
        found = real(f"field/{case['field']}")
        root, images = (found, "img") if found.is_dir() else (tmp_path, ".")
    if root == tmp_path:
        _write(case, tmp_path)
    table = {"file": "t.csv", "columns": {}} | case.get("table", {})
    settings = {"root": str(root), "images": images, "table": table} | case.get("corpus", {})
    config = Corpus.model_validate(BASE | settings)
    if "refused" in case:
        with pytest.raises(DataError) as error:
            built(config, tmp_path)
        assert case["refused"] in str(error.value)
        return
    audit = built(config, tmp_path)
    lines, looks = lines_of(audit), looks_of(audit)
    for topic, words in case.get("counted", {}).items():
        title = TITLES.get(topic, topic)
        assert words in lines[title] and title in looks
    for topic, words in case.get("said", {}).items():
        assert words in lines[TITLES.get(topic, topic)]
    assert not {TITLES[topic] for topic in case.get("not counted", [])} & lines.keys()
    records = read_records(tmp_path / "corpus" / "records.parquet")
    by_id = {record["record_id"]: record for record in records.to_dicts()}
    for record_id, fields in case.get("records", {}).items():
        assert {name: by_id[record_id][name] for name in fields} == fields
    priors = read_table(tmp_path / "corpus" / "priors.parquet", PRIOR_SCHEMA)
    problems = pl.read_csv(tmp_path / "corpus" / "problems.csv", infer_schema=False)
    bad = audit["excluded"]["reasons"].items()
    known = {
        "reports": dict(records.filter(context="sn").select("study_id", "report").iter_rows()),
        "studies": records["study_id"].unique(maintain_order=True).to_list(),
        "priors": dict(priors.select("study_id", "prior_study_id").iter_rows()),
        "gaps": dict(priors.select("study_id", "gap_days").iter_rows()),
        "bad": {
            short: sum(number for reason, number in bad if reason.startswith(short))
            for short in {reason.partition(IN_POLARS)[0] for reason, _ in bad}
        },
        "left out": audit["left_out"]["reasons"],
        "previous only": audit["rows"]["previous_only"],
        "used": audit["rows"]["used"],
        "doubted": problems.filter(kind="doubted").height,
    }
    assert {name: known[name] for name in known.keys() & case} == {
        name: case[name] for name in known.keys() & case
    }


def _write(case: dict[str, Any], folder: Path) -> None:
    """Write the files of a case, and the images that they name: all of one size, and of one content
    if they are ``equal``."""
    if "field" in case:
        content = real(f"field/{case['field']}").read_text("utf-8")
    elif "texts" in case:
        rows = [[f"p{n}", f"s{n}", f"{n}.png", "PA", text] for n, text in enumerate(case["texts"])]
        written = io.StringIO(newline="")
        header = ["subject", "study", "image", "view", case.get("column", "findings")]
        csv.writer(written, lineterminator="\n").writerows([header, *rows])
        content = written.getvalue()
    else:
        content = HEADER + case["rows"] if "rows" in case else case.get("csv", "")
        content = content.replace("\\n", "\n")  # within a text
    files = {"t.csv": content} if content else {}
    for name, text in (files | case.get("files", {})).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode(case.get("encoding", "utf-8")))
        _draw(text, case, folder)


def _draw(text: str, case: dict[str, Any], folder: Path) -> None:
    given = case.get("table", {}).get("columns", {})
    columns = [given.get(name, name) for name in ("image", "frontal", "lateral")]
    text = text.removeprefix("sep=;\n")
    delimiter = ";" if ";" in text.partition("\n")[0] else ","
    rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
    names = [row.get(column) or "" for row in rows for column in columns]
    for number, name in enumerate(names):
        path = folder / name.replace("\\", "/")
        if path.suffix not in (".png", ".dcm") or ".." in name or name in case.get("missing", []):
            continue
        path.parent.mkdir(exist_ok=True)
        if path.suffix == ".dcm":
            pixels = np.arange(400).reshape(20, 20) + number
            write_dicom(path, pixels, **case.get("headers", {}).get(name, {}))
        elif not path.exists():
            grey = 99 if name in case.get("equal", []) else number
            Image.new("L", (16, 16), grey).save(path)
