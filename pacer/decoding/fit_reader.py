"""Fitting of the reading of findings: logistic regressions on summaries of the frozen parent's fused tokens.

Everything is fitted on split train: val is kept for the promise, which holds for patients whose reports no setting was
chosen on. Penalty and calibration come from cross-validation over folds of patients. A map for each fold, fitted on the
other folds, and the one on all records, which is kept, are fitted together: full-batch L-BFGS on the standardised
summaries. The penalty of a state is the one with the lowest log loss of the held-out records, and their logits
calibrate the probabilities.

Summaries are written in chunks of records, by all processes, and a stopped run continues with the missing chunks. The
fit reads them chunk by chunk, so that memory holds one: 6.6 GB on disk for 400,000 records with d = 4,096.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import polars as pl
import torch
from safetensors.torch import load_file, save
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from pacer.commitments.anchor import POLARITIES
from pacer.core.errors import DataError
from pacer.core.io import atomic_path, hash_json, publish, scratch_directory
from pacer.core.prefetch import prefetch
from pacer.core.processes import process_state
from pacer.core.progress import Ticker
from pacer.data.findings import FINDINGS
from pacer.decoding.reader import FindingsReader, summary
from pacer.features.online import open_features
from pacer.features.store import content_hash
from pacer.model.assemble import load_model
from pacer.model.batch import FeatureSource, read_sources
from pacer.model.checkpoint import checkpoint_hash
from pacer.model.pacer import Pacer

#: L2 penalties of the weights, from the strongest: each fit starts from the one before.
PENALTIES = (3e-1, 1e-1, 3e-2, 1e-2, 3e-3, 1e-3)
#: Folds of the cross-validation.
FOLDS = 3
#: Records of a chunk, and of a pass through the model. Neither changes a summary beyond rounding.
_CHUNK, _PASS = 4096, 64
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
    state = process_state()
    device = torch.device(state.device or "cpu")
    train = records.filter(split="train").join(anchors, on="record_id")
    if (patients := train["subject_id"].n_unique()) < FOLDS:
        raise DataError(
            f"the reading of findings is fitted on {FOLDS} folds of the patients of split train, which has {patients}; "
            "see corpus.split"
        )
    model, _ = load_model(checkpoint, backbones)
    for part in (model.router, model.interface, model.endpoint_norm):
        part.to(device)
    store = open_features(features, backbones, device)
    weights = checkpoint_hash(checkpoint)
    fingerprint = hash_json([weights, content_hash(features), train.to_dicts()])
    with scratch_directory(out, fingerprint, main=state.is_main_process) as scratch:
        state.wait_for_everyone()
        starts = range(0, len(train), _CHUNK)
        chunks = {start: scratch / f"{start}.safetensors" for start in starts}
        for start in starts[state.process_index :: state.num_processes]:
            if not chunks[start].exists():
                values = _summaries(model, store, train[start : start + _CHUNK].to_dicts(), device)
                with atomic_path(chunks[start]) as temporary:
                    temporary.write_bytes(save({"summary": values}))
        state.wait_for_everyone()
        if state.is_main_process:
            summaries = [load_file(path)["summary"] for path in chunks.values()]
            folds = torch.from_numpy(train["subject_id"].rank("dense").to_numpy().astype(int) % FOLDS)
            fits = _fit(summaries, _targets(train).to(device), folds.to(device))
            weight, bias = zip(*map(_calibrated, fits.values()), strict=True)
            of_states = {state: {"penalty": fit.penalty, "log_loss": fit.loss} for state, fit in fits.items()}
            about = {"weights": weights, "records": len(train), "patients": patients, "states": of_states}
            FindingsReader(torch.cat(weight, 1), torch.cat(bias)).save(scratch / "out", about)
            publish(scratch / "out", out)
        state.wait_for_everyone()


@torch.no_grad()
def _summaries(model: Pacer, store: FeatureSource, rows: list[dict], device: torch.device) -> Tensor:
    """Return the summaries [n, 2d] of these records, in float16."""
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


class _Fit(NamedTuple):
    """The map of one state: log ``loss`` of the held-out records, its ``penalty``, ``weight`` [2d, 13] and ``bias``
    [13], and ``logits`` [n, 13] of each record by the map of its fold, with the ``targets``."""

    loss: float
    penalty: float
    weight: Tensor
    bias: Tensor
    logits: Tensor
    targets: Tensor


def _fit(parts: list[Tensor], targets: Tensor, folds: Tensor) -> dict[str, _Fit]:
    """Fit all maps with every penalty; return that of each state with the lowest loss.

    Args:
        parts: summaries [n_i, 2d], n in all. targets: [n, 39]. folds: of each record [n], from 0.
    """
    device, lengths, count = targets.device, [len(part) for part in parts], len(targets)
    # no record is in the last fold, whose map is fitted on all
    outside = torch.stack([folds != fold for fold in range(FOLDS + 1)], 1).float()
    shares = outside / outside.sum(0)
    chunks = list(zip(parts, targets.split(lengths), shares.split(lengths), folds.split(lengths), strict=True))
    mean = torch.stack([part.double().sum(0) for part in parts]).sum(0) / count
    variance = torch.stack([(part.double() - mean).square().sum(0) for part in parts]).sum(0) / count
    mean, spread = mean.float().to(device), variance.clamp(min=1e-12).sqrt().float().to(device)
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

    fits: dict[str, list[_Fit]] = {state: [] for state in POLARITIES}
    for penalty in PENALTIES:
        _minimise([weight, bias], partial(loss, penalty))
        with torch.no_grad():
            held = torch.cat([logits(part)[torch.arange(len(part)), fold] for part, _, _, fold in chunks])
            scaled = weight[:, -1] / spread[:, None]
            offset = bias[-1] - mean @ scaled
        columns = (tensor.split(len(FINDINGS), -1) for tensor in (scaled, offset, held, targets))
        for state, *of_state in zip(POLARITIES, *columns, strict=True):
            missed = binary_cross_entropy_with_logits(of_state[2], of_state[3])
            fits[state].append(_Fit(float(missed), penalty, *of_state))
    return {state: min(of_state, key=lambda fit: fit.loss) for state, of_state in fits.items()}


def _calibrated(fit: _Fit) -> tuple[Tensor, Tensor]:
    """Return weight and bias of a map with its logits scaled and shifted to fit the held-out records (Platt; one pair
    for all findings, because few records have the rare ones)."""
    log_slope, shift = (torch.zeros((), device=fit.logits.device, requires_grad=True) for _ in range(2))

    def loss() -> Tensor:
        missed = binary_cross_entropy_with_logits(fit.logits * log_slope.exp() + shift, fit.targets)
        missed.backward()
        return missed.detach()

    _minimise([log_slope, shift], loss)
    slope = log_slope.detach().exp()
    return (fit.weight * slope).cpu(), (fit.bias * slope + shift.detach()).cpu()


def _minimise(parameters: list[Tensor], loss: Callable[[], Tensor]) -> None:
    """Minimise ``loss``, which also computes the gradients."""
    optimizer = torch.optim.LBFGS(parameters, max_iter=_ITERATIONS, line_search_fn="strong_wolfe")

    def closure() -> float:
        optimizer.zero_grad()
        return loss().item()

    optimizer.step(closure)
