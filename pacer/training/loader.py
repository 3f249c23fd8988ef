"""Batches made ahead of their use, by threads.

Threads rather than processes: what takes time (copying states out of mapped files, tokenising) runs outside Python's
lock, and a batch of a hundred megabytes need not travel between processes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")
Made = TypeVar("Made")

#: Batches that are made or wait, beyond one for each thread.
_AHEAD = 2


def prefetch(make: Callable[[Item], Made], items: Iterable[Item], workers: int) -> Iterator[Made]:
    """``make(item)`` for every item, in order, whatever the number of ``workers`` (0: when asked).

    Raises:
        Exception: what ``make`` raised, in the place of its result.
    """
    if workers == 0:
        yield from map(make, items)
        return
    pool, waiting, left = ThreadPoolExecutor(workers), deque[Future[Made]](), iter(items)
    try:
        while True:
            waiting.extend(pool.submit(make, item) for item in islice(left, workers + _AHEAD - len(waiting)))
            if not waiting:
                return
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
