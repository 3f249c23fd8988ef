"""Which records form which micro-batch: context rounds as published, or mixed batches; grouped by length."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np


class MicroBatch(NamedTuple):
    """Row numbers of one micro-batch, and how often each row's record was met before in this phase."""

    rows: np.ndarray
    visits: np.ndarray


def epoch_micro_batches(
    rows: Mapping[str, np.ndarray],
    lengths: np.ndarray,
    *,
    batch_size: int,
    window: int,
    mix: bool,
    seed: int,
    phase: str,
    epoch: int,
) -> list[np.ndarray]:
    """The micro-batches of one epoch, in order.

    Published order: rounds of one micro-batch per context in the mapping's order; contexts smaller than the largest
    are recycled, reshuffled each time. With ``mix`` the same records are dealt into batches regardless of context.

    Within windows of ``window`` micro-batches (of one context, or of the mix) records are sorted by length and cut
    into batches, whose order is then shuffled: 1 is the plain shuffled order.

    Args:
        rows: row numbers of the training records per context, in the order of the rounds; empty ones are left out.
        lengths: one number per row that grows with its token count.

    Raises:
        ValueError: no context has a record.
    """
    present = {context: r for context, r in rows.items() if len(r)}
    if not present:
        raise ValueError("no context has a training record")
    rng = np.random.default_rng(_seed_words(seed, phase, epoch))
    rounds = -(-max(len(r) for r in present.values()) // batch_size)
    needed = rounds * batch_size
    streams = {}
    for context, own in present.items():
        repeats = -(-needed // len(own))
        streams[context] = np.concatenate([rng.permutation(own) for _ in range(repeats)])[:needed]
    if mix:
        streams = {"mixed": rng.permutation(np.concatenate(list(streams.values())))}
    batches = {name: _windows(stream, lengths, batch_size, window, rng) for name, stream in streams.items()}
    return [batch for group in zip(*batches.values(), strict=True) for batch in group]


def _windows(
    stream: np.ndarray, lengths: np.ndarray, batch_size: int, window: int, rng: np.random.Generator
) -> list[np.ndarray]:
    batches = []
    for start in range(0, len(stream), window * batch_size):
        part = stream[start : start + window * batch_size]
        if window > 1:
            part = part[np.argsort(lengths[part], kind="stable")]
        cut = [part[i : i + batch_size] for i in range(0, len(part), batch_size)]
        batches += [cut[i] for i in (rng.permutation(len(cut)) if window > 1 else range(len(cut)))]
    return batches


def _seed_words(seed: int, phase: str, epoch: int) -> list[int]:
    return [seed, epoch, *phase.encode()]


def micro_batches(
    rows: Mapping[str, np.ndarray],
    lengths: np.ndarray,
    *,
    batch_size: int,
    window: int,
    mix: bool,
    seed: int,
    phase: str,
    start: int = 0,
) -> Iterator[MicroBatch]:
    """Endless micro-batches over epochs, a pure function of its arguments; ``start`` skips as many micro-batches."""
    visits = np.zeros(len(lengths), dtype=np.int64)
    position, epoch = 0, 0
    while True:
        for batch in epoch_micro_batches(
            rows, lengths, batch_size=batch_size, window=window, mix=mix, seed=seed, phase=phase, epoch=epoch
        ):
            # a record that stands twice in one batch is met twice
            order = np.array([np.count_nonzero(batch[:i] == row) for i, row in enumerate(batch)], dtype=np.int64)
            if position >= start:
                yield MicroBatch(batch, visits[batch] + order)
            np.add.at(visits, batch, 1)
            position += 1
        epoch += 1
