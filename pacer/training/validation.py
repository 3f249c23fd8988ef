"""Validation loss per context, over the whole split."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from accelerate import Accelerator

from pacer.core.prefetch import prefetch
from pacer.model.pacer import Batch, Pacer
from pacer.training.examples import Examples
from pacer.training.losses import EPSILON
from pacer.training.objective import target_nll
from pacer.training.phases import Phase


@torch.no_grad()
def validate(model: Pacer, examples: Examples, phase: Phase, accelerator: Accelerator) -> dict[str, float]:
    """``validation/<context>`` and their mean: equation (trajectory-objective) with the whole context as one batch.

    So neither the size of a batch nor the number of processes enters. The route is the one of inference:
    commitment first, unless all reports of the phase are direct.
    """
    model.eval()
    commit = phase.rho(phase.schedule.updates) < 1.0
    contexts = {
        context: rows[: phase.train.validation_records]
        for context, rows in examples.table.rows("val", phase.contexts).items()
        if len(rows)
    }
    batches = list(_batches(list(contexts.values()), examples.lengths[:, int(commit)], phase.schedule.batch_size))
    mine = batches[accelerator.process_index :: accelerator.num_processes]

    def make(item: tuple[int, np.ndarray]) -> Batch:
        return examples.batch(item[1], [commit] * len(item[1]), phase.losses.lambda_q)

    sums = torch.zeros(len(contexts), 4, dtype=torch.float64, device=accelerator.device)
    for (context, _), batch in zip(mine, prefetch(make, mine, phase.train.workers), strict=True):
        nll, counts = target_nll(model, batch.to(accelerator.device), bare=phase.bare)
        sums[context] += torch.cat([nll, counts[:2]])
    supervised, emphasised, weight, emphasis = accelerator.reduce(sums, reduction="sum").unbind(1)
    means = supervised / (weight + EPSILON) + phase.losses.lambda_tlw * emphasised / (emphasis + EPSILON)
    losses = {f"validation/{context}": loss for context, loss in zip(contexts, means.tolist(), strict=True)}
    return losses | ({"validation/mean": means.mean().item()} if losses else {})


def _batches(contexts: list[np.ndarray], lengths: np.ndarray, size: int) -> Iterator[tuple[int, np.ndarray]]:
    for number, rows in enumerate(contexts):
        by_length = rows[np.argsort(lengths[rows], kind="stable")]
        yield from ((number, by_length[start : start + size]) for start in range(0, len(rows), size))
