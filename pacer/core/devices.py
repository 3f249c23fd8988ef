"""What this process computes on: its device, the CPU's threads, and which arithmetic is fast."""

from __future__ import annotations

import torch

from pacer.core.machine import core_count


def compute_device() -> torch.device:
    """Return the device that models run on: a CUDA GPU, else the CPU.

    A Mac's GPU has no float64, in which losses are added up. Others were not tried.
    """
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def share_cores(local_processes: int) -> None:
    """Give this process its share of the cores (by default, a launcher gives each of several processes one thread)."""
    torch.set_num_threads(max(1, core_count() // local_processes))


def gains_from_bfloat16() -> bool:
    """Return whether the CPU multiplies bfloat16 matrices faster than float32: with AMX, or by AMD with AVX512-BF16.
    Intel CPUs with AVX512-BF16 but no AMX take up to 1.4 times as long (docs/training.md)."""
    known = torch.cpu.get_capabilities()
    return bool(known.get("amx_bf16") or (known.get("avx512_bf16") and "Intel" not in str(known.get("cpu_name"))))
