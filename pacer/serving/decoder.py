"""Images that strangers hand in are decoded in processes of their own, which may be lost."""

from __future__ import annotations

import asyncio
import multiprocessing
import resource

from pebble import ProcessExpired, ProcessFuture, ProcessPool

from pacer.core.errors import DataError
from pacer.serving.sources import Opened, load_image

#: An image of the most pixels and 16 bits takes some seconds and 1 GB.
_PROCESSES, _SECONDS, _BYTES = 2, 20, 4 << 30
#: Seconds that a process may take to start, and its answer to come.
_START = 30


class Decoder:
    """:func:`~pacer.serving.sources.load_image` with an end to its time and its memory."""

    def __init__(self, seconds: float = _SECONDS):
        self._seconds = seconds
        self._context = multiprocessing.get_context("spawn")  # a fork would copy the locks of the server's threads
        self._pool = ProcessPool(_PROCESSES, context=self._context, initializer=_limit)

    async def __call__(self, content: bytes, name: str) -> Opened:
        """Raises DataError as load_image, and where the image takes too long or its process was lost."""
        try:
            decoded = self._schedule(content, name)
        except RuntimeError:  # a process was killed while it had nothing to do, and the pool with it
            self._begin()
            decoded = self._schedule(content, name)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(decoded), self._seconds + _START)
        except TimeoutError:
            if decoded.cancelled():  # a process that was killed as it answered keeps the pool's lock for ever
                self._begin()
            raise DataError(f"image {name}: it takes more than {self._seconds:g} s to decode") from None
        except (ProcessExpired, MemoryError):
            raise DataError(f"image {name}: it takes more memory to decode than an image may") from None
        finally:
            del decoded  # it holds the error, whose frame is this one

    def _begin(self) -> None:
        self._pool.stop()
        self._pool = ProcessPool(_PROCESSES, context=self._context, initializer=_limit)

    def _schedule(self, content: bytes, name: str) -> ProcessFuture:
        return self._pool.schedule(load_image, args=[content, name], timeout=self._seconds)

    def close(self) -> None:
        self._pool.stop()
        self._pool.join()


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_BYTES, _BYTES))
