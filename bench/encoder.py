"""What the frozen image states know: a linear probe of each finding on the corpus in use, by depth.

``python bench/encoder.py`` after `dvc repro features`. A logistic regression on the mean patch state of the frontal
radiographs of the train split; its area under the ROC curve on the val split, for findings that the rules read in at
least five val reports. Depths alone, and all of them side by side. The test split is not looked at.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import polars as pl
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pacer.core.progress import Ticker
from pacer.features.online import open_features
from pacer.records.findings import FINDINGS
from pacer.records.schemas import read_records
from pacer.rules.extract import extract_anchor

FEWEST = 5


def split_of(records: pl.DataFrame, split: str, states: object) -> tuple[np.ndarray, np.ndarray]:
    """Mean patch states [n, K, d] of the frontal radiographs of a split, and whether each finding is affirmed or
    uncertain [n, 13]."""
    images = records.filter(pl.col("split") == split).unique("frontal", maintain_order=True)
    rows, labels = [], []
    with Ticker(f"states of {split}", len(images)) as ticker:
        for image, report in images.select("frontal", "report_raw").iter_rows():
            rows.append(states.depth_states([image])[0].float().mean(1).numpy())  # type: ignore[attr-defined]
            found = extract_anchor(report)
            labels.append([finding in {*found.positive, *found.uncertain} for finding in FINDINGS])
            ticker.advance()
    return np.stack(rows), np.array(labels)


def areas(train: np.ndarray, found: np.ndarray, val: np.ndarray, there: np.ndarray) -> dict[str, float]:
    """Finding -> area on val of a probe of vectors [n, d]."""
    areas = {}
    for place, finding in enumerate(FINDINGS):
        if there[:, place].sum() >= FEWEST and found[:, place].any():
            probe = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=2000, class_weight="balanced"))
            probe.fit(train, found[:, place])
            areas[finding] = float(roc_auc_score(there[:, place], probe.decision_function(val)))
    return areas


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--backbones", type=Path, default=Path("models/backbones"))
    options = parser.parse_args()
    records = read_records(options.data / "corpus" / "records.parquet")
    states = open_features(options.data / "features", options.backbones, torch.device("cpu"))
    train, found = split_of(records, "train", states)
    val, there = split_of(records, "val", states)
    columns = {f"depth {place + 1}": (train[:, place], val[:, place]) for place in range(train.shape[1])}
    columns["all"] = (train.reshape(len(train), -1), val.reshape(len(val), -1))
    results = {name: areas(known, found, unknown, there) for name, (known, unknown) in columns.items()}
    print(f"{len(train)} train and {len(val)} val radiographs\n")
    print(f"| Finding | val reports | {' | '.join(results)} |\n|:---|---:|{'---:|' * len(results)}")
    for finding in results["all"]:
        count = there[:, FINDINGS.index(finding)].sum()
        print(f"| {finding} | {count} | {' | '.join(f'{own[finding]:.3f}' for own in results.values())} |")
    print(f"| mean | | {' | '.join(f'{np.mean(list(own.values())):.3f}' for own in results.values())} |")


if __name__ == "__main__":
    main()
