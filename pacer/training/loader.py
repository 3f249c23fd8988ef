"""Batches made ahead of their use, in worker processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from torch.utils.data import DataLoader, Dataset

from pacer.core.errors import PacerError

#: Batches that a worker has ready.
_AHEAD = 3


def prefetch(make: Callable[[Any], Any], items: Iterable[Any], workers: int, *, pin: bool = False) -> Iterator[Any]:
    """``make(item)`` for every item, in order, whatever the number of workers.

    Args:
        workers: processes that make; 0: this one, when asked. pin: tensors in page-locked memory (for a GPU).

    Raises:
        PacerError: of ``make``, unchanged, wherever it was raised.
    """
    if workers == 0 and not pin:
        yield from map(make, items)
        return
    loader = DataLoader(
        _Made(make), sampler=items, batch_size=None, num_workers=workers, pin_memory=pin,  # type: ignore[arg-type]
        prefetch_factor=_AHEAD if workers else None, worker_init_fn=_start_worker if workers else None,
    )
    for made in loader:
        if isinstance(made, PacerError):
            raise made
        yield made


class _Made(Dataset):
    def __init__(self, make: Callable[[Any], Any]):
        self.make = make

    def __getitem__(self, index: Any) -> Any:
        try:
            return self.make(index)
        except PacerError as error:  # raised here it would arrive as a traceback in a message
            return error


def _start_worker(number: int) -> None:
    # the tokenizer has threads of its own, and a forked process must not use its parent's
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
