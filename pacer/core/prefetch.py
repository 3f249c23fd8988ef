"""Prefetching by threads.

Threads rather than processes: what takes time here (copying states out of mapped files, decoding images, an encoder)
runs outside Python's lock, and a batch of a hundred megabytes need not travel between processes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def prefetch(make: Callable[[Item], Result], items: Iterable[Item], workers: int, ahead: int = 2) -> Generator[Result]:
    """``make(item)`` for every item, in order, whatever the number of ``workers`` (0: when asked).

    Args:
        items: read by the thread that asks. ahead: how many are made or wait, beyond one for each worker.

    Raises:
        Exception: what ``make`` raised, in the place of its result.
    """
    if workers == 0:
        yield from map(make, items)
        return
    source, waiting = iter(items), deque[Future[Result]]()
    pool = ThreadPoolExecutor(workers)
    try:
        while True:
            waiting.extend(pool.submit(make, item) for item in islice(source, workers + ahead - len(waiting)))
            if not waiting:
                return
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
