"""CPU threads."""

from __future__ import annotations

import os

import torch


def share_cores() -> None:
    """Give this process its share of the cores (a launcher of several processes would leave each one thread)."""
    local_processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // local_processes))
