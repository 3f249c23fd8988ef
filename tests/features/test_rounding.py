"""States in fewer bits: what is stored, what comes back, and how far it is from what was there."""

from __future__ import annotations

import hashlib

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pacer.features.rounding import DTYPES, VERSION, NotFinite, restored, rounded

FP8 = DTYPES["fp8_e4m3"]


def there_and_back(states: Tensor) -> Tensor:
    stored = rounded(states, FP8)
    return restored(**stored, out=torch.empty(states.shape))


def relative(one: Tensor, other: Tensor) -> float:
    return float((one - other).norm() / other.norm())


def like_an_encoder(tokens: int = 50, width: int = 64) -> Tensor:
    """[4, 3, tokens, width]: tokens around a common mean, and one coordinate far beyond the others."""
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(4, 3, 1, width, generator=generator) + torch.randn(4, 3, tokens, width, generator=generator)
    states[..., 7] += 30
    return states


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
def test_other_types_are_a_cast(name: str) -> None:
    states = like_an_encoder()
    stored = rounded(states, DTYPES[name])
    assert stored.keys() == {"states"} and torch.equal(stored["states"], states.to(DTYPES[name]))


def test_fp8_takes_a_byte_a_value_and_little_more() -> None:
    stored = rounded(torch.randn(2, 3, 1369, 768), FP8)
    assert {name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in stored.items()} == {
        "states": (torch.float8_e4m3fn, (2, 3, 1369, 768)),
        "scales": (torch.bfloat16, (2, 3, 1369)),
        "centre": (torch.bfloat16, (2, 3, 768)),
    }
    size = sum(tensor.nbytes for tensor in stored.values())
    assert size < 0.503 * 2 * 2 * 3 * 1369 * 768


def test_fp8_of_states_around_a_mean_is_within_two_hundredths() -> None:
    states = like_an_encoder()
    assert relative(there_and_back(states), states) < 0.01
    plain = (states / (states.abs().amax(-1, keepdim=True) / 448)).to(FP8).float()
    plain *= states.abs().amax(-1, keepdim=True) / 448
    assert relative(there_and_back(states), states) < 0.7 * relative(plain, states)


@given(st.integers(0, 2**32 - 1), st.floats(-30, 30), st.sampled_from([(1, 1, 1), (2, 5, 3), (1, 2, 4, 8)]))
def test_every_value_is_within_a_sixteenth_of_its_rest(seed: int, exponent: float, shape: tuple[int, ...]) -> None:
    """Three mantissa bits put a number within 1/16 of itself, or within half of the smallest step of its scale."""
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(shape, generator=generator) * 2.0**exponent
    stored = rounded(states, FP8)
    rest = states - stored["centre"].float().unsqueeze(-2)
    scale = stored["scales"].float().unsqueeze(-1)
    assert (rest.abs() <= 448 * scale * (1 + 1e-6)).all()
    bound = (rest.abs() / 16).maximum(scale * 2**-10) * 1.001 + states.abs() * 1e-6
    assert ((there_and_back(states) - states).abs() <= bound).all()


def test_equal_tokens_and_zeros_come_back() -> None:
    assert torch.equal(there_and_back(torch.zeros(1, 2, 3)), torch.zeros(1, 2, 3))
    same = torch.tensor([1.5, -2.0, 0.25]).expand(1, 4, 3)
    assert torch.equal(there_and_back(same), same)


def test_the_stored_bytes_are_those_of_this_version() -> None:
    """Change ``rounding.VERSION`` with them, or old entries are taken for new ones."""
    states = ((torch.arange(2 * 3 * 5 * 8) * 37 % 101).float() / 7 - 6).view(2, 3, 5, 8)
    stored = rounded(states, FP8)
    found = hashlib.sha256(b"".join(tensor.view(torch.uint8).numpy().tobytes() for tensor in stored.values()))
    assert (VERSION, found.hexdigest()[:16]) == (1, "1233d865c5d9c16c")


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(float("nan"), "bfloat16"), (float("inf"), "fp8_e4m3"), (float("nan"), "fp8_e4m3"), (70_000.0, "float16")],
)
def test_what_a_type_has_no_number_for_is_refused(value: float, dtype: str) -> None:
    states = torch.zeros(3, 2, 5, 4)
    states[2, 1, 3, 0] = value
    with pytest.raises(NotFinite) as error:
        rounded(states, DTYPES[dtype])
    assert error.value.row == 2
