"""The beam search against its definition in many more cases."""

from __future__ import annotations

import pytest
import torch

from tests.integration.decoding.test_beam import alone, own
from tests.support.searches import random_case


@pytest.mark.parametrize("seed", range(15, 60))
def test_tokens_are_those_of_the_definition(seed: int) -> None:
    case = random_case(seed)
    assert own(case) == alone(case)


@pytest.mark.parametrize("seed", range(1003, 1010))
def test_tokens_are_those_of_the_definition_in_single_precision(seed: int) -> None:
    case = random_case(seed, dtype=torch.float32)
    assert own(case) == alone(case)
