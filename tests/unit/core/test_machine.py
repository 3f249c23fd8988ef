"""Cores, memory and device, on Linux and as macOS has them."""

import os
import resource
import sys
from math import inf
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from accelerate.state import AcceleratorState

from pacer.core import devices
from pacer.core.machine import core_count, core_quota, peak_memory
from pacer.core.processes import open_accelerator, process_state
from tests.support.cases import listed_cases


def test_all_cores_where_a_process_cannot_be_kept_to_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pacer.core.machine.core_quota", lambda: inf)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 5, 7}, raising=False)
    assert core_count() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert core_count() == 8
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert core_count() == 1


@pytest.mark.parametrize(("groups", "files", "cores"), listed_cases(__file__, "control_groups"))
def test_quotas_of_control_groups(
    groups: str, files: dict[str, str], cores: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, content in {
        "proc/self/cgroup": groups,
        **{f"sys/fs/cgroup/{n}": text for n, text in files.items()},
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    assert core_quota(tmp_path) == cores
    monkeypatch.setattr("pacer.core.machine.core_quota", lambda: cores)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)
    assert core_count() == max(1, min(8, cores) // 1)


@pytest.mark.parametrize(("threads", "processes", "expected"), listed_cases(__file__, "threads"))
def test_threads_of_a_process(threads: str, processes: int, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "core_count", lambda: 6)
    given: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", given.append)
    devices.share_cores(processes, threads)
    assert given == [expected]


@pytest.mark.parametrize(("platform", "counted"), [("linux", 900_000), ("darwin", 921_600_000)])
def test_memory_is_in_bytes_whatever_the_system_counts(
    platform: str, counted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(resource, "getrusage", lambda who: SimpleNamespace(ru_maxrss=counted))
    assert peak_memory() == 921_600_000


@pytest.mark.parametrize("backend", [torch.backends.mps, torch.xpu])
def test_another_gpu_is_not_used(backend: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(backend, "is_available", lambda: True)
    monkeypatch.setattr(backend, "is_built", lambda: True, raising=False)
    AcceleratorState._reset_state(True)
    started = (devices.compute_device(), process_state().device, open_accelerator("no").device)
    AcceleratorState._reset_state(True)
    assert {device.type for device in started if device} == {"cpu"}


def test_a_cuda_gpu_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert devices.compute_device().type == "cuda"
