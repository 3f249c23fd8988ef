"""Open-I: all reports of the table `openi`, with controls and two systems that need no training.

    pacer use openi                     # then set corpus.root
    pacer study run openi
    dvc repro features                  # restores the table's outputs from DVC's run cache
    python bench/openi.py               # writes bench/results/openi; then bench/openi_scores.py

Every run decoded two controls: another patient's inputs and no lateral radiograph. One system
without training gives each record the report of the train record with the nearest frontal
radiograph (cosine of the encoder's mean patch at the last depth; ties by id), the other the most
frequent train report of its context. The files are compressed JSON lines: row, replicate, control,
record_id, report, and the commitment's lists (null if none was written).
"""

import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from pacer.core.anchor import POLARITIES
from pacer.core.io import read_jsonl
from pacer.core.schemas import of_split, read_records
from pacer.extras.studies.repository import Repository
from pacer.extras.studies.run import finished, plan
from pacer.extras.studies.study import load_study
from pacer.features.store import FeatureStore

RECORDS, FEATURES = Path("data/corpus/records.parquet"), Path("data/features")
RESULTS = Path("bench/results/openi")
#: Keeps the restored reports, so a stopped script continues.
WORK = Path("data/external/openi")
NEAREST, CONSTANT = "nearest train report", "most frequent train report"
#: Train records of a context that are searched for the nearest, evenly spaced by id.
MOST = 2_000

Lines = list[dict[str, Any]]
SCHEMA = pl.Schema(
    dict.fromkeys(("row", "replicate", "control", "record_id", "report"), pl.String())
    | {"commitment": pl.Struct(dict.fromkeys(POLARITIES, pl.List(pl.String)))}
)


def nearest_reports(train: pl.DataFrame, test: pl.DataFrame) -> dict[str, str]:
    """Return for each test record the report of the train record of its context with the nearest
    frontal radiograph."""
    store = FeatureStore(FEATURES)
    images = {image for part in (train, test) for image in part["frontal"]}
    states = {image: store.depth_states([image])[0, -1].float().mean(0).numpy() for image in images}
    nearest = {}
    for context in test["context"].unique():
        known, asked = (part.filter(context=context).sort("record_id") for part in (train, test))
        known = known.gather_every(-(-len(known) // MOST))
        keys = np.stack([states[image] for image in known["frontal"]])
        queries = np.stack([states[image] for image in asked["frontal"]])
        likeness = queries @ (keys / np.linalg.norm(keys, axis=1, keepdims=True)).T
        reports = known["report"].gather(likeness.argmax(1))
        nearest |= dict(zip(asked["record_id"], reports, strict=True))
    return nearest


def constant_reports(train: pl.DataFrame, test: pl.DataFrame) -> dict[str, str]:
    """Return for each test record the most frequent train report of its context; ties go to the
    first in order."""
    reports = {}
    for context in test["context"].unique():
        known = Counter(sorted(train.filter(context=context)["report"]))
        ids = test.filter(context=context)["record_id"]
        reports |= dict.fromkeys(ids, known.most_common(1)[0][0])
    return reports


def lines_of(row: str, replicate: str, predictions: Path) -> Lines:
    """Return the reports of one run, and those of its controls."""
    folders = {"": predictions} | {path.name: path for path in (predictions / "controls").glob("*")}
    about = {"row": row, "replicate": replicate}
    return [
        about
        | {"control": control, "commitment": line["anchor"]}
        | {key: line[key] for key in ("record_id", "report")}
        for control, folder in folders.items()
        for path in sorted(folder.glob("*.jsonl"))
        for line in read_jsonl(path)
    ]


def write_lines(lines: Lines, out: Path) -> None:
    """Write a file for each row."""
    out.mkdir(parents=True, exist_ok=True)
    for (row,), part in pl.DataFrame(lines, SCHEMA).group_by("row", maintain_order=True):
        path = out / f"{re.sub('[^a-z]+', '_', str(row).lower()).strip('_')}.jsonl.gz"
        part.sort("replicate", "control", "record_id").write_ndjson(path, compression="gzip")


def read_lines(folder: Path) -> pl.DataFrame:
    """Read all lines of a folder."""
    paths = sorted(folder.glob("*.jsonl.gz"))
    return pl.concat([pl.read_ndjson(path, schema=SCHEMA) for path in paths])


def main() -> None:
    study, repository = load_study(Path("studies"), "openi"), Repository(Path.cwd())
    runs = list(finished(plan(study, repository), repository))
    if missing := len(study.rows) * len(study.labels) - len(runs):
        raise SystemExit(f"{missing} runs are not there; `pacer study run openi` first")
    records, lines = read_records(RECORDS), Lines()
    train, test = of_split(records, "train"), of_split(records, "test")
    untrained = {NEAREST: nearest_reports(train, test), CONSTANT: constant_reports(train, test)}
    for row, reports in untrained.items():
        about = {"row": row, "replicate": None, "control": "", "commitment": None}
        lines += [about | {"record_id": one, "report": text} for one, text in reports.items()]
    WORK.mkdir(parents=True, exist_ok=True)
    for run in runs:
        made = WORK / run.commit
        if not made.exists():
            # not with --force: files of an earlier copy are links into DVC's cache
            command = ["dvc", "get", "--quiet", ".", "predictions", "--rev", run.commit]
            subprocess.run([*command, "--out", str(made)], check=True)
        lines += lines_of(run.run.row, run.run.replicate, made)
    write_lines(lines, RESULTS)


if __name__ == "__main__":
    main()
