"""Batches made ahead are the same batches, in order, whoever makes them."""

import threading
from itertools import islice

import pytest
import torch

from pacer.core.errors import DataError
from pacer.core.processes import prefetch
from pacer.model.batch import TrainingBatch
from pacer.training.loop import _Run
from pacer.training.phases import phase_of
from pacer.training.sampler import Sampler
from tests.support.training import parameters


def tensors(batch: TrainingBatch) -> dict[str, torch.Tensor]:
    """All that the batch holds, by name."""
    return {name: value for name, value in vars(batch).items() if isinstance(value, torch.Tensor)}


def test_for_a_gpu_batches_wait_in_page_locked_memory(setting, device_accelerator, device: torch.device) -> None:
    model, examples = setting("parent")
    phase = phase_of("parent", parameters(train={"workers": 2}))
    run = _Run(model, examples, phase, device_accelerator())
    sampler = Sampler(phase, examples)
    for (_, batch), (drawn, rho) in islice(zip(run.stream(0), sampler.from_update(0)), 8):
        moved, expected = batch.to(device), examples.drawn(drawn, rho, sampler.route_seed, phase.losses.lambda_q)
        for name, own in tensors(expected).items():
            waiting, arrived = tensors(batch)[name], tensors(moved)[name]
            assert waiting.is_pinned() is (device.type == "cuda") and arrived.device.type == device.type, name
            assert torch.equal(arrived.cpu(), own), name


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_an_error_arrives_in_its_place(workers: int) -> None:
    def make(item: int) -> int:
        if item == 3:
            raise DataError("image 3 is not in the store")
        return item

    stream = prefetch(make, range(6), workers)
    assert [next(stream) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(DataError, match="image 3 is not in the store"):
        next(stream)


def test_only_a_few_are_made_ahead_and_none_after_the_end() -> None:
    asked: list[int] = []

    def items():
        for number in range(1000):
            asked.append(number)
            yield number

    before = threading.active_count()
    stream = prefetch(lambda item: item, items(), 2)
    assert [next(stream) for _ in range(5)] == [0, 1, 2, 3, 4]
    assert len(asked) == 8  # five taken, one being made by each of two threads, and one beyond
    stream.close()
    assert threading.active_count() == before
