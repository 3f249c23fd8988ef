"""Cores, memory, device and threads, on Linux and as macOS has them; locks on file systems with and
without them."""

import errno
import fcntl
import json
import os
import platform
import resource
import runpy
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from accelerate.state import AcceleratorState

from pacer.core import devices, machine
from pacer.core.errors import ConfigError, PacerError
from pacer.core.io import locked, publish, scratch_directory
from pacer.core.machine import core_count, core_quota, peak_memory, processor, thread_count
from pacer.core.processes import open_accelerator, process_state
from tests.support.cases import listed_cases
from tests.support.waiting import PATIENCE, wait_until


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
    groups: str,
    files: dict[str, str],
    cores: float,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
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


@pytest.mark.parametrize(("cpuinfo", "expected"), listed_cases(__file__, "processors"))
def test_the_kind_of_the_processor(
    cpuinfo: str | None, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    if cpuinfo is not None:
        (tmp_path / "cpuinfo").write_text(cpuinfo)
    assert processor(tmp_path / "cpuinfo") == expected


@pytest.mark.parametrize(("threads", "processes", "expected"), listed_cases(__file__, "threads"))
def test_threads_of_a_process(
    threads: str, processes: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "core_count", lambda: 6)
    given: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", given.append)
    devices.share_cores(processes, threads)
    assert given == [expected]
    monkeypatch.setattr("pacer.core.machine.core_count", lambda: 6)
    monkeypatch.setenv("PACER_THREADS", threads)
    assert processes > 1 or thread_count() == expected


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


@pytest.fixture
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in (*machine._LAUNCHED, *machine._SIZES):
        monkeypatch.delenv(name, raising=False)
    AcceleratorState._reset_state(True)
    yield
    AcceleratorState._reset_state(True)


@pytest.mark.parametrize("name", machine._SIZES)
@pytest.mark.parametrize("start", [process_state, lambda: open_accelerator("no")])
def test_a_number_of_processes_that_nobody_started_is_refused(
    name: str, start: Callable[[], object], no_launcher: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else accelerate waits for them on a CPU."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv(name, "1")
    assert start().num_processes == 1
    AcceleratorState._reset_state(True)
    monkeypatch.setenv(name, "4")
    with pytest.raises(ConfigError, match=rf"{name} is 4, as under MPI, .* run `unset {name}`"):
        start()


@pytest.mark.parametrize("name", machine._NO_EFFECT)
def test_what_accelerate_needs_other_packages_for_has_no_effect(
    name: str, no_launcher: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "true")
    assert open_accelerator("no").num_processes == 1


def test_a_signal_ends_a_process_that_waits_for_others(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path\n"
        "from pacer.core.processes import PartialState, process_state\n"
        "from pacer.core.stops import stoppable\n"
        "wait = PartialState.__init__\n"
        "def started(*own, **named):\n"
        "    Path('waits').touch()\n"
        "    wait(*own, **named)\n"
        "PartialState.__init__ = started\n"
        "with stoppable(): process_state()\n"
    )
    launched = {"LOCAL_RANK": "0", "RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
    launched |= {"MASTER_PORT": "0", "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, env=os.environ | launched
    )
    wait_until((tmp_path / "waits").exists, lambda: process.poll() is None)
    time.sleep(1)  # it has begun to wait
    process.terminate()
    assert process.wait(PATIENCE) == -signal.SIGTERM


@pytest.mark.parametrize(("text", "words"), listed_cases(__file__, "configurations"))
def test_accelerates_configuration_of_another_project(
    text: str, words: str | None, tmp_path: Path
) -> None:
    file = tmp_path / "default_config.yaml"
    file.write_text(text)
    check = runpy.run_path(str(ROOT / "stages" / "launch.py"))["check_configuration"]
    if words is None:
        check(str(file))
        return
    with pytest.raises(ConfigError, match=rf"{file} cannot be used: it is {words}.*; move the"):
        check(str(file))


def test_a_cuda_gpu_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert devices.compute_device().type == "cuda"


ROOT = Path(__file__).parents[3]


def run(
    code: str, names: set[str], given: dict[str, str], folder: Path, *script: str
) -> subprocess.CompletedProcess[str]:
    """Have a process print variables, of which it gets only those of ``given``."""
    environment = {name: value for name, value in os.environ.items() if name not in names}
    environment |= {
        "HF_HOME": str(folder),
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONPATH": str(ROOT),
    } | given
    shown = (
        "print(__import__('json').dumps({name: __import__('os').environ.get(name) for name "
        f"in {sorted(names)}}}))"
    )
    (folder / "stage.py").write_text(code.replace("PRINT", shown))
    command = [sys.executable, *script, "stage.py"]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=True
    )


#: Notes what is set when torch is imported.
WATCH = """
import os, sys
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            os.environ["SPIN_AT_TORCH"] = os.environ.get("GOMP_SPINCOUNT", "unset")
sys.meta_path.insert(0, Watch())
"""
STAGE = """
import logging
import torch
def main():
    logging.getLogger("pacer.decoding.run").info("decode: done")
    logging.getLogger("pacer.core.io").warning("no locks")
    PRINT
"""
ALLOCATORS = {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"}
Started = Callable[[str, dict[str, str]], tuple[dict[str, str | None], list[str], str]]


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Started:
    """Starts a stage with a starter and variables, once for all tests: variables that it finds, the
    lines that it prints before, and its errors."""

    @cache
    def start(starter: str, *given: tuple[str, str]) -> tuple[Any, list[str], str]:
        folder = tmp_path_factory.mktemp("started")
        shutil.copy(ROOT / "configs" / "phantom.yaml", folder / "params.yaml")
        (folder / "sitecustomize.py").write_text(WATCH)
        path = {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
        names = {"SPIN_AT_TORCH", "GOMP_SPINCOUNT", "PACER_THREADS", *ALLOCATORS}
        done = run(STAGE, names, dict(given) | path, folder, str(ROOT / "stages" / starter))
        *lines, found = done.stdout.splitlines()
        return json.loads(found), lines, done.stderr

    return lambda starter, given: start(starter, *given.items())


@pytest.mark.parametrize("starter", ["run.py", "launch.py"])
def test_a_stage_prepares_the_environment_before_torch_is_imported(
    starter: str, started: Started
) -> None:
    assert started(starter, {})[0]["SPIN_AT_TORCH"] == "1000"


@pytest.mark.parametrize("starter", ["run.py", "launch.py"])
def test_a_stage_prints_messages(starter: str, started: Started) -> None:
    """Those of the library (test_messages.py)."""
    assert started(starter, {})[1:] == (["decode: done"], "no locks\n")


@pytest.mark.parametrize(("given", "expected"), listed_cases(__file__, "allocators"))
def test_segments_of_the_allocator_grow_unless_the_user_sets_it(
    given: dict, expected: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ALLOCATORS:
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    runpy.run_path(str(ROOT / "stages" / "launch.py"))["let_segments_grow"]()
    assert {name: os.environ.get(name) for name in ALLOCATORS} == expected


def test_segments_grow_in_a_stage(started: Started) -> None:
    assert started("launch.py", {})[0]["PYTORCH_ALLOC_CONF"] == "expandable_segments:True"


@pytest.mark.parametrize(("given", "expected"), listed_cases(__file__, "given"))
def test_the_users_threads_are_read_before_a_launcher_sets_its_own(
    given: dict, expected: dict, tmp_path: Path
) -> None:
    """OpenMP's own variable stays, unless a quota counts."""
    names = {"OMP_NUM_THREADS", "PACER_THREADS", "LOCAL_RANK", "GOMP_SPINCOUNT"}
    code = (
        "import sys\n"
        "from pacer.core.machine import prepare_environment\n"
        "prepare_environment()\n"
        "assert 'torch' not in sys.modules\n"
        "PRINT\n"
    )
    found = json.loads(run(code, names, given, tmp_path).stdout)
    assert {name: found[name] for name in expected} == expected
    assert found["OMP_NUM_THREADS"] == given.get("OMP_NUM_THREADS") or core_quota() < (
        os.cpu_count() or 1
    )


@pytest.fixture
def without_locks(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    def refuse(*_: object) -> None:
        raise OSError(request.param, os.strerror(request.param))

    monkeypatch.setattr(fcntl, "flock", refuse)


@pytest.mark.parametrize(
    "without_locks", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP], indirect=True
)
def test_a_file_system_without_locks(
    without_locks: None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with scratch_directory(tmp_path / "out", "f") as directory:
        (directory / "file").touch()
        assert "is on a file system without file locks; make sure that no other" in caplog.text
        publish(directory, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["file"]


def test_the_system_releases_the_lock_of_a_killed_process(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path; from pacer.core.io import locked\n"
        "with locked(Path(sys.argv[1]), 'in use'): os.kill(os.getpid(), signal.SIGKILL)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "lock")]
    killed = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT)})
    assert killed.returncode == -signal.SIGKILL and (tmp_path / "lock").exists()
    with locked(tmp_path / "lock", "in use"):
        pass


def test_other_faults_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flock = fcntl.flock

    def refuse(file: int, operation: int) -> None:
        if operation & fcntl.LOCK_EX:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        flock(file, operation)

    with locked(tmp_path / "lock", "in use"):
        with pytest.raises(PacerError, match=r"^in use$"), locked(tmp_path / "lock", "in use"):
            pass
        monkeypatch.setattr(fcntl, "flock", refuse)
        with (
            pytest.raises(PacerError, match="cannot be locked: Input/output error"),
            locked(tmp_path / "lock", "used"),
        ):
            pass
