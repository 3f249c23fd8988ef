"""Devices that a user names."""

from typing import Any

import pytest
import torch

from pacer.core.devices import compute_device, device_of
from pacer.core.errors import ConfigError


def test_no_name_is_the_first_gpu_or_the_cpu() -> None:
    assert device_of(None) == compute_device()
    assert device_of("cpu") == device_of(torch.device("cpu")) == torch.device("cpu")


@pytest.mark.parametrize("name", ["cuda:99", "auto", "gpu", "CPU", "", 99, 1.5])
def test_a_device_that_is_not_there_is_named_in_one_sentence(name: Any) -> None:
    with pytest.raises(ConfigError, match=f"device={name!r}: this machine has no such device"):
        device_of(name)
