"""Who waits for the model: first come, first served."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from pacer.core.errors import PacerError

#: That may wait; later ones are refused.
MOST = 256


class Line:
    """Use it from one event loop."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Event] = []

    async def turn(self) -> AsyncGenerator[int]:
        """How many are served before, as often as that changes; 0 when it is one's turn, which ends with the generator.

        Raises:
            PacerError: as many wait as may.
        """
        if len(self._waiting) >= MOST:
            raise PacerError(f"{MOST} cases are waiting already; try again later")
        moved = asyncio.Event()
        self._waiting.append(moved)
        try:
            while before := self._waiting.index(moved):
                yield before
                await moved.wait()
                moved.clear()
            yield 0
        finally:
            self._waiting.remove(moved)
            for other in self._waiting:
                other.set()
