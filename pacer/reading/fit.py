"""Fitting of the reading of findings: logistic regressions on summaries of the frozen parent's
fused tokens; with ``commit.attributes`` also of their attributes
(:mod:`pacer.reading.regression`).

Everything is fitted on split train, so that val stays free for choosing a threshold. Penalty and
calibration come from cross-validation over folds of patients (:mod:`pacer.reading.regression`).
The penalty of a state is the one with the lowest log loss of the held-out records, and their logits
calibrate the probabilities.

No token is stored: one process reads the sources once and holds the summaries in float16, 6.6 GB
for 400,000 records with d = 4,096. They are written in parts as it goes, so that a stopped run
continues. At most :data:`_LOOKED` records that name an attribute give the means of their patches,
on a grid as fine as :data:`_MEMORY` allows: at the published sizes 4 × 4 for 100,000 records, 8 × 8
for 25,000.
"""

from pathlib import Path

import numpy as np
import polars as pl
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from pacer.commitments.anchor import POLARITIES, Anchor
from pacer.core.devices import compute_device
from pacer.core.errors import DataError
from pacer.core.io import (
    atomic_directory,
    atomic_path,
    hash_json,
    remove_scratch,
    scratch_directory,
)
from pacer.core.processes import prefetch
from pacer.core.progress import Ticker
from pacer.data.findings import FINDINGS
from pacer.features.encoder import open_features
from pacer.features.store import content_hash
from pacer.model.assemble import load_model
from pacer.model.batch import FeatureSource, read_sources
from pacer.model.checkpoint import checkpoint_hash, read_record
from pacer.model.pacer import Pacer
from pacer.reading.maps import (
    FROM_PATCHES,
    GRIDS,
    AttributeReader,
    FindingsReader,
    cells,
    summary,
)
from pacer.reading.regression import FOLDS, fit_attributes, fits, minimise, shares_of

#: L2 penalties of the weights, from the strongest.
PENALTIES = (3e-1, 1e-1, 3e-2, 1e-2, 3e-3)
#: Records of a pass through the model, and of a part that is written; they do not change a map
#: beyond rounding.
_PASS = 64
_PART = 2048
#: Records that attributes are read from, at most; and bytes of their patches' means.
_LOOKED = 100_000
_MEMORY = 10e9


def fit_reader(
    checkpoint: Path,
    backbones: Path,
    records: pl.DataFrame,
    features: Path,
    anchors: pl.DataFrame,
    out: Path,
) -> None:
    """Fit the reading on the commitment targets of split train and write it to ``out``. Raises a
    DataError if split train has fewer patients than there are folds.

    Args:
        checkpoint: the parent. anchors: ``anchors.parquet``, the targets.
    """
    train = records.filter(split="train").join(anchors, on="record_id", maintain_order="left")
    if (patients := train["subject_id"].n_unique()) < FOLDS:
        raise DataError(
            f"the `findings` stage needs at least {FOLDS} training patients, but there are "
            f"{patients}; see corpus.split"
        )
    device = compute_device()
    kinds = read_record(checkpoint).model.attributes
    lists = train.select(anchors.drop("record_id").columns)
    commitments = [Anchor.of_lists(row, kinds) for row in lists.iter_rows(named=True)]
    named = np.flatnonzero([bool(one.attributes) for one in commitments])
    named = named[:: -(-len(named) // _LOOKED) or 1]
    seen = np.isin(np.arange(len(train)), named)
    weights = checkpoint_hash(checkpoint)
    fingerprint = hash_json(
        [weights, content_hash(features), train["record_id"].to_list(), named.tolist()]
    )
    with scratch_directory(out, fingerprint) as directory:
        model, _ = load_model(checkpoint, backbones)
        for part in (model.router, model.interface, model.endpoint_norm):
            part.to(device)
        numbers = (model.router.num_depths + 1) * model.endpoint_norm.weight.shape[-1]  # of a cell
        grid = max(
            (at for at in GRIDS if 2 * seen.sum() * at**2 * numbers <= _MEMORY), default=GRIDS[0]
        )
        store = open_features(features, backbones, device)
        values, places = _summaries(model, store, train, seen, grid, directory)
    numbers = train["subject_id"].rank("dense").to_numpy().astype(int)
    folds = torch.from_numpy(numbers % FOLDS).to(device)
    weight, bias, states = fit_maps(values, _targets(train).to(device), folds)
    about = {"weights": weights, "records": len(train), "patients": patients, "states": states}
    attributes: AttributeReader | None = None
    if kinds:
        read_from = {
            kind: places if kind in FROM_PATCHES else values[torch.from_numpy(named)]
            for kind in kinds
        }
        prior = train["prior_report"].is_not_null().to_numpy()
        maps, thresholds, about["attributes"] = fit_attributes(
            read_from, commitments, named, prior, numbers, folds
        )
        attributes = AttributeReader(maps, thresholds, grid)
    with atomic_directory(out) as directory:
        FindingsReader(weight.cpu(), bias.cpu(), attributes).save(directory, about)
    remove_scratch(out)


@torch.no_grad()
def _summaries(
    model: Pacer,
    store: FeatureSource,
    train: pl.DataFrame,
    seen: np.ndarray,
    grid: int,
    scratch: Path,
) -> tuple[Tensor, Tensor]:
    """Return the summaries [n, 2d] of the tokens of these records, and the cells of the patches of
    those that are ``seen`` [n], in float16. Parts in ``scratch`` are not computed again."""
    norm = model.endpoint_norm.weight
    no_cells = torch.zeros(
        0, grid**2 * (model.router.num_depths + 1) * len(norm), dtype=torch.float16
    )
    files = {start: scratch / f"{start}.safetensors" for start in range(0, len(train), _PART)}
    done = sum(len(train[start : start + _PART]) for start, file in files.items() if file.exists())
    with Ticker("tokens", len(train), done=done) as ticker:
        for start, file in files.items():
            if file.exists():
                continue
            end = min(start + _PART, len(train))
            passes = [slice(at, min(at + _PASS, end)) for at in range(start, end, _PASS)]
            summaries = []
            places = [no_cells]
            for one, sources in prefetch(
                lambda one: (one, read_sources(train[one].to_dicts(), store)), passes, 2
            ):
                sources = sources.to(norm.device)
                refined, _ = model.refine_sources(sources)
                summaries.append(summary(model.interface(refined).fused).half().cpu())
                if seen[one].any():
                    wanted = torch.from_numpy(seen[one]).to(norm.device)
                    places.append(
                        cells(sources.frontal[wanted], refined.frontal[wanted], grid).half()
                    )
                ticker.advance(len(summaries[-1]))
            with atomic_path(file) as path:
                save_file({"summaries": torch.cat(summaries), "places": torch.cat(places)}, path)
    return _joined(list(files.values()), "summaries"), _joined(list(files.values()), "places")


def _joined(files: list[Path], name: str) -> Tensor:
    """Return the tensors of this name of all files, one after the other, which are in memory
    once."""
    shapes = []
    for file in files:
        with safe_open(file, "pt") as opened:
            shapes.append(opened.get_slice(name).get_shape())
    joined = torch.empty(sum(count for count, _ in shapes), shapes[0][1], dtype=torch.float16)
    place = 0
    for file, (count, _) in zip(files, shapes, strict=True):
        with safe_open(file, "pt") as opened:
            joined[place : place + count] = opened.get_tensor(name)
        place += count
    return joined


def _targets(rows: pl.DataFrame) -> Tensor:
    """Return 1 where a target commitment gives a finding a state, else 0: [n, 39], by state, then
    by finding."""
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
        values: summaries [n, 2d]. targets: [n, 39]. folds: of each record [n], from 0.

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
    """Return the slope, above 0, and the shift with which logits fit their targets (Platt), one
    pair for all findings, because few records have the rare ones."""
    values = torch.zeros(2, device=logits.device, requires_grad=True)
    minimise(
        [values],
        lambda: [binary_cross_entropy_with_logits(logits * values[0].exp() + values[1], targets)],
    )
    return torch.stack([values[0].exp(), values[1]]).detach()
