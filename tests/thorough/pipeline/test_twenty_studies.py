"""Twenty real studies of Open-I through all stages, where the collection lies beside the
repository."""

import csv
import gzip
import json
import tarfile
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pacer.config import Params, validated
from pacer.core.io import write_text
from pacer.text.cleaning.cleaners import clean_report_iu_xray
from tests.support.profiles import profile
from tests.support.real import DATA, real
from tests.support.repository import Repository

#: Studies of each split of R2Gen.
STUDIES = {"train": 12, "val": 3, "test": 5}
#: The stages with which the reports are made, and the command that scores them; METEOR, which loads
#: its tables for ten seconds, has tests of its own.
STAGES = ("source", "corpus", "backbones", "features", "anchor_sample", "anchor_llm", "anchors")
STAGES += ("emphasis", "warmup", "parent", "calibrate", "lists", "decode", "reference_labels")
SCORE = ("pacer", "score-run", "--records", "data/corpus/records.parquet", "--predictions")
SCORE += ("predictions", "--chexbert", "models/backbones/chexbert", "--without", "meteor")
SCORE += ("--out", "metrics")


def chosen() -> list[dict[str, Any]]:
    """The first studies of each split that have findings, a frontal and a lateral image."""
    with gzip.open(real("openi/reports.jsonl.gz"), "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    fit = [
        row
        for row in rows
        if row["findings"] and {"frontal", "lateral"} == {one["view"] for one in row["images"]}
    ]
    return [
        row
        for split, number in STUDIES.items()
        for row in islice((row for row in fit if row["split"] == split), number)
    ]


def distribution(folder: Path, studies: list[dict[str, Any]]) -> None:
    """The files that a user downloads, with these studies alone: the archive of reports, the table
    of projections and the images."""
    names = {f"ecgen-radiology/{row['uid'].removeprefix('CXR')}.xml" for row in studies}
    with (
        tarfile.open(real("openi/NLMCXR_reports.tgz")) as whole,
        tarfile.open(folder / "NLMCXR_reports.tgz", "w:gz") as part,
    ):
        for member in whole:
            if member.name in names:
                part.addfile(member, whole.extractfile(member))
    (folder / "images").mkdir()
    with open(folder / "projections.csv", "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(("image", "view"))
        for image in (image for row in studies for image in row["images"]):
            table.writerow((image["id"], image["view"]))
            (folder / image["file"]).symlink_to(DATA / "openi" / image["file"])


def parameters(root: Path) -> Params:
    """Open-I's corpus, and the models and updates of the micro profile."""
    values, openi = profile("micro").model_dump(), profile("openi").model_dump()
    values["corpus"] = openi["corpus"] | {"root": str(root), "images": "."}
    values["corpus"]["openi"] |= {"projections": "projections.csv"}
    for group in ("anchors", "emphasis", "prompt", "commit"):
        values[group] = openi[group]
    values["decode"] |= {"controls": ["no_lateral"], "commitment": "read"}
    return validated(values, "params", Params)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[dict[str, Any]], Repository]:
    studies = chosen()
    root = tmp_path_factory.mktemp("open-i")
    distribution(root, studies)
    made = Repository.make(tmp_path_factory.mktemp("run") / "openi")
    write_text(made.folder / "params.yaml", json.dumps(parameters(root).model_dump(mode="json")))
    made.without_dvc(*STAGES)
    made.run(*SCORE)
    return studies, made


def test_twenty_real_studies_end_to_end(run: tuple[list[dict[str, Any]], Repository]) -> None:
    studies, made = run
    records = pl.read_parquet(made.folder / "data/corpus/records.parquet")
    assert len(studies) == 20
    assert set(records["record_id"]) == {
        f"{context}-{row['uid']}" for context in ("sn", "mn") for row in studies
    }
    for row in studies:
        of_study = records.filter(study_id=row["uid"])
        assert set(of_study["split"]) == {row["split"]}
        assert set(of_study["report"]) == {clean_report_iu_xray(row["findings"])}
    stored = pl.read_parquet(made.folder / "data/features/images.parquet")
    assert len(stored) == 2 * len(studies)
    for phase in ("warmup", "parent", "calibrate"):
        assert made.json(f"metrics/{phase}/metrics.json")["step"] == 4
    scores = made.json("metrics/scores.json")
    for context in ("sn", "mn"):
        lines = (made.folder / f"predictions/{context}.jsonl").read_text().splitlines()
        assert {json.loads(line)["record_id"] for line in lines} == {
            f"{context}-{row['uid']}" for row in studies if row["split"] == "test"
        }
        assert scores[context]["n"] == STUDIES["test"]
        assert 0 <= scores[context]["f1"] <= 1
        assert scores[context]["bleu4"] is not None
    assert "mn" in scores["controls"]["no_lateral"]
