"""What the two views of a study share."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from pacer.phantom.canvas import Array, Canvas, bump
from pacer.phantom.world import PhantomStudy


class Projection(ABC):
    """One view of a study; the attributes are the geometry that its findings are drawn into.

    Attributes:
        lung: air-filled lung, 0 to 1.
        texture, window: a number in [0, 1) that selects the texture sheets, and two that select the window on them.
    """

    lung: Array

    def __init__(self, study: PhantomStudy, canvas: Canvas, purpose: int):
        self.study, self.canvas, self.rng = study, canvas, study.rng(purpose)
        left, top, self.texture = self.rng.random(3).tolist()
        self.window = left, top

    def gas(self, x: Array) -> Array:
        """Return the stomach's gas bubble, 0 to 1; ``x``: distance from its centre."""
        _, height, size = self.study.anatomy.gas
        reach = np.float32(0.008 + 0.022 * size)
        return bump(np.square(x) / reach + np.square(self.canvas.y - np.float32(height)) / (0.35 * reach))

    @abstractmethod
    def body(self) -> Array:
        """Draw everything except the findings and the air of the lungs; return its brightness [size, size]."""
