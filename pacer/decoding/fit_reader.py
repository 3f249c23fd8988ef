"""Fitting of the reading of findings: logistic regressions on summaries of the frozen parent's fused tokens.

The summaries are written in chunks of records, by all processes, and a stopped run continues with the missing chunks.
The first process then fits all states of all findings at once: full-batch L-BFGS on the standardised summaries, chunk
by chunk, so that memory holds one chunk. All tokens take Q x d numbers of two bytes a record; where they would pass
:data:`_MOST_BYTES`, only the mean and the maximum over tokens are tried, 2 x d numbers: 6.6 GB on disk for 400,000
records with d = 4,096. The penalty of a
state is that with the lowest log loss on val, and the summary that of what is affirmed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import accumulate
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
from pacer.decoding.reader import SUMMARIES, FindingsReader
from pacer.features.online import open_features
from pacer.features.store import content_hash
from pacer.model.assemble import load_model
from pacer.model.batch import FeatureSource, read_sources
from pacer.model.checkpoint import checkpoint_hash
from pacer.model.pacer import Pacer

#: L2 penalties of the weights, from the strongest: each fit starts from the one before.
PENALTIES = (3e-1, 1e-1, 3e-2, 1e-2)
#: Bytes that all tokens of all records may take.
_MOST_BYTES = 4 << 30
#: Records of a chunk, and of a pass through the model. Neither changes a summary beyond rounding.
_CHUNK, _PASS = 4096, 64
_ITERATIONS = 40


def fit_reader(
    checkpoint: Path, backbones: Path, records: pl.DataFrame, features: Path, anchors: pl.DataFrame, out: Path
) -> None:
    """Fit the reading on the commitment targets of split train and calibrate it on those of val; write it to ``out``.

    Args:
        checkpoint: the parent. anchors: ``anchors.parquet``, the targets.

    Raises:
        DataError: a split has no record.
    """
    state = process_state()
    device = torch.device(state.device or "cpu")
    model, record = load_model(checkpoint, backbones)
    for part in (model.router, model.interface, model.endpoint_norm):
        part.to(device)
    store = open_features(features, backbones, device)
    train, val = (records.filter(split=split).join(anchors, on="record_id") for split in ("train", "val"))
    if val.is_empty():  # a corpus without val: every tenth patient of train
        held = pl.col("subject_id").rank("dense") % 10 == 0
        train, val = train.filter(~held), train.filter(held)
    if train.is_empty() or val.is_empty():
        raise DataError(
            f"the findings are read by a map that is fitted on split train, which has {len(train)} records, and "
            f"calibrated on val or a tenth of the patients, {len(val)} records; see corpus.split"
        )
    rows = pl.concat([train, val])
    width = record.model.interface.num_queries * model.language.config.hidden_size
    names = [name for name in SUMMARIES if name != "tokens" or 2 * width * len(rows) <= _MOST_BYTES]
    weights = checkpoint_hash(checkpoint)
    fingerprint = hash_json([weights, content_hash(features), rows.to_dicts(), names])
    with scratch_directory(out, fingerprint, main=state.is_main_process) as scratch:
        state.wait_for_everyone()
        bounds = [*range(0, len(train), _CHUNK), *range(len(train), len(rows), _CHUNK), len(rows)]
        chunks = [scratch / f"{start}.safetensors" for start in bounds[:-1]]
        for place in range(state.process_index, len(chunks), state.num_processes):
            if not chunks[place].exists():
                part = rows[bounds[place] : bounds[place + 1]].to_dicts()
                with atomic_path(chunks[place]) as temporary:
                    temporary.write_bytes(save(_summaries(model, store, part, names, device)))
        state.wait_for_everyone()
        if state.is_main_process:
            tables, targets = [load_file(path) for path in chunks], _targets(rows).to(device)
            fits = {name: _fit([table[name] for table in tables], targets, len(train)) for name in names}
            chosen = min(fits, key=lambda name: fits[name]["positive"].loss)
            weight, bias = zip(*map(_calibrated, fits[chosen].values()), strict=True)
            of_states = {state: {"penalty": fit.penalty, "log_loss": fit.loss} for state, fit in fits[chosen].items()}
            about = {"weights": weights, "records": {"train": len(train), "val": len(val)}, "states": of_states}
            FindingsReader(chosen, torch.cat(weight, 1), torch.cat(bias)).save(scratch / "out", about)
            publish(scratch / "out", out)
        state.wait_for_everyone()


@torch.no_grad()
def _summaries(
    model: Pacer, store: FeatureSource, rows: list[dict], names: list[str], device: torch.device
) -> dict[str, Tensor]:
    """Return each summary [n, D] of these records, in float16."""
    parts = [rows[start : start + _PASS] for start in range(0, len(rows), _PASS)]
    summaries: dict[str, list[Tensor]] = {name: [] for name in names}
    with Ticker("tokens", len(rows)) as ticker:
        for sources in prefetch(lambda part: read_sources(part, store), parts, workers=2):
            refined, _ = model.refine_sources(sources.to(device))
            fused = model.interface(refined).fused
            for name in names:
                summaries[name].append(SUMMARIES[name](fused).half().cpu())
            ticker.advance(len(fused))
    return {name: torch.cat(values) for name, values in summaries.items()}


def _targets(rows: pl.DataFrame) -> Tensor:
    """Return 1 where a target commitment gives a finding a state, else 0: [n, 39], by state, then by finding."""
    stated = (
        pl.col(state).list.contains(finding).alias(f"{state} {finding}") for state in POLARITIES for finding in FINDINGS
    )
    return torch.from_numpy(rows.select(stated).to_numpy()).float()


class _Fit(NamedTuple):
    """The map of one state: log ``loss`` on val, its ``penalty``, ``weight`` [D, 13], ``bias`` [13], and its ``logits``
    and ``targets`` on val [n, 13]."""

    loss: float
    penalty: float
    weight: Tensor
    bias: Tensor
    logits: Tensor
    targets: Tensor


def _fit(parts: list[Tensor], targets: Tensor, train: int) -> dict[str, _Fit]:
    """Fit all maps with every penalty on the first ``train`` rows of a summary, ``parts`` [n_i, D]; the others are val.
    Return the map of each state with the lowest loss on val."""
    device, lengths = targets.device, [len(part) for part in parts]
    fitted = list(accumulate(lengths)).index(train) + 1
    pairs = list(zip(parts, targets.split(lengths), strict=True))
    mean = torch.stack([part.double().sum(0) for part in parts[:fitted]]).sum(0) / train
    variance = torch.stack([(part.double() - mean).square().sum(0) for part in parts[:fitted]]).sum(0) / train
    mean, spread = mean.float().to(device), variance.clamp(min=1e-12).sqrt().float().to(device)
    weight = torch.zeros(len(mean), targets.shape[1], device=device, requires_grad=True)
    bias = torch.logit(targets[:train].mean(0), eps=1 / (train + 2)).requires_grad_()

    def folded() -> tuple[Tensor, Tensor]:
        return weight / spread[:, None], bias - (mean / spread) @ weight

    def loss(penalty: float) -> Tensor:
        total = penalty * weight.square().sum()
        total.backward()
        total = total.detach()
        for part, wanted in pairs[:fitted]:
            scaled, offset = folded()
            missed = binary_cross_entropy_with_logits(
                part.to(device).float() @ scaled + offset, wanted, reduction="sum"
            )
            (missed / train).backward()
            total += missed.detach() / train
        return total

    fits: dict[str, list[_Fit]] = {state: [] for state in POLARITIES}
    for penalty in PENALTIES:
        _minimise([weight, bias], partial(loss, penalty))
        with torch.no_grad():
            scaled, offset = folded()
            logits = torch.cat([part.to(device).float() @ scaled + offset for part, _ in pairs[fitted:]])
        columns = (tensor.split(len(FINDINGS), -1) for tensor in (scaled, offset, logits, targets[train:]))
        for state, *of_state in zip(POLARITIES, *columns, strict=True):
            missed = binary_cross_entropy_with_logits(of_state[2], of_state[3])
            fits[state].append(_Fit(float(missed), penalty, *of_state))
    return {state: min(of_state, key=lambda fit: fit.loss) for state, of_state in fits.items()}


def _calibrated(fit: _Fit) -> tuple[Tensor, Tensor]:
    """Return weight and bias of a map with its logits scaled and shifted as val asks (Platt; one pair for all findings,
    because few records of val have the rare ones)."""
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
