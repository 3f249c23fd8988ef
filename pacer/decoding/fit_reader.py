"""Fitting of the reading of findings: logistic regressions on summaries of the frozen parent's fused tokens.

Everything is fitted on split train: val is kept for the promise, which holds for patients whose reports no setting was
chosen on. Penalty and calibration come from cross-validation over folds of patients. A map for each fold, fitted on the
other folds, and the one on all records, which is kept, are fitted together: full-batch L-BFGS on the standardised
summaries. The penalty of a state is the one with the lowest log loss of the held-out records, and their logits
calibrate the probabilities.

No token is stored: one process reads the sources once and holds the summaries in float16, 6.6 GB for 400,000 records
with d = 4,096. The fit widens them chunk by chunk.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import polars as pl
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from pacer.commitments.anchor import POLARITIES
from pacer.core.devices import compute_device
from pacer.core.errors import DataError
from pacer.core.io import atomic_directory
from pacer.core.prefetch import prefetch
from pacer.core.progress import Ticker
from pacer.data.findings import FINDINGS
from pacer.decoding.reader import FindingsReader, summary
from pacer.features.online import open_features
from pacer.model.assemble import load_model
from pacer.model.batch import read_sources
from pacer.model.checkpoint import checkpoint_hash

#: L2 penalties of the weights, from the strongest: each fit starts from the one before.
PENALTIES = (3e-1, 1e-1, 3e-2, 1e-2, 3e-3)
#: Folds of the cross-validation.
FOLDS = 3
#: Records of a pass through the model, and of a step of the fit. Neither changes a map beyond rounding.
_PASS, _CHUNK = 64, 4096
_ITERATIONS = 40


def fit_reader(
    checkpoint: Path, backbones: Path, records: pl.DataFrame, features: Path, anchors: pl.DataFrame, out: Path
) -> None:
    """Fit the reading on the commitment targets of split train and write it to ``out``.

    Args:
        checkpoint: the parent. anchors: ``anchors.parquet``, the targets.

    Raises:
        DataError: split train has fewer patients than there are folds.
    """
    train = records.filter(split="train").join(anchors, on="record_id", maintain_order="left")
    if (patients := train["subject_id"].n_unique()) < FOLDS:
        raise DataError(
            f"the `findings` stage needs at least {FOLDS} training patients, but there are {patients}; see corpus.split"
        )
    device = compute_device()
    values = _summaries(checkpoint, backbones, features, train.to_dicts(), device)
    folds = torch.from_numpy(train["subject_id"].rank("dense").to_numpy().astype(int) % FOLDS)
    weight, bias, states = fit_maps(values, _targets(train).to(device), folds.to(device))
    about = {"weights": checkpoint_hash(checkpoint), "records": len(train), "patients": patients, "states": states}
    with atomic_directory(out) as directory:
        FindingsReader(weight.cpu(), bias.cpu()).save(directory, about)


@torch.no_grad()
def _summaries(checkpoint: Path, backbones: Path, features: Path, rows: list[dict], device: torch.device) -> Tensor:
    """Return the summaries [n, 2d] of these records, in float16."""
    model, _ = load_model(checkpoint, backbones)
    for part in (model.router, model.interface, model.endpoint_norm):
        part.to(device)
    store = open_features(features, backbones, device)
    parts = [rows[start : start + _PASS] for start in range(0, len(rows), _PASS)]
    summaries = []
    with Ticker("tokens", len(rows)) as ticker:
        for sources in prefetch(lambda part: read_sources(part, store), parts, workers=2):
            refined, _ = model.refine_sources(sources.to(device))
            summaries.append(summary(model.interface(refined).fused).half().cpu())
            ticker.advance(len(summaries[-1]))
    return torch.cat(summaries)


def _targets(rows: pl.DataFrame) -> Tensor:
    """Return 1 where a target commitment gives a finding a state, else 0: [n, 39], by state, then by finding."""
    stated = (
        pl.col(state).list.contains(finding).alias(f"{state} {finding}") for state in POLARITIES for finding in FINDINGS
    )
    return torch.from_numpy(rows.select(stated).to_numpy()).float()


def fit_maps(values: Tensor, targets: Tensor, folds: Tensor) -> tuple[Tensor, Tensor, dict[str, dict[str, float]]]:
    """Fit the maps of all states with every penalty, choose each state's and calibrate it.

    Args:
        values: summaries [n, 2d]. targets: [n, 39]. folds: of each record [n], from 0.

    Returns:
        weight [2d, 39] and bias [39]; by state the penalty, and the held-out log loss before calibration.
    """
    device, count = targets.device, len(targets)
    # no record is in the last fold, whose map is fitted on all
    outside = torch.stack([folds != fold for fold in range(FOLDS + 1)], 1).float()
    shares = outside / outside.sum(0)
    chunks = list(zip(*(of_all.split(_CHUNK) for of_all in (values, targets, shares, folds)), strict=True))
    mean = torch.stack([part.double().sum(0) for part in values.split(_CHUNK)]).sum(0) / count
    squares = torch.stack([part.double().square().sum(0) for part in values.split(_CHUNK)]).sum(0) / count
    spread = (squares - mean.square()).clamp(min=1e-12).sqrt().float().to(device)
    mean = mean.float().to(device)
    weight = torch.zeros(len(mean), FOLDS + 1, targets.shape[1], device=device, requires_grad=True)
    bias = torch.logit(shares.T @ targets, eps=1 / (count + 2)).requires_grad_()

    def logits(part: Tensor) -> Tensor:
        scaled = (part.to(device).float() - mean) / spread
        return (scaled @ weight.flatten(1)).view(-1, *bias.shape) + bias

    def loss(penalty: float) -> Tensor:
        total = penalty * weight.square().sum()
        total.backward()
        total = total.detach()
        for part, wanted, share, _ in chunks:
            predicted = logits(part)
            missed = binary_cross_entropy_with_logits(
                predicted, wanted[:, None].expand_as(predicted), share[..., None], reduction="sum"
            )
            missed.backward()
            total += missed.detach()
        return total

    fits = []
    for penalty in PENALTIES:
        _minimise([weight, bias], partial(loss, penalty))
        with torch.no_grad():
            held = torch.cat([logits(part)[torch.arange(len(part)), fold] for part, _, _, fold in chunks])
            scaled = weight[:, -1] / spread[:, None]
            fits.append([of_all.split(len(FINDINGS), -1) for of_all in (scaled, bias[-1] - mean @ scaled, held)])
    maps, chosen = [], {}
    for place, (state, wanted) in enumerate(zip(POLARITIES, targets.split(len(FINDINGS), 1), strict=True)):
        losses = [float(binary_cross_entropy_with_logits(held[place], wanted)) for *_, held in fits]
        best = losses.index(min(losses))
        scaled, offset, held = (of_states[place] for of_states in fits[best])
        slope, shift = _calibration(held, wanted)
        maps.append((scaled * slope, offset * slope + shift))
        chosen[state] = {"penalty": PENALTIES[best], "log_loss": losses[best]}
    weights, biases = zip(*maps, strict=True)
    return torch.cat(weights, 1), torch.cat(biases), chosen


def _calibration(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the slope, above 0, and the shift with which logits fit their targets (Platt), one pair for all findings,
    because few records have the rare ones."""
    values = torch.zeros(2, device=logits.device, requires_grad=True)

    def loss() -> Tensor:
        missed = binary_cross_entropy_with_logits(logits * values[0].exp() + values[1], targets)
        missed.backward()
        return missed.detach()

    _minimise([values], loss)
    return torch.stack([values[0].exp(), values[1]]).detach()


def _minimise(parameters: list[Tensor], loss: Callable[[], Tensor]) -> None:
    """Minimise ``loss``, which also computes the gradients."""
    optimizer = torch.optim.LBFGS(parameters, max_iter=_ITERATIONS, line_search_fn="strong_wolfe")

    def closure() -> float:
        optimizer.zero_grad()
        return loss().item()

    optimizer.step(closure)
