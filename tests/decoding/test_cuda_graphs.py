"""Recorded steps: a search that repeats them on fixed memory finds the same tokens, on a GPU as CUDA graphs."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from pacer.decoding import beam, cuda_graphs
from pacer.decoding.beam import BeamSearch
from pacer.decoding.cuda_graphs import Replay
from pacer.decoding.tree import TokenTree
from tests.decoding.searches import EOS, Case, found, random_case, settings

pytestmark = pytest.mark.slow


class Recorder:
    """Records like a GPU would: what is repeated is the work on the memory of the recording."""

    def __init__(self) -> None:
        self.recorded = self.repeated = 0
        self.trees: list[TokenTree] = []

    def graph(self, work: Callable[[], Tensor]) -> tuple[Callable[[], object], Tensor]:
        """Record on a GPU, and count what is done with it."""
        self.recorded += 1
        replay, output = cuda_graphs.cuda_graph(work)

        def repeat() -> None:
            self.repeated += 1
            replay()

        return repeat, output

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


def recorded(case: Case, recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Tokens of a search that records as it does on the device of the case; every recording must succeed."""
    on_gpu = case.language.device.type == "cuda"
    monkeypatch.setattr(beam, "cuda_graph", recorder.graph)  # what the search takes on a GPU by itself
    engine = BeamSearch(case.language, case.decode, EOS, record=None if on_gpu else recorder)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="steps are launched kernel by kernel")
        return found(engine, case.prefixes)


def launched_one_by_one(case: Case) -> list[list[int]]:
    """Tokens of a search that records nothing."""
    engine = BeamSearch(case.language, case.decode, EOS)
    engine.record = None
    return found(engine, case.prefixes)


@pytest.mark.parametrize("seed", range(5000, 5008))
def test_repeated_steps_find_the_same_tokens(
    seed: int, recorder: Recorder, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = random_case(seed, prefixes=12).to(device)
    decode = case.decode.model_copy(update={"max_new_tokens": 50, "num_beams": 1 + seed % 4})
    case = case._replace(decode=decode)
    assert recorded(case, recorder, monkeypatch) == launched_one_by_one(case)
    assert recorder.repeated > 2 * recorder.recorded > 0


def test_in_half_precision_repeated_steps_are_equal_to_the_bit(
    recorder: Recorder, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside steps of the same height that are launched one by one: another height may sum in another order."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=500,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=2,
        num_attention_heads=4,
        bos_token_id=1,
        eos_token_id=EOS,
        initializer_range=0.1,
    )
    decode = settings(min_new_tokens=20, max_new_tokens=70, batch_size=8)
    prefixes = [torch.randn(150 + 7 * number, 256) for number in range(10)]
    case = Case(LlamaForCausalLM(config).eval(), decode, prefixes).to(device, torch.bfloat16)
    plain = BeamSearch(case.language, case.decode, EOS, record=Recorder())
    assert recorded(case, recorder, monkeypatch) == found(plain, case.prefixes)
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
