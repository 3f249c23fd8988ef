"""What this machine's processor is good at."""

from __future__ import annotations


def gains_from_bfloat16() -> bool:
    """Whether it multiplies matrices of bfloat16 faster than of float32: with AMX, and AMD's with AVX512-BF16. Intel's
    with AVX512-BF16 alone take up to 1.4 times as long (docs/training.md)."""
    import torch  # not every user of this package loads it

    known = torch.cpu.get_capabilities()
    return bool(known.get("amx_bf16") or (known.get("avx512_bf16") and "Intel" not in str(known.get("cpu_name"))))
