"""Files as the systems of the paper's tables leave them come, by the recipes of the documentation, to their records."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image

from pacer.metrics.pairing import Protocol, pair_reports
from pacer.metrics.report_files import HYPOTHESIS_COLUMNS, REFERENCE_COLUMNS, reports_of

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


def as_r2gen(folder: Path) -> None:
    pl.DataFrame({"texts": TEXTS}).write_csv(folder / "res.csv", include_header=False)
    pl.DataFrame({"texts": ["a <unk> .", "b .", "c ."]}).write_csv(folder / "gts.csv", include_header=False)
    records().select("record_id").write_csv(folder / "order.csv")


def as_test_result(folder: Path) -> None:
    texts = {study: [text] for study, text in zip(STUDIES[::-1], TEXTS[::-1], strict=True)}
    (folder / "test_result.json").write_text(json.dumps(texts))


def with_dicom_ids(folder: Path) -> None:
    """A lateral view was reported too, as for the authors' own splits."""
    pl.DataFrame({"report": [*TEXTS, "of a lateral view"], "dicom_id": [*DICOMS, "ffffffff"]}).sample(
        fraction=1.0, shuffle=True, seed=1
    ).write_csv(folder / "reports.csv")


def as_chexagent(folder: Path) -> None:
    answers = [
        {"sample_idx": n, "image_path": [f"files/{frontal}", "files/p10/other.jpg"]}
        | {"section_indication": "", "section_findings": "reference", "candidate_findings": text}
        for n, (frontal, text) in enumerate(zip(FRONTALS, TEXTS, strict=True))
    ]
    (folder / "answers.json").write_text(json.dumps(answers))


def as_cxrmate(folder: Path) -> None:
    halves = [text.partition(" . ") for text in TEXTS]
    rows = {
        "findings": [first + dot.rstrip() for first, dot, _ in halves],
        "impression": [second or None for _, _, second in halves],
        "study_id": STUDIES,
    }
    pl.DataFrame(rows).write_csv(folder / "reports.csv")


def as_rgrg(folder: Path) -> None:
    rule = "=" * 30
    pairs = zip(FRONTALS, TEXTS, strict=True)
    parts = [f"Image path: /data/{frontal}\nGenerated report: {text}\n\n{rule}\n\n" for frontal, text in pairs]
    (folder / "reports.txt").write_text("".join(parts))


@pytest.mark.parametrize(
    ("write", "recipe", "file", "key"),
    [
        (as_r2gen, "recipe 1", "hypotheses.jsonl", None),
        (with_dicom_ids, "recipe 2", "hypotheses.jsonl", None),
        (as_test_result, None, "test_result.json", "study_id"),
        (as_chexagent, "recipe 3", "hypotheses.jsonl", None),
        (as_cxrmate, "recipe 4", "hypotheses.csv", "study_id"),
        (as_rgrg, "recipe 5", "hypotheses.jsonl", None),
    ],
)
def test_a_systems_files_come_to_their_records(
    tmp_path: Path, monkeypatch, write: Callable[[Path], None], recipe: str | None, file: str, key: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    pl.concat([records(), records("train").with_columns(record_id=pl.col("record_id") + "-t")]).write_parquet(
        "records.parquet"
    )
    records().write_parquet("references.parquet")
    write(tmp_path)
    if recipe is not None:
        exec(RECIPES[recipe], {})
    references = reports_of("references.parquet", REFERENCE_COLUMNS, key)
    paired, counts = pair_reports(references, reports_of(file, HYPOTHESIS_COLUMNS), Protocol())
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
