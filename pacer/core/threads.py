"""CPU threads."""

from __future__ import annotations

import os

import torch


def share_cores(local_processes: int) -> None:
    """Give this process its share of the cores (a launcher of several processes would leave each one thread)."""
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // local_processes))
