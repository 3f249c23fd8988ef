"""What the stand-ins' training shares: the loop and its schedule, the held-out tenth, length-sorted batches.

Each ``make_*_standin`` saves model and tokenizer (or image processor) into ``out`` in Hugging Face format and returns
what the provenance says of the training. Its ``seed`` decides everything that is random.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from pacer.config.backbones import Standin, TextStandin
from pacer.core.errors import DataError
from pacer.core.progress import Ticker

#: Share of the steps in which the learning rate rises; losses that tell one training from another.
_RISE, _FIRST = 0.1, 10
#: Batches drawn together and sorted by length; texts judged at once.
_WINDOW, _JUDGED_AT_ONCE = 8, 64
#: Id of [PAD], the first special token.
PADDING = 0

Batch = TypeVar("Batch")


def train(
    what: str,
    parameters: Iterable[nn.Parameter],
    batches: Iterable[Batch],
    loss_of: Callable[[Batch], Tensor],
    config: Standin,
    steps: int | None = None,
    weight_decay: float = 0.01,
) -> list[float]:
    """AdamW down the gradient of ``loss_of(batch)``, with the gradient's norm clipped at 1; gives the first losses,
    ten at most, by which a training is recognised.

    Args:
        what: name of the work in its progress lines. batches: as many as steps at least; endless is fine.
        config: the highest learning rate (see :func:`peak_schedule`), and how many steps unless ``steps`` says so.
    """
    steps = config.steps if steps is None else steps
    parameters = list(parameters)
    optimizer = torch.optim.AdamW(parameters, lr=config.learning_rate, weight_decay=weight_decay, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: peak_schedule(step, steps))
    first: list[float] = []
    with Ticker(what, steps) as ticker:
        for _, batch in zip(range(steps), batches, strict=False):
            loss = loss_of(batch)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            schedule.step()
            ticker.advance(note=f"loss {loss.item():.3f}")
            first.append(round(loss.item(), 6))
    return first[:_FIRST]


def peak_schedule(step: int, steps: int) -> float:
    """Factor of the peak learning rate at ``step`` of ``steps``: a linear rise over a tenth, then a cosine to 0."""
    rise = max(1, round(_RISE * steps))
    if step < rise:
        return (step + 1) / rise
    return 0.5 * (1 + math.cos(math.pi * (step - rise) / max(1, steps - rise)))


def held_out_tenth(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows to learn from and a tenth (at least one) to judge by, disjoint.

    Raises:
        DataError: fewer than two rows.
    """
    if count < 2:
        raise DataError(f"{count} texts to train on; at least 2 are needed")
    order = rng.permutation(count)
    tenth = max(1, count // 10)
    return order[tenth:], order[:tenth]


def train_on_texts(
    what: str,
    parameters: Iterable[nn.Parameter],
    pieces: Sequence[Sequence[int]],
    rows: np.ndarray,
    loss_of: Callable[[Tensor, Tensor, np.ndarray], Tensor],
    config: TextStandin,
    rng: np.random.Generator,
) -> list[float]:
    """:func:`train` on ``rows`` of the token lists ``pieces``; ``loss_of`` gets ids, attention mask and rows."""
    batches = training_batches(np.array([len(row) for row in pieces]), rows, config.batch_size, rng)
    return train(what, parameters, batches, lambda batch: loss_of(*pad([pieces[row] for row in batch]), batch), config)


def training_batches(
    lengths: np.ndarray, rows: np.ndarray, batch_size: int, rng: np.random.Generator
) -> Iterator[np.ndarray]:
    """Endless batches of ``rows``: shuffled passes, similar lengths together inside shuffled windows."""
    while True:
        order = rng.permutation(rows)
        for start in range(0, len(order), _WINDOW * batch_size):
            window = order[start : start + _WINDOW * batch_size]
            window = window[np.argsort(lengths[window], kind="stable")]
            parts = [window[first : first + batch_size] for first in range(0, len(window), batch_size)]
            yield from (parts[index] for index in rng.permutation(len(parts)))


def pad(pieces: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Ids and attention mask ``[n, longest]`` of token lists."""
    ids = nn.utils.rnn.pad_sequence([torch.tensor(row) for row in pieces], batch_first=True, padding_value=PADDING)
    lengths = torch.tensor([len(row) for row in pieces])
    return ids, (torch.arange(ids.shape[1]) < lengths[:, None]).long()


@torch.inference_mode()
def held_out_accuracy(
    judge: Callable[[Tensor, Tensor], Tensor], pieces: Sequence[Sequence[int]], targets: Tensor
) -> list[float]:
    """Share of texts judged right by column of ``targets`` [texts, columns], from ids and attention mask [n, T]."""
    parts = [pieces[start : start + _JUDGED_AT_ONCE] for start in range(0, len(pieces), _JUDGED_AT_ONCE)]
    right = torch.cat([judge(*pad(part)) for part in parts]) == targets
    return [round(value, 4) for value in right.float().mean(0).tolist()]
