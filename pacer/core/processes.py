"""The processes of one run, and prefetching by threads.

Threads suffice to prefetch, because the slow work (reading states from files, decoding images, an
encoder) runs outside Python's lock. Processes would have to exchange batches of a hundred
megabytes.
"""

import logging
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from itertools import islice
from typing import TypeVar

from accelerate import Accelerator, InitProcessGroupKwargs, PartialState
from accelerate.utils import parse_flag_from_env

from pacer.core.devices import compute_device
from pacer.core.machine import check_process_variables, is_launched
from pacer.core.stops import signals_handled_by, start_timer

_log = logging.getLogger(__name__)

#: How long processes wait for each other: one may be validating or searching an old store, or have
#: a slower disk.
COLLECTIVE_TIMEOUT = timedelta(hours=2)
#: Warn after waiting this long for other processes (s).
PATIENCE = 10.0
Item = TypeVar("Item")
Result = TypeVar("Result")


def process_state() -> PartialState:
    """Return the state of the launcher's processes, on the CPU if the launcher asks for it or there
    is no CUDA GPU. Raises a ConfigError as :func:`check_process_variables` does."""
    check_process_variables(on_cpu=_on_cpu())
    with _waiting():
        return PartialState(cpu=_on_cpu(), timeout=COLLECTIVE_TIMEOUT)


def open_accelerator(mixed_precision: str) -> Accelerator:
    """Return an accelerator of the launcher's processes, for training in ``mixed_precision``
    (``no`` | ``bf16``). Raises a ConfigError as :func:`check_process_variables` does."""
    check_process_variables(on_cpu=_on_cpu())
    patience = InitProcessGroupKwargs(timeout=COLLECTIVE_TIMEOUT)
    with _waiting():
        return Accelerator(
            cpu=_on_cpu(), mixed_precision=mixed_precision, kwargs_handlers=[patience]
        )


def _on_cpu() -> bool:
    """Whether to compute on the CPU; accelerate itself would choose GPUs that are not supported."""
    return parse_flag_from_env("ACCELERATE_USE_CPU") or compute_device().type == "cpu"


@contextmanager
def _waiting() -> Generator[None]:
    """Warn if the block takes longer than :data:`PATIENCE`. With several processes, it waits
    outside Python, where no handler of a signal would run, and there is nothing to save yet."""
    message = "waiting until all processes have started (their number is in WORLD_SIZE)"
    timer = start_timer(PATIENCE, _log.warning, message)
    try:
        with signals_handled_by(signal.SIG_DFL) if is_launched() else nullcontext():
            yield
    finally:
        timer.cancel()


def prefetch(
    make: Callable[[Item], Result], items: Iterable[Item], workers: int, ahead: int = 2
) -> Generator[Result]:
    """Yield ``make(item)`` for every item, in order, whatever the number of ``workers`` (0: made on
    request). What ``make`` raises is raised in place of its result.

    Args:
        items: read by the calling thread.
        ahead: number of results in progress or waiting, beyond one for each worker.
    """
    if workers == 0:
        yield from map(make, items)
        return
    source = iter(items)
    waiting = deque[Future[Result]]()
    pool = ThreadPoolExecutor(workers)
    try:
        while True:
            waiting.extend(
                pool.submit(make, item) for item in islice(source, workers + ahead - len(waiting))
            )
            if not waiting:
                return
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
