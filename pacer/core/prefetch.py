"""Prefetching by threads.

Threads suffice, because the slow work (reading states from files, decoding images, an encoder) runs outside
Python's lock. Processes would have to exchange batches of a hundred megabytes.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def prefetch(make: Callable[[Item], Result], items: Iterable[Item], workers: int, ahead: int = 2) -> Generator[Result]:
    """Yield ``make(item)`` for every item, in order, whatever the number of ``workers`` (0: made on request).

    Args:
        items: read by the calling thread. ahead: number of results in progress or waiting, beyond one for each worker.

    Raises:
        Exception: raised by ``make``, in place of its result.
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
