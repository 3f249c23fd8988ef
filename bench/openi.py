"""Open-I: all reports of the study `openi`, with controls and systems that need no training, as
compressed JSON lines.

    pacer use openi                     then set corpus.root pacer study run openi --jobs 2 dvc
    repro features                  restores the study's outputs from DVC's run cache python
    bench/openi.py [OUT]         default: bench/results/openi; `bench/openi_scores.py` scores them

Every run decoded two controls: another patient's inputs and no lateral radiograph. There are two
systems without training. One gives each record the report of the train record with the nearest
frontal radiograph (cosine of the encoder's mean patch at the last depth; ties by id). The other
gives every record the most frequent train report of its context.

A line has row, replicate, control, record_id, report, and the commitment's lists (null if none was
written).
"""

import re
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from measuring import options_of

from pacer.commitments.anchor import POLARITIES
from pacer.core.io import read_jsonl
from pacer.data.schemas import of_split, read_records
from pacer.features.store import FeatureStore
from pacer.studies.run import finished, results_folder
from pacer.studies.study import load_study
from pacer.studies.worktree import Repository, git

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


# Reports of the study


def lines_of(row: str, replicate: str, folders: Mapping[str, Path]) -> Lines:
    """Return the reports of one run; ``folders`` of predictions, by control."""
    return [
        {"row": row, "replicate": replicate, "control": control, "commitment": line["anchor"]}
        | {key: line[key] for key in ("record_id", "report")}
        for control, folder in folders.items()
        for path in sorted(folder.glob("*.jsonl"))
        for line in read_jsonl(path)
    ]


def get(path: str, commit: str, out: Path) -> Path:
    """Get ``path`` in a commit of this repository from DVC, as the new folder or file ``out``.

    Never use ``--force`` over an earlier copy: its files are links into DVC's cache, which then
    loses their contents.
    """
    subprocess.run(
        ["dvc", "get", "--quiet", ".", path, "--rev", commit, "--out", str(out)], check=True
    )
    return out


def restored(
    name: str, rows: Mapping[str, str], paths: Sequence[str], work: Path
) -> Iterator[tuple[str, str, Path]]:
    """Yield row, replicate and a folder in ``work`` with outputs of each finished run of a study's
    ``rows``, which have short names. Outputs that are there stay, so a stopped script continues."""
    root = Path.cwd()
    study, repository = load_study(Path("studies"), name), Repository(root)
    for place, replicate, reference, _ in finished(study, repository, results_folder(root)):
        row = study.rows[place].name
        if row in rows:
            folder = work / f"{rows[row]}-{replicate}"
            for path in paths:
                if not (folder / path).exists():
                    (folder / path).parent.mkdir(parents=True, exist_ok=True)
                    get(path, git(root, "rev-parse", reference).strip(), folder / path)
            yield row, replicate, folder


# Systems without training


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
        keys, queries = (
            np.stack([states[image] for image in part["frontal"]]) for part in (known, asked)
        )
        likeness = queries @ (keys / np.linalg.norm(keys, axis=1, keepdims=True)).T
        nearest |= dict(
            zip(asked["record_id"], known["report"].gather(likeness.argmax(1)), strict=True)
        )
    return nearest


def constant_reports(train: pl.DataFrame, test: pl.DataFrame) -> dict[str, str]:
    """Return for each test record the most frequent train report of its context; ties go to the
    first in order."""
    most = {
        context: Counter(sorted(train.filter(context=context)["report"])).most_common(1)[0][0]
        for context in test["context"].unique()
    }
    return {
        record: most[context] for record, context in test.select("record_id", "context").iter_rows()
    }


# Files


def write_lines(lines: Lines, out: Path) -> None:
    """Write a file for each row."""
    out.mkdir(parents=True, exist_ok=True)
    for (row,), part in pl.DataFrame(lines, SCHEMA).group_by("row", maintain_order=True):
        name = re.sub(r"[^a-z]+", "_", str(row).lower()).strip("_")
        part.sort("replicate", "control", "record_id").write_ndjson(
            out / f"{name}.jsonl.gz", compression="gzip"
        )


def read_lines(folder: Path) -> pl.DataFrame:
    """Read all lines of a folder."""
    return pl.concat(
        [pl.read_ndjson(path, schema=SCHEMA) for path in sorted(folder.glob("*.jsonl.gz"))]
    )


def main() -> None:
    out = {
        "type": Path,
        "nargs": "?",
        "default": RESULTS,
        "help": f"folder of the files; default: {RESULTS}",
    }
    options = options_of(__doc__, ("out", out))
    root = Path.cwd()
    study, repository = load_study(Path("studies"), "openi"), Repository(root)
    runs = list(finished(study, repository, results_folder(root)))
    if missing := len(study.rows) * len(study.labels) - len(runs):
        raise SystemExit(
            f"{missing} runs of the study are not there; `pacer study run openi` first"
        )
    records = read_records(RECORDS)
    train, test = of_split(records, "train"), of_split(records, "test")
    lines: Lines = []
    untrained = {NEAREST: nearest_reports(train, test), CONSTANT: constant_reports(train, test)}
    for row, reports in untrained.items():
        about = {"row": row, "replicate": None, "control": "", "commitment": None}
        lines += [
            about | {"record_id": record, "report": report} for record, report in reports.items()
        ]
    for place, replicate, reference, _ in runs:
        row, commit = study.rows[place].name, git(root, "rev-parse", reference).strip()
        made = WORK / commit
        if not made.exists():
            made.parent.mkdir(parents=True, exist_ok=True)
            get("predictions", commit, made)
        # The name of a run's own inputs as a control is empty.
        folders = {"": made} | {path.name: path for path in (made / "controls").glob("*")}
        lines += lines_of(row, replicate, folders)
    write_lines(lines, options.out)


if __name__ == "__main__":
    main()
