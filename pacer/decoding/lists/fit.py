"""Fitting of the maps for findings: logistic regressions on summaries of the frozen parent's fused
tokens. With ``commit.attributes`` there are also maps for the sides of findings
(:mod:`pacer.decoding.lists.regression`).

Everything is fitted on split train, so that val can be used to choose a threshold. Penalty and
calibration come from cross-validation over folds of patients: for each state, the penalty with the
lowest log loss on the held-out records is chosen, and the logits of these records calibrate the
probabilities.

Tokens are not stored: one process reads the sources once and holds the summaries in float16, 6.6 GB
for 400,000 records with d = 4,096. They are written in parts, so that a stopped run can continue.
Sides are fitted on at most :data:`MAX_FIT_RECORDS` records that name any, on the means of their
patches over a grid as fine as :data:`MAX_BYTES` allows: at the published sizes 4 × 4 for
100,000 records, 8 × 8 for 25,000.
"""

import math
from pathlib import Path

import numpy as np
import polars as pl
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from pacer.core.anchor import POLARITIES, Anchor
from pacer.core.devices import compute_device
from pacer.core.errors import DataError
from pacer.core.findings import FINDINGS
from pacer.core.io import (
    atomic_directory,
    atomic_path,
    hash_json,
    remove_scratch,
    scratch_directory,
)
from pacer.core.processes import prefetch
from pacer.core.progress import Ticker
from pacer.decoding.lists.maps import (
    GRIDS,
    ListPredictor,
    SidePredictor,
    cells,
    summary,
)
from pacer.decoding.lists.regression import FOLDS, fit_sides, fits, minimise, shares_of
from pacer.features.encoder import open_features
from pacer.features.store import content_hash
from pacer.model.assemble import load_model
from pacer.model.batch import FeatureSource, SourceStates, read_sources
from pacer.model.checkpoint import checkpoint_hash, read_record
from pacer.model.pacer import Pacer

#: L2 penalties of the weights, from the strongest.
PENALTIES = (3e-1, 1e-1, 3e-2, 1e-2, 3e-3)
#: Records in a pass through the model; it changes maps only by rounding.
_PASS = 64
#: Records in a part that is written.
_PART = 2048
#: Largest number of records that sides are fitted on.
MAX_FIT_RECORDS = 100_000
#: Largest size of the means of their patches.
MAX_BYTES = 10e9


def fit_list_predictor(
    checkpoint: Path,
    backbones: Path,
    records: pl.DataFrame,
    features: Path,
    anchors: pl.DataFrame,
    out: Path,
) -> None:
    """Fit the maps on the commitment targets of split train and write them to ``out``. Raises a
    DataError if split train has fewer patients than there are folds.

    Args:
        checkpoint: the parent.
        anchors: ``anchors.parquet``, the targets.
    """
    train = records.filter(split="train").join(anchors, on="record_id", maintain_order="left")
    patients = train["subject_id"].n_unique()
    if patients < FOLDS:
        raise DataError(
            f"the `lists` stage needs at least {FOLDS} training patients, but there are "
            f"{patients}; see corpus.split"
        )
    device = compute_device()
    has_sides = read_record(checkpoint).model.sides
    lists = train.select(anchors.drop("record_id").columns)
    commitments = [Anchor.of_lists(row, has_sides) for row in lists.iter_rows(named=True)]
    named = np.flatnonzero([bool(commitment.attributes) for commitment in commitments])
    stride = max(1, math.ceil(len(named) / MAX_FIT_RECORDS))
    named = named[::stride]
    has_cells = np.isin(np.arange(len(train)), named)
    weights = checkpoint_hash(checkpoint)
    fingerprint = hash_json(
        [weights, content_hash(features), train["record_id"].to_list(), named.tolist()]
    )
    with scratch_directory(out, fingerprint) as directory:
        model, _ = load_model(checkpoint, backbones)
        for part in (model.router, model.interface, model.endpoint_norm):
            part.to(device)
        cell_size = (model.router.num_depths + 1) * model.endpoint_norm.weight.shape[-1]
        cell_bytes = 2 * has_cells.sum() * cell_size
        grid = max((side for side in GRIDS if side**2 * cell_bytes <= MAX_BYTES), default=GRIDS[0])
        store = open_features(features, backbones, device)
        values, places = _summaries(model, store, train, has_cells, grid, directory)
    patient_numbers = train["subject_id"].rank("dense").to_numpy().astype(int)
    folds = torch.from_numpy(patient_numbers % FOLDS).to(device)
    weight, bias, states = fit_maps(values, _targets(train).to(device), folds)
    about = {"weights": weights, "records": len(train), "patients": patients, "states": states}
    maps, threshold, about["sides"] = fit_sides(places, commitments, named, patient_numbers, folds)
    sides = None if threshold is None else SidePredictor(maps, threshold, grid)
    with atomic_directory(out) as directory:
        ListPredictor(weight.cpu(), bias.cpu(), sides).save(directory, about)
    remove_scratch(out)


@torch.no_grad()
def _summaries(
    model: Pacer,
    store: FeatureSource,
    train: pl.DataFrame,
    has_cells: np.ndarray,
    grid: int,
    scratch: Path,
) -> tuple[Tensor, Tensor]:
    """Return the summaries [n, 2d] of the tokens of these records, and the cells of the patches of
    the records with ``has_cells`` [n] bool, in float16. Parts in ``scratch`` are not computed
    again."""
    norm = model.endpoint_norm.weight
    no_cells = torch.zeros(
        0, grid**2 * (model.router.num_depths + 1) * len(norm), dtype=torch.float16
    )
    files = {start: scratch / f"{start}.safetensors" for start in range(0, len(train), _PART)}
    done = sum(len(train[start : start + _PART]) for start, file in files.items() if file.exists())

    def read(rows: slice) -> tuple[slice, SourceStates]:
        return rows, read_sources(train[rows].to_dicts(), store)

    with Ticker("tokens", len(train), done=done) as ticker:
        for start, file in files.items():
            if file.exists():
                continue
            end = min(start + _PART, len(train))
            passes = [slice(at, min(at + _PASS, end)) for at in range(start, end, _PASS)]
            summaries = []
            places = [no_cells]
            for rows, sources in prefetch(read, passes, workers=2):
                sources = sources.to(norm.device)
                refined, _ = model.refine_sources(sources)
                summaries.append(summary(model.interface(refined).fused).half().cpu())
                if has_cells[rows].any():
                    wanted = torch.from_numpy(has_cells[rows]).to(norm.device)
                    places.append(
                        cells(sources.frontal[wanted], refined.frontal[wanted], grid).half()
                    )
                ticker.advance(len(summaries[-1]))
            with atomic_path(file) as path:
                save_file({"summaries": torch.cat(summaries), "places": torch.cat(places)}, path)
    paths = list(files.values())
    return _concatenated(paths, "summaries"), _concatenated(paths, "places")


def _concatenated(paths: list[Path], name: str) -> Tensor:
    """Concatenate the tensors of this name in all files, without a second copy in memory."""
    shapes = []
    for path in paths:
        with safe_open(path, "pt") as file:
            shapes.append(file.get_slice(name).get_shape())
    whole = torch.empty(sum(count for count, _ in shapes), shapes[0][1], dtype=torch.float16)
    place = 0
    for path, (count, _) in zip(paths, shapes, strict=True):
        with safe_open(path, "pt") as file:
            whole[place : place + count] = file.get_tensor(name)
        place += count
    return whole


def _targets(rows: pl.DataFrame) -> Tensor:
    """Return 1 for each finding and state that a target commitment lists, else 0: [n, 39], ordered
    by state, then by finding."""
    stated = (
        pl.col(state).list.contains(finding).alias(f"{state} {finding}")
        for state in POLARITIES
        for finding in FINDINGS
    )
    return torch.from_numpy(rows.select(stated).to_numpy()).float()


def fit_maps(
    values: Tensor, targets: Tensor, folds: Tensor
) -> tuple[Tensor, Tensor, dict[str, dict[str, float]]]:
    """Fit the maps of all states with every penalty, choose each state's and calibrate it.

    Args:
        values: summaries [n, 2d].
        targets: [n, 39].
        folds: of each record [n], from 0.

    Returns:
        weight [2d, 39] and bias [39]; by state the penalty, and the held-out log loss before
        calibration.
    """

    def loss(logits: Tensor, place: slice, share: Tensor) -> Tensor:
        wanted = targets[place][:, None].expand_as(logits)
        return binary_cross_entropy_with_logits(logits, wanted, share[..., None], reduction="sum")

    start = torch.logit(shares_of(folds).T @ targets, eps=1 / (len(targets) + 2))
    candidates = list(fits(values, folds, start, loss, PENALTIES))
    weights = []
    biases = []
    chosen = {}
    for number, state in enumerate(POLARITIES):
        columns = slice(number * len(FINDINGS), (number + 1) * len(FINDINGS))
        wanted = targets[:, columns]
        losses = [
            float(binary_cross_entropy_with_logits(fit.held_out[:, columns], wanted))
            for fit in candidates
        ]
        best = losses.index(min(losses))
        weight, bias, held_out = candidates[best]
        slope, shift = _calibration(held_out[:, columns], wanted)
        weights.append(weight[:, columns] * slope)
        biases.append(bias[columns] * slope + shift)
        chosen[state] = {"penalty": PENALTIES[best], "log_loss": losses[best]}
    return torch.cat(weights, 1), torch.cat(biases), chosen


def _calibration(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the slope (above 0) and the shift that calibrate logits (Platt). There is one pair for
    all findings, because there are too few records with the rare ones."""
    values = torch.zeros(2, device=logits.device, requires_grad=True)

    def loss() -> list[Tensor]:
        calibrated = logits * values[0].exp() + values[1]
        return [binary_cross_entropy_with_logits(calibrated, targets)]

    minimise([values], loss)
    return torch.stack([values[0].exp(), values[1]]).detach()
