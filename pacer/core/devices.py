"""The CPU that this process runs on: threads, and arithmetic that it is fast at."""

from __future__ import annotations

import os

import torch


def share_cores(local_processes: int) -> None:
    """Give this process its share of the cores (a launcher of several processes would leave each one thread)."""
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // local_processes))


def gains_from_bfloat16() -> bool:
    """Whether the CPU multiplies matrices of bfloat16 faster than of float32: with AMX, and AMD's with AVX512-BF16.
    Intel's with AVX512-BF16 alone take up to 1.4 times as long (docs/training.md)."""
    known = torch.cpu.get_capabilities()
    return bool(known.get("amx_bf16") or (known.get("avx512_bf16") and "Intel" not in str(known.get("cpu_name"))))
