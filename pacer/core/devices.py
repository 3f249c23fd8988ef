"""The device of this process, its CPU threads, and which arithmetic is fast."""

import torch

from pacer.core.errors import ConfigError
from pacer.core.machine import core_count, requested_threads


def compute_device() -> torch.device:
    """Return the device that models run on: a CUDA GPU, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def device_of(name: str | int | torch.device | None) -> torch.device:
    """Return the device that a user names; None: as :func:`compute_device`. Raises a ConfigError if
    this machine does not have it."""
    if name is None:
        return compute_device()
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (AssertionError, RuntimeError, TypeError) as error:
        raise ConfigError(
            f"device={name!r}: this machine has no such device; expected None (the first GPU, else "
            "the CPU), 'cpu', or 'cuda' with a CUDA GPU"
        ) from error
    return device


def share_cores(local_processes: int, threads: str = "") -> None:
    """Set the number of threads to the user's ``threads`` (``OMP_NUM_THREADS``) if that is a
    number, else to this process's share of the cores. By default, a launcher gives each of several
    processes a single thread."""
    share = max(1, core_count() // local_processes)
    torch.set_num_threads(requested_threads(threads) or share)


def copied_to_device(values: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Copy values from the CPU to a device without waiting for it."""
    return (values.pin_memory() if device.type == "cuda" else values).to(device, non_blocking=True)


def gains_from_bfloat16() -> bool:
    """Return whether the CPU multiplies bfloat16 matrices faster than float32: with AMX, or by AMD
    with AVX512-BF16. Intel CPUs with AVX512-BF16 but no AMX take up to 1.4 times as long
    (docs/training.md)."""
    capabilities = torch.cpu.get_capabilities()
    is_intel = "Intel" in str(capabilities.get("cpu_name"))
    return bool(capabilities.get("amx_bf16") or (capabilities.get("avx512_bf16") and not is_intel))
