"""Where the side of a finding is lost: how well it can be read at each station of a trained parent.

    python bench/places.py        # of models/parent on this repository's corpus; some minutes on
    the default dataset

Prints R² of row and column of a patch, read from its state at each depth; then the share of
held-out records whose side (and severity) is read rightly, as the stage `findings` reads them, from
patches and from the tokens. An encoder below .9, or tokens far below the patches, cannot tell
sides.
"""

from pathlib import Path

import numpy as np
import torch
from measuring import options_of, table
from torch import Tensor

from pacer.backbones.standins.vision import position_r2
from pacer.commitments.anchor import Anchor
from pacer.commitments.attributes import read_attributes
from pacer.core.devices import compute_device
from pacer.core.errors import run_cleanly
from pacer.data.schemas import read_records
from pacer.features.encoder import open_features
from pacer.model.assemble import load_model
from pacer.model.batch import FeatureSource, read_sources
from pacer.reading.maps import FROM_PATCHES, GRIDS, cells
from pacer.reading.regression import FOLDS, fit_attributes

_PLACED, _PASS = 100, 32


def main() -> None:
    """Print both tables."""
    most = {"type": int, "default": 2000, "help": "train records at most"}
    parent = {"type": Path, "default": Path("models/parent")}
    options = options_of(__doc__, ("--parent", parent), ("--records", most))
    device, backbones = compute_device(), Path("models/backbones")
    records = (
        read_records("data/corpus/records.parquet")
        .filter(split="train", context="sn")
        .head(options.records)
    )
    anchors = read_anchors(records["report_raw"].to_list())
    store = open_features(Path("data/features"), backbones, device)
    model, record = load_model(options.parent, backbones)
    model.to(device)
    explained = zip(
        record.model.features.depths, places(store, records["frontal"].to_list()), strict=True
    )
    blocks = [[str(depth), f"{share:.3f}"] for depth, share in explained]
    print(*table(["Block", "R² of row and column"], blocks), sep="\n", flush=True)
    rows = records.to_dicts()
    stations: dict[str, list[Tensor]] = {"patches": [], "frontal tokens": [], "fused tokens": []}
    with torch.no_grad():
        for start in range(0, len(rows), _PASS):
            sources = read_sources(rows[start : start + _PASS], store).to(device)
            refined, _ = model.refine_sources(sources)
            tokens = model.interface(refined)
            patches = cells(sources.frontal, refined.frontal, GRIDS[-1])
            parts = patches, tokens.tokens[:, 0].flatten(1), tokens.fused.flatten(1)
            for station, part in zip(stations.values(), parts, strict=True):
                station.append(part.half().cpu())
    patients = records["subject_id"].rank("dense").to_numpy().astype(int)
    folds, prior = torch.from_numpy(patients % FOLDS).to(device), np.zeros(len(rows), bool)
    lines = []
    for name, station in stations.items():
        values = dict.fromkeys(FROM_PATCHES, torch.cat(station))
        _, _, about = fit_attributes(values, anchors, np.arange(len(rows)), prior, patients, folds)
        shares = [name]
        for kind in FROM_PATCHES:
            known = about[kind]["findings"].values()
            total = sum(one["records"] for one in known) or 1
            right, above = (
                sum(one["records"] * one[key] for one in known) / total
                for key in ("right", "above_majority")
            )
            shares.append(f"{right:.3f} (majority {right - above:.3f}, n {total:,})")
        lines.append(shares)
    print(*table(["Station", *FROM_PATCHES], lines), sep="\n")


def read_anchors(reports: list[str]) -> list[Anchor]:
    """Return the findings that each report affirms, with their attributes."""
    read = map(read_attributes, reports)
    return [Anchor.of(positive=known).described(known, FROM_PATCHES) for known in read]


def places(store: FeatureSource, images: list[str]) -> list[float]:
    """Return by depth R² of row and column of a patch, on held-out images."""
    states = store.depth_states(images[: 2 * _PLACED]).float()
    return [position_r2(*of_depth.split(_PLACED)) for of_depth in states.unbind(1)]


if __name__ == "__main__":
    run_cleanly(main)
