"""Tables as strangers hand them over: `strangers.yaml` has each, and what is right for it."""

from __future__ import annotations

import csv
import gzip
import io
import unicodedata
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from PIL import Image
from ruamel.yaml import YAML

from pacer.config import Corpus
from pacer.core.errors import DataError
from pacer.data.schemas import PRIOR_SCHEMA, read_records, read_table
from tests.support.corpus import BASE, built, lines_of
from tests.support.real import real

CASES: list[dict[str, Any]] = YAML(typ="safe").load(Path(__file__).with_name("strangers.yaml"))


@pytest.mark.parametrize("case", CASES, ids=[case["what"] for case in CASES])
def test_a_strangers_table(case: dict[str, Any], tmp_path: Path) -> None:
    content = real(f"field/tables/{case['field']}").read_bytes() if "field" in case else case["csv"].encode()
    content = content if "field" in case else content.replace(rb"\n", b"\n")
    (tmp_path / "t.csv").write_bytes(gzip.compress(content) if case.get("packed") else content)
    _draw(content, case, tmp_path)
    files = {
        "source": "files",
        "format": "table",
        "root": str(tmp_path),
        "table": {"file": "t.csv", "columns": {}} | case.get("table", {}),
    }
    config = Corpus.model_validate(BASE | files | {"max_bad_rows": 9} | case.get("corpus", {}))
    if "error" in case:
        with pytest.raises(DataError, match=case["error"]) as error:
            built(config, tmp_path)
        assert "cut off" not in str(error.value)
        return
    audit = built(config, tmp_path)
    records, lines = read_records(tmp_path / "corpus" / "records.parquet"), lines_of(audit)
    if "reports" in case:
        assert dict(records.select("record_id", "report").iter_rows()) == case["reports"]
    for name, words in case.get("lines", {}).items():
        assert words.strip() in lines[name]
        assert case.get("advice", "") in lines[name]
    if "studies" in case:
        assert sorted(records["study_id"].unique()) == sorted(case["studies"])
    if "priors" in case:
        priors = read_table(tmp_path / "corpus" / "priors.parquet", PRIOR_SCHEMA)
        assert dict(priors.select("study_id", "prior_study_id").iter_rows()) == case["priors"]
    reasons: dict[str, int] = {}
    for reason, number in audit["excluded"]["reasons"].items():
        key = reason if reason in case.get("reasons", {}) else reason.partition(":")[0]
        reasons[key] = reasons.get(key, 0) + number
    assert reasons == case.get("reasons", reasons)
    problems = pl.read_csv(tmp_path / "corpus" / "problems.csv", infer_schema=False)
    assert problems.filter(kind="doubted").height == case.get(
        "doubted", 4 if "t20_views" in case.get("field", "") else 0
    )


def _draw(content: bytes, case: dict[str, Any], folder: Path) -> None:
    """Write the images that a table names: all of one size, and of one content if they are ``equal``."""
    text = content.decode("utf-8").replace('\\"', '""')
    for nth, row in enumerate(csv.DictReader(io.StringIO(text))):
        if name := row.get("image"):
            name = unicodedata.normalize("NFC" if nth == 0 else "NFD", name) if case.get("renamed") else name
            path = folder / name
            if not path.exists():
                Image.new("L", (16, 16), 99 if name in case.get("equal", []) else nth).save(path)
