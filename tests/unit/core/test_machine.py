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
def no_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No CUDA GPU, and nothing that accelerate chose or a line said before or after."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    AcceleratorState._reset_state(True)
    devices._say_unsupported.cache_clear()
    yield
    AcceleratorState._reset_state(True)
    devices._say_unsupported.cache_clear()


@pytest.mark.parametrize("backend", [torch.backends.mps, torch.xpu])
def test_another_gpu_is_named_once_and_not_used(
    backend: object, no_device: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(backend, "is_available", lambda: True)
    monkeypatch.setattr(backend, "is_built", lambda: True, raising=False)
    started = (devices.compute_device(), process_state().device, open_accelerator("no").device)
    assert {device.type for device in started if device} == {"cpu"}
    told = capsys.readouterr().err
    assert told.count("is not supported, models run on the CPU\n") == told.count("\n") == 1


def test_a_cuda_gpu_comes_first(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert devices.compute_device().type == "cuda" and not capsys.readouterr().err
