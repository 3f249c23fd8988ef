"""The validation loss: the trajectory objective over each whole context. It does not depend on the
division into batches and processes."""

import math

import numpy as np
import torch
from accelerate import Accelerator

from pacer.core.devices import copied_to_device
from pacer.core.processes import prefetch
from pacer.model.batch import TrainingBatch
from pacer.model.pacer import Pacer
from pacer.training.examples import Examples
from pacer.training.losses import TERMS, LossWeights, compute, ratio
from pacer.training.phases import Phase

#: The terms of equation (trajectory-objective).
VALIDATED = ("trajectory", "emphasis")


@torch.no_grad()
def validate(
    model: Pacer, examples: Examples, phase: Phase, accelerator: Accelerator
) -> dict[str, float]:
    """Return ``validation/<context>``, which is equation (trajectory-objective) over the first
    ``train.validation_records`` records of a context at once, and their mean.

    The route is commitment first, as in inference, unless the phase ends with direct reports only
    (rho = 1).
    """
    model.eval()
    commit = phase.rho(phase.schedule.updates) < 1.0
    contexts = {
        context: rows[: phase.train.validation_records]
        for context, rows in examples.table.rows("val", phase.contexts).items()
        if len(rows)
    }
    batches: list[tuple[int, np.ndarray]] = []
    for place, rows in enumerate(contexts.values()):
        lengths = examples.lengths(rows, np.full(len(rows), commit))
        by_length = rows[np.argsort(lengths, kind="stable")]
        size = math.ceil(phase.schedule.batch_size / accelerator.num_processes)
        batches += [(place, by_length[start : start + size]) for start in range(0, len(rows), size)]
    mine = batches[accelerator.process_index :: accelerator.num_processes]
    supervised = LossWeights(lambda_tlw=phase.losses.lambda_tlw)

    def make(item: tuple[int, np.ndarray]) -> TrainingBatch:
        _, rows = item
        batch = examples.batch(rows, [commit] * len(rows), phase.losses.lambda_q)
        return batch.pinned_for(accelerator.device)

    # of each context and term: the sum of its values, and its denominator
    sums = torch.zeros(
        len(contexts), len(VALIDATED), 2, dtype=torch.float64, device=accelerator.device
    )
    for (place, _), batch in zip(mine, prefetch(make, mine, phase.train.workers), strict=True):
        divisors = torch.stack([TERMS[name].divisor(batch) for name in VALIDATED])
        batch = batch.to(accelerator.device)
        computed = compute(model, batch, supervised, frontal_only=phase.frontal_only)
        computed = computed._replace(nll=computed.nll.double())
        values = [TERMS[name].values(computed) for name in VALIDATED]
        sums[place, :, 0] += torch.stack([one.sum() for one in values if one is not None])
        sums[place, :, 1] += copied_to_device(divisors, accelerator.device)
    means = []
    for rows in accelerator.reduce(sums, reduction="sum").cpu():
        terms = [
            (TERMS[name].weight(supervised) or 0.0) * ratio(value, divisor, TERMS[name].eps)
            for name, (value, divisor) in zip(VALIDATED, rows, strict=True)
        ]
        means.append(torch.stack(terms).sum())
    losses = {
        f"validation/{context}": loss.item() for context, loss in zip(contexts, means, strict=True)
    }
    if losses:
        losses["validation/mean"] = torch.stack(means).mean().item()
    return losses
