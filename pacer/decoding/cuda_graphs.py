"""A step of the language model launched at once: on a GPU a step of a few rows waits for launches, not for memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

#: Runs work; returns a function that repeats it on the same memory, and the tensor that its result lies in.
Recorder = Callable[[Callable[[], Tensor]], tuple[Callable[[], object], Tensor]]

#: Largest difference between recorded and plain work, relative to the largest value: roundings of half precision.
_TOLERANCE = 0.02


class _Recorded(NamedTuple):
    inputs: tuple[Tensor, ...]
    repeat: Callable[[], object]
    output: Tensor


class Replay:
    """Calls ``work`` on tensors of few different shapes: the first call of a shape is recorded, the others repeat it.

    Where recording fails, ``work`` is called as it is from then on, with a warning.

    Args:
        work: its inputs are all that changes between calls; other memory that it uses stays where it is.
    """

    def __init__(self, work: Callable[..., Tensor], record: Recorder):
        self.work, self.record = work, record
        self.known: dict[torch.Size, _Recorded] = {}
        self.failed = False

    def forget(self) -> None:
        """Discard the recordings: memory that ``work`` uses has moved."""
        self.known.clear()

    def __call__(self, *inputs: Tensor) -> Tensor:
        """The result of ``work``; the next call may overwrite it. The first input's shape stands for all."""
        if self.failed:
            return self.work(*inputs)
        shape = inputs[0].shape
        if shape not in self.known:
            own = tuple(tensor.clone() for tensor in inputs)
            try:
                self.known[shape] = _Recorded(own, *self.record(lambda: self.work(*own)))
            except RuntimeError as error:
                warnings.warn(f"steps are launched kernel by kernel, recording one failed: {error}", stacklevel=2)
                self.failed = True
                self.forget()
                return self.work(*inputs)
        recorded = self.known[shape]
        for tensor, value in zip(recorded.inputs, inputs, strict=True):
            tensor.copy_(value)
        recorded.repeat()
        return recorded.output


def cuda_graph(work: Callable[[], Tensor]) -> tuple[Callable[[], object], Tensor]:
    """Record on a GPU.

    Raises:
        RuntimeError: the work cannot be recorded, or repeated it gives something else.
    """
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        expected = work()  # libraries take their working memory now
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = work()
    graph.replay()
    difference, largest = float((output - expected).abs().max()), float(expected.abs().max())
    if not difference <= _TOLERANCE * largest:
        raise RuntimeError(f"repeated, a step differs by {difference:.3g} where the largest value is {largest:.3g}")
    return graph.replay, output
