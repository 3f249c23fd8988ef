"""Cores, memory and device, on Linux and as macOS has them."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import torch
from accelerate.state import AcceleratorState

from pacer.core import devices
from pacer.core.machine import core_count, peak_memory
from pacer.core.processes import open_accelerator, process_state


def test_all_cores_where_a_process_cannot_be_kept_to_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 5, 7}, raising=False)
    assert core_count() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert core_count() == 8
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert core_count() == 1


@pytest.mark.parametrize(("platform", "counted"), [("linux", 900_000), ("darwin", 921_600_000)])
def test_memory_is_in_bytes_whatever_the_system_counts(
    platform: str, counted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(resource, "getrusage", lambda who: SimpleNamespace(ru_maxrss=counted))
    assert peak_memory() == 921_600_000


@pytest.fixture
def fresh_state() -> Iterator[None]:
    """Nothing that accelerate chose before or after."""
    AcceleratorState._reset_state(True)
    yield
    AcceleratorState._reset_state(True)


def test_a_cuda_gpu_or_the_cpu_computes_never_a_macs_gpu(fresh_state: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for backend in (torch.backends.mps, torch.xpu):
        monkeypatch.setattr(backend, "is_available", lambda: True)
    monkeypatch.setattr(torch.backends.mps, "is_built", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    started = (devices.compute_device(), process_state().device, open_accelerator("no").device)
    assert {device.type for device in started if device} == {"cpu"}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert devices.compute_device().type == "cuda"
