"""Rendering in several processes."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any


def map_chunks(function: Callable[[Any], Any], chunks: Sequence[Any], processes: int) -> Iterator[Any]:
    """``function`` of every chunk, in order; in this process when one process or one chunk is enough.

    Args:
        function: a module-level function of one chunk; must not use threads.
        chunks: picklable pieces of work.
        processes: worker processes at most.
    """
    if processes <= 1 or len(chunks) <= 1:
        yield from map(function, chunks)
        return
    method = "fork" if sys.platform == "linux" else "spawn"
    with multiprocessing.get_context(method).Pool(min(processes, len(chunks))) as pool:
        yield from pool.imap(function, chunks)
