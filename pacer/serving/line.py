"""Who waits for the model: first come, first served."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from pacer.core.errors import PacerError

#: That may wait; later ones are refused.
MOST = 256


class Full(PacerError):
    """As many wait as may."""


class Place:
    """One of those who wait."""

    def __init__(self, line: list[Place]):
        self._line = line
        self.moved = asyncio.Event()

    @property
    def before(self) -> int:
        """How many are served before."""
        return self._line.index(self)


class Line:
    """Use it from one event loop."""

    def __init__(self) -> None:
        self._waiting: list[Place] = []

    @asynccontextmanager
    async def place(self) -> AsyncGenerator[Place]:
        """A place at the end, given up when the context ends; it is its turn when nobody is before.

        Raises:
            Full: see the class.
        """
        if len(self._waiting) >= MOST:
            raise Full(f"{MOST} cases are waiting already; try again later")
        own = Place(self._waiting)
        self._waiting.append(own)
        try:
            yield own
        finally:
            self._waiting.remove(own)
            for other in self._waiting:
                other.moved.set()
