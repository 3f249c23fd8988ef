"""States in the stored types: what is kept, and what is refused."""

from __future__ import annotations

import pytest
import torch

from pacer.core.errors import DataError
from pacer.features.rounding import DTYPES, as_stored


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
def test_states_are_cast(name: str) -> None:
    states = torch.randn(4, 3, 5, 8)
    stored = as_stored(states, DTYPES[name], "abcd")
    assert stored.dtype == DTYPES[name] and torch.equal(stored, states.to(DTYPES[name]))


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(float("nan"), "bfloat16"), (float("inf"), "float32"), (float("nan"), "float32"), (70_000.0, "float16")],
)
def test_what_a_type_has_no_number_for_is_refused(value: float, dtype: str) -> None:
    states = torch.zeros(3, 2, 5, 4)
    states[2, 1, 3, 0] = value
    with pytest.raises(DataError, match=r"the states of image c are not finite in the stored type; choose another"):
        as_stored(states, DTYPES[dtype], ["image a", "image b", "image c"])
