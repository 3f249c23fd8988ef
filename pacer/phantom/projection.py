"""What the two views of a study share."""

from __future__ import annotations

from abc import ABC, abstractmethod

from pacer.phantom.canvas import Array, Canvas
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

    @abstractmethod
    def body(self) -> Array:
        """Draw everything except the findings and the air of the lungs; return its brightness [size, size]."""
