"""Cores, memory and device, on Linux and as macOS has them."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterator
from math import inf
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from accelerate.state import AcceleratorState

from pacer.core import devices
from pacer.core.machine import core_count, core_quota, peak_memory
from pacer.core.processes import open_accelerator, process_state


def test_all_cores_where_a_process_cannot_be_kept_to_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pacer.core.machine.core_quota", lambda: inf)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 5, 7}, raising=False)
    assert core_count() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert core_count() == 8
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert core_count() == 1


#: /proc/self/cgroup, the files below /sys/fs/cgroup, and the cores that they allow.
CONTROL_GROUPS: dict[str, tuple[str, dict[str, str], float]] = {
    "none": ("", {}, inf),
    "v2": ("0::/", {"cpu.max": "150000 100000\n"}, 1.5),
    "v2, half a core": ("0::/", {"cpu.max": "50000 100000\n"}, 0.5),
    "v2 without a limit": ("0::/a.slice", {"a.slice/cpu.max": "max 100000\n"}, inf),
    "v2, limited above": ("0::/pod/box", {"pod/cpu.max": "200000 100000", "pod/box/cpu.max": "max 100000"}, 2.0),
    "v2, the smallest counts": ("0::/pod/box", {"pod/cpu.max": "20000 10000", "pod/box/cpu.max": "3000 1000"}, 2.0),
    "v2 of a container, with the host's path": ("0::/docker/1f", {"cpu.max": "400000 100000"}, 4.0),
    "v2 outside the namespace": ("0::/../../box", {"cpu.max": "400000 100000"}, 4.0),
    "v1": (
        "5:cpu,cpuacct:/box\n4:memory:/box\n0::/box",
        {"cpu,cpuacct/box/cpu.cfs_quota_us": "250000", "cpu,cpuacct/box/cpu.cfs_period_us": "100000"},
        2.5,
    ),
    "v1 under one name": ("1:cpu:/", {"cpu/cpu.cfs_quota_us": "100000", "cpu/cpu.cfs_period_us": "50000"}, 2.0),
    "v1 without a limit": ("1:cpu:/", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, inf),
    "v1 of a container": (
        "3:cpuacct,cpu:/kubepods/pod7/1f",
        {"cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "100000"},
        3.0,
    ),
    "both": (
        "2:cpu:/\n0::/x",
        {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "1", "unified/x/cpu.max": "300 100"},
        3.0,
    ),
    "only memory": ("4:memory:/box", {"memory/box/cpu.max": "1 1"}, inf),
    "nonsense": ("0::/\nwhat\n", {"cpu.max": "much"}, inf),
    "no period": ("0::/", {"cpu.max": "100 0"}, inf),
}


@pytest.mark.parametrize(("groups", "files", "cores"), CONTROL_GROUPS.values(), ids=CONTROL_GROUPS)
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


@pytest.mark.parametrize(
    ("threads", "processes", "expected"),
    [("", 1, 6), ("", 4, 1), ("3", 1, 3), ("3", 4, 3), ("2,1", 1, 2), ("0", 2, 3), ("many", 2, 3)],
)
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
