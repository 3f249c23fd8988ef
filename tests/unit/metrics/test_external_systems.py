"""Files as the systems of the paper's tables leave them come, by the recipes of the documentation, to their records."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from PIL import Image

from pacer.metrics.pairing import Protocol, pair_reports
from pacer.metrics.report_files import HYPOTHESIS_COLUMNS, REFERENCE_COLUMNS, reports_of
from tests.support.cases import listed_cases

DOCUMENT = (Path(__file__).parents[3] / "docs" / "experiments.md").read_text(encoding="utf-8")
#: The code of the recipes: lines that serve all of them, then each recipe below its heading.
CODE = re.findall(r"```python\n(import.*?)```", DOCUMENT, re.DOTALL)[0]
SHARED, *PARTS = re.split(r"^# (recipe \d)", CODE, flags=re.MULTILINE)
RECIPES = {name: f"{SHARED}# {name}{code}" for name, code in zip(PARTS[::2], PARTS[1::2], strict=True)}
STUDIES, DICOMS = ["50414267", "53189527", "53911762"], ["02aa804e", "2a2277a9", "68b5c4b1"]
TEXTS = ["the heart is normal .", 'small , "left" effusion .', "no pneumothorax . lines: unchanged ."]
FRONTALS = [f"p10/p10000032/s{study}/{dicom}.jpg" for study, dicom in zip(STUDIES, DICOMS, strict=True)]


def records(split: str = "test") -> pl.DataFrame:
    content = {"record_id": [f"sn-{n}" for n in range(3)], "context": "sn", "split": split, "study_id": STUDIES}
    return pl.DataFrame(content | {"frontal": FRONTALS, "report": [f"reference {n} ." for n in range(3)]})


@pytest.mark.parametrize("case", listed_cases(__file__, "systems"))
def test_a_systems_files_come_to_their_records(tmp_path: Path, monkeypatch, case: dict[str, Any]) -> None:
    monkeypatch.chdir(tmp_path)
    train = records("train").with_columns(record_id=pl.col("record_id") + "-t")
    pl.concat([records(), train]).write_parquet("records.parquet")
    records().write_parquet("references.parquet")
    for name, content in case["files"].items():
        Path(name).write_text(content if isinstance(content, str) else json.dumps(content))
    if "recipe" in case:
        exec(RECIPES[case["recipe"]], {})
    references = reports_of("references.parquet", REFERENCE_COLUMNS, case.get("id"))
    paired, counts = pair_reports(references, reports_of(case["scored"], HYPOTHESIS_COLUMNS), Protocol())
    assert paired["report"].to_list() == [f"reference {n} ." for n in range(3)]
    assert paired["hypothesis"].to_list() == TEXTS and counts["missing_hypotheses"] == 0


def test_reports_of_all_four_contexts_come_into_one_file(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    contexts = ("sn", "sw", "mn", "mw")
    own = {
        c: records().with_columns(record_id=pl.format("{}-{}", pl.lit(c), "study_id"), context=pl.lit(c))
        for c in contexts
    }
    pl.concat(own.values()).write_parquet("records.parquet")
    for context in contexts:
        texts = [f"{context} {text}" for text in TEXTS]
        pl.DataFrame({"report": texts, "dicom_id": DICOMS}).reverse().write_csv(f"reports-{context}.csv")
    exec(RECIPES["recipe 6"], {})
    references = reports_of("records.parquet", REFERENCE_COLUMNS)
    paired, _ = pair_reports(references, reports_of("hypotheses.jsonl", HYPOTHESIS_COLUMNS), Protocol())
    assert paired["hypothesis"].to_list() == [f"{context} {text}" for context in contexts for text in TEXTS]
    assert paired["context"].to_list() == [context for context in contexts for _ in TEXTS]


def test_records_that_a_system_left_out_take_the_report_of_the_nearest_radiograph(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    y, x = np.mgrid[0:1:64j, 0:1:64j]
    noise = 5 * np.random.default_rng(0).random(x.shape)
    for dicom, pixels, edge in zip(DICOMS, (200 * x, 200 * y, 40 + 100 * y + noise), (64, 64, 128), strict=True):
        Image.fromarray(pixels.astype(np.uint8)).resize((edge, edge)).save(
            f"{dicom}.png"
        )  # brightness, size: no matter
    pl.DataFrame({"image_id": FRONTALS, "path": [f"{dicom}.png" for dicom in DICOMS]}).write_parquet("images.parquet")
    records().write_parquet("records.parquet")
    pl.DataFrame({"record_id": ["sn-1", "sn-0"], "report": TEXTS[1::-1]}).write_ndjson("reports.jsonl")
    exec(RECIPES["recipe 7"], {})
    found = pl.read_ndjson("hypotheses.jsonl")
    assert dict(found.iter_rows()) == {"sn-0": TEXTS[0], "sn-1": TEXTS[1], "sn-2": TEXTS[1]}
