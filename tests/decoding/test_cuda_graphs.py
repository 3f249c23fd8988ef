"""Recorded steps: a search that repeats them on fixed memory finds the same tokens. (CUDA graphs need a GPU.)"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from pacer.decoding.beam import BeamSearch
from pacer.decoding.cuda_graphs import Replay
from pacer.decoding.tree import TokenTree
from tests.decoding.searches import EOS, found, random_case, settings

pytestmark = pytest.mark.slow


class Recorder:
    """Records like a GPU would: what is repeated is the work on the memory of the recording."""

    def __init__(self) -> None:
        self.recorded = self.repeated = 0
        self.trees: list[TokenTree] = []

    def __call__(self, work: Callable[[], Tensor]) -> tuple[Callable[[], object], Tensor]:
        self.recorded += 1
        places = self.places()
        output = work()

        def repeat() -> None:
            self.repeated += 1
            assert self.places() == places
            output.copy_(work())

        return repeat, output

    def places(self) -> list[int]:
        return [tensor.data_ptr() for tree in self.trees for tensor in (tree.slots, *tree.keys, *tree.values)]


@pytest.fixture
def recorder(monkeypatch) -> Recorder:
    recorder, start = Recorder(), TokenTree.__init__

    def watched(self, *arguments, **named):
        start(self, *arguments, **named)
        recorder.trees = [self]

    monkeypatch.setattr(TokenTree, "__init__", watched)
    return recorder


@pytest.mark.parametrize("seed", range(5000, 5008))
def test_repeated_steps_find_the_same_tokens(seed: int, recorder: Recorder) -> None:
    case = random_case(seed, prefixes=12)
    decode = case.decode.model_copy(update={"max_new_tokens": 50, "num_beams": 1 + seed % 4})
    expected = found(BeamSearch(case.language, decode, EOS), case.prefixes)
    assert found(BeamSearch(case.language, decode, EOS, record=recorder), case.prefixes) == expected
    assert recorder.repeated > 2 * recorder.recorded > 0


def test_a_step_that_cannot_be_recorded_is_taken_as_it_is() -> None:
    case = random_case(5)._replace(decode=settings(max_new_tokens=8))

    def refuse(work):
        work()
        raise RuntimeError("not permitted")

    expected = found(BeamSearch(case.language, case.decode, EOS), case.prefixes)
    with pytest.warns(UserWarning, match="kernel by kernel, recording one failed: not permitted"):
        assert found(BeamSearch(case.language, case.decode, EOS, record=refuse), case.prefixes) == expected


def test_each_shape_is_recorded_once_until_memory_moves() -> None:
    recorder = Recorder()
    replay = Replay(lambda first, second: first + second, recorder)
    for length in (2, 3, 2, 3):
        assert torch.equal(replay(torch.full((length,), 1.0), torch.full((length,), 2.0)), torch.full((length,), 3.0))
    assert (recorder.recorded, recorder.repeated) == (2, 4)
    replay.forget()
    replay(torch.zeros(2), torch.zeros(2))
    assert recorder.recorded == 3
