"""Open-I: what a run's reports are worth, beside reports that need no trained model.

    python bench/openi.py OUT                    after `dvc repro` with the profile `openi`
    python bench/openi.py OUT --also Base=FOLDER  and other reports, a folder of {context}.jsonl each

Beside the run's reports of the test split: those that it writes for the mean radiograph; for each record the report of
the train record whose frontal radiograph is nearest to the encoder (cosine of the mean patch at the last depth; ties by
id); and the most frequent train report of the context for everybody. Scores are means over the contexts, of all reports
and of those that are not in train word for word. Precision, recall and F1 are by the rules; ``chance`` is the F1 that
the same reports are expected to get when they are dealt to other patients.

The reports of each system stay in OUT, whose folders `pacer score --predictions` takes and, after it, `pacer compare`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import torch
from measuring import table
from PIL import Image, ImageOps

from pacer.commitments.rules.extract import extract_anchor
from pacer.core.progress import Ticker
from pacer.data.findings import FINDINGS
from pacer.data.radiographs import open_image
from pacer.data.schemas import of_split, read_images, read_records
from pacer.features.store import FeatureStore
from pacer.metrics.nlg import nlg_scores

RECORDS, IMAGES = Path("data/corpus/records.parquet"), Path("data/corpus/images.parquet")
FEATURES, PREDICTIONS = Path("data/features"), Path("predictions")
RUN, MEAN, NEAREST, CONSTANT = "run", "mean radiograph", "nearest train report", "most frequent train report"
COLUMNS = ("precision", "recall", "f1", "chance", "bleu1", "bleu4", "rougeL", "meteor")
#: Side of the mean radiograph in pixels.
SIDE = 256

#: Record id -> report.
Reports = Mapping[str, str]


# Reports


def read_reports(folder: Path) -> Reports:
    """The reports in a folder of predictions."""
    lines = [line for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]
    return {row["record_id"]: row["report"] for row in map(json.loads, lines)}


def write_reports(records: pl.DataFrame, reports: Reports, folder: Path) -> None:
    """Reports as a folder of predictions."""
    folder.mkdir(parents=True, exist_ok=True)
    for (context,), rows in records.group_by("context", maintain_order=True):
        lines = [json.dumps({"record_id": record, "report": reports[record]}) for record in rows["record_id"]]
        (folder / f"{context}.jsonl").write_text("".join(f"{line}\n" for line in lines))


def constant_reports(train: pl.DataFrame, test: pl.DataFrame) -> Reports:
    """For each test record the most frequent train report of its context; of equally frequent ones the first."""
    most = {
        context: Counter(sorted(train.filter(context=context)["report"])).most_common(1)[0][0]
        for context in test["context"].unique()
    }
    return {record: most[context] for record, context in test.select("record_id", "context").iter_rows()}


def nearest_reports(train: pl.DataFrame, test: pl.DataFrame, store: FeatureStore) -> Reports:
    """For each test record the report of the train record of its context with the nearest frontal radiograph."""

    def directions(images: Sequence[str]) -> torch.Tensor:
        means = [store.depth_states([image])[0, -1].float().mean(0) for image in images]
        return torch.nn.functional.normalize(torch.stack(means), dim=-1)

    reports: dict[str, str] = {}
    for (context,), asked in test.group_by("context", maintain_order=True):
        known = train.filter(context=context).sort("record_id")
        likeness = directions(asked["frontal"].to_list()) @ directions(known["frontal"].to_list()).T
        places = likeness.argmax(1).tolist()
        reports |= dict(zip(asked["record_id"], known["report"][places], strict=True))
    return reports


def mean_radiographs(train: pl.DataFrame, images: pl.DataFrame, folder: Path) -> pl.DataFrame:
    """The mean frontal and the mean lateral radiograph of the train split, as a table of images."""
    paths, rows = dict(images.select("image_id", "path").iter_rows()), []
    for view in ("frontal", "lateral"):
        ids = train[view].drop_nulls().unique(maintain_order=True).to_list()
        total = np.zeros((SIDE, SIDE))
        with Ticker(f"mean {view} radiograph", len(ids)) as ticker:
            for image in ids:
                total += np.asarray(ImageOps.fit(open_image(paths[image]).convert("L"), (SIDE, SIDE)))
                ticker.advance()
        path = folder / f"{view}.png"
        Image.fromarray((total / max(len(ids), 1)).round().astype(np.uint8)).save(path)
        rows.append((view, str(path), path.stat().st_size, SIDE, SIDE))
    return pl.DataFrame(rows, images.schema, orient="row")


def decode_mean(train: pl.DataFrame, test: pl.DataFrame, images: pl.DataFrame, folder: Path) -> Reports:
    """What the run's model writes for the mean radiograph; all else that it is given is the patient's own."""
    folder.mkdir(parents=True, exist_ok=True)
    mean_radiographs(train, images, folder).write_parquet(folder / "images.parquet")
    lateral = pl.when(pl.col("lateral").is_not_null()).then(pl.lit("lateral"))
    test.with_columns(frontal=pl.lit("frontal"), lateral=lateral).write_parquet(folder / "records.parquet")
    options = {name: str(folder / f"{name}.parquet") for name in ("records", "images")}
    options |= {"features": str(folder / "features"), "out": str(folder / "predictions")}
    subprocess.run(
        ["pacer", "decode", *(part for name in options for part in (f"--{name}", options[name]))], check=True
    )
    return read_reports(folder / "predictions")


# Scores


def present(texts: Sequence[str]) -> np.ndarray:
    """bool [n, findings]: what the rules read as present, be it uncertain."""
    read = [extract_anchor(text) for text in texts]
    return np.array([[f in anchor.positive or f in anchor.uncertain for f in FINDINGS] for anchor in read], dtype=bool)


def f1(agreed: float, written: float, there: float) -> float:
    return float(2 * agreed / (written + there)) if written + there else float("nan")


def context_scores(records: pl.DataFrame, reports: Reports) -> dict[str, float]:
    """Scores of the records of one context."""
    texts = {record: " ".join(reports[record].split()) for record in records["record_id"]}
    there, written = present(records["report_raw"].to_list()), present(list(texts.values()))
    agreed = (there & written).sum()
    language = nlg_scores(dict(records.select("record_id", "report").iter_rows()), texts)
    return {name: value for name, value in language.items() if value is not None} | {
        "precision": float(agreed / written.sum()) if written.any() else float("nan"),
        "recall": float(agreed / there.sum()) if there.any() else float("nan"),
        "f1": f1(agreed, written.sum(), there.sum()),
        "chance": f1((written.sum(0) * there.sum(0) / len(there)).sum(), written.sum(), there.sum()),
    }


def mean_scores(records: pl.DataFrame, reports: Reports) -> dict[str, float]:
    """Means over the contexts."""
    parts = [context_scores(rows, reports) for _, rows in records.group_by("context", maintain_order=True)]
    return {name: float(np.mean([scores[name] for scores in parts])) for name in COLUMNS}


def tables(train: pl.DataFrame, test: pl.DataFrame, systems: Mapping[str, Reports]) -> list[str]:
    """A table of all test reports, and one of those that are not in train."""
    lines = []
    new = test.filter(~pl.col("report").is_in(train["report"].implode()))
    for title, chosen in (("All", test), ("Not in train", new)):
        counts = [f"{len(rows)} in {context}" for (context,), rows in chosen.group_by("context", maintain_order=True)]
        lines += [f"## {title}, of the test reports: {', '.join(counts) or 'none'}", ""]
        if len(chosen):
            scores = {name: mean_scores(chosen, reports) for name, reports in systems.items()}
            rows = [[name, *(f"{values[column]:.3f}" for column in COLUMNS)] for name, values in scores.items()]
            lines += table(["system", *COLUMNS], rows)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder for the reports of each system")
    parser.add_argument("--also", action="append", default=[], metavar="NAME=FOLDER", help="predictions; repeatable")
    options = parser.parse_args()
    if not PREDICTIONS.is_dir():
        raise SystemExit(f"{PREDICTIONS} is not here; run `dvc repro` with the profile `openi` first")
    records, images = read_records(RECORDS), read_images(IMAGES)
    systems = {RUN: read_reports(PREDICTIONS)}
    systems |= {name: read_reports(Path(folder)) for name, _, folder in (one.partition("=") for one in options.also)}
    train, test = of_split(records, "train"), of_split(records, "test")
    test = test.filter(pl.col("record_id").is_in(list(systems[RUN])))
    systems[MEAN] = decode_mean(train, test, images, options.out / "mean")
    systems[NEAREST] = nearest_reports(train, test, FeatureStore(FEATURES))
    systems[CONSTANT] = constant_reports(train, test)
    for name, reports in systems.items():
        if missing := set(test["record_id"]) - reports.keys():
            raise SystemExit(
                f"{name}: {len(missing)} of {len(test)} test records have no report, such as {min(missing)}"
            )
        write_reports(test, reports, options.out / name.replace(" ", "_"))
    print("\n".join(tables(train, test, systems)))


if __name__ == "__main__":
    main()
