"""Phases of training in processes of their own, for tests that kill, stop, count and compare them.

As a script: ``drive.py JOB...`` runs jobs one after another and is what ``accelerate launch`` is
given.
"""

import json
import multiprocessing
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Self
from unittest.mock import patch

import numpy as np
import polars as pl
import psutil
import torch
from PIL import Image

from pacer.config import Params
from pacer.core.errors import run_cleanly
from pacer.core.io import read_json, write_json
from pacer.core.schemas import RECORD_SCHEMA, write_table
from pacer.core.stops import stoppable
from pacer.features.encode import build_store
from pacer.training.loop import TELEMETRY
from pacer.training.run import Inputs, run_phase
from tests.support import training
from tests.support.made_records import REPORTS, commitments_of, few_records
from tests.support.models import MODEL
from tests.support.points import Points, Recorder
from tests.support.waiting import PATIENCE

ROOT = Path(__file__).parents[2]
#: Exit code of a process that was killed.
KILLED = -signal.SIGKILL
#: Starts a script as a user does.
ACCELERATE = (str(Path(sys.executable).with_name("accelerate")), "launch", "--quiet")
#: The same, two processes of this machine, on the CPU with gloo. `accelerate launch` starts several
#: on CPUs only as it does for GPUs (`distributed_type: MULTI_GPU`) and with ACCELERATE_USE_CPU in
#: their environment.
TWO_PROCESSES = (
    *(*ACCELERATE, "--multi_gpu", "--num_machines", "1", "--num_processes", "2"),
    *("--main_process_port", "0", "--mixed_precision", "no", "--dynamo_backend", "no"),
)
#: Dropout is drawn per process, so what depends on it differs with their number, and with the
#: device.
STILL = MODEL | {
    group: MODEL[group] | {"dropout": 0.0} for group in ("interface", "lora", "calibrate")
}
#: The configuration of one of two nodes, each with one process.
NODE = Path(__file__).with_name("node.yaml").read_text()


def parameters(model: dict, **groups: dict) -> Params:
    """The micro profile with the model ``model`` and short phases; ``groups`` change single
    values."""
    changes = {
        "warmup": {"updates": 1, "batch_size": 3},
        "parent": {"batch_size": 3},
        "calibrate": {"batch_size": 3},
        "features": {"dtype": "float32", "shard_size": 4, "batch_size": 4, "prior_tokens": 7},
        "commit": {"route": "stochastic"},
        "batches": {"window": 2},
    }
    names = {*changes, *model, *groups}
    return training.parameters(
        **{
            name: model.get(name, {}) | changes.get(name, {}) | groups.get(name, {})
            for name in names
        }
    )


def write_inputs(folder: Path, backbones: Path, params: Params) -> dict[str, str]:
    """A corpus of six train and two val records per context with its commitments and features;
    paths for a job."""
    records = few_records(".png")
    (folder / "corpus").mkdir(parents=True)
    write_table(folder / "corpus" / "records.parquet", records, RECORD_SCHEMA)
    commitments_of(records).write_parquet(folder / "anchors.parquet")
    write_features(folder / "features", folder / "images", backbones, params, seed=0)
    return {
        "corpus": str(folder / "corpus"),
        "emphasis": str(folder / "corpus" / "records.parquet"),  # has the same two columns
        "anchors": str(folder / "anchors.parquet"),
        "features": str(folder / "features"),
        "backbones": str(backbones),
    }


def write_features(out: Path, images: Path, backbones: Path, params: Params, seed: int) -> None:
    """The feature store of the corpus; the images' pixels follow from ``seed``, their names do
    not."""
    images.mkdir(exist_ok=True)
    rng = np.random.default_rng(seed)
    names = [f"{view}{i}.png" for view in "fl" for i in range(8)]
    for name in names:
        Image.fromarray(rng.integers(0, 256, (56, 56), dtype=np.uint8)).save(images / name)
    table = pl.DataFrame({"image_id": names, "path": [str(images / name) for name in names]})
    build_store(params.features, table, REPORTS, backbones, out)


def job(
    phase: str, params: Params, inputs: dict[str, str], out: Path, **more: Any
) -> dict[str, Any]:
    """What :func:`perform` does: one phase from ``inputs`` to the checkpoint ``out``, its log
    beside it.

    It starts from the checkpoint of the phase before, which lies beside ``out``.

    Args:
        more: ``stop``: {"point", "number", "signal", "rank", "parent"}, the signal that the process
            sends itself, or its parent, when it reaches that point for that time. ``watch``: file
            for the points that were passed. ``record``: prefix of files with gradients and digests
            of the weights of each update, one per rank. ``backend``: of several processes, instead
            of the one that accelerate chooses.
    """
    before = {"parent": "warmup", "calibrate": "parent"}.get(phase)
    return {
        "phase": phase,
        "params": params.model_dump(mode="json"),
        "inputs": inputs | ({"start": str(out.parent / before)} if before else {"anchors": None}),
        "out": str(out),
        "log": f"{out}.log.jsonl",
        **more,
    }


def logged(task: dict[str, Any]) -> list[tuple[int, dict[str, float]]]:
    """What a job logged, without the values that differ from run to run."""
    lines = [json.loads(line) for line in Path(task["log"]).read_text().splitlines()]
    return [
        (step, {k: v for k, v in values.items() if k not in TELEMETRY}) for step, values in lines
    ]


def weights(task: dict[str, Any]) -> bytes:
    """The checkpoint's weights as they lie on the disk."""
    return (Path(task["out"]) / "model.safetensors").read_bytes()


def contents(folder: Path) -> dict[str, bytes]:
    """The files in a folder, by their paths in it."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def write_job(task: dict[str, Any]) -> str:
    """Write a job into a file beside its output; the file."""
    path = f"{task['out']}.job.json"
    write_json(path, task)
    return path


def launch(
    jobs: Sequence[str],
    start: Sequence[str] = (sys.executable,),
    device: str = "cpu",
    script: str = __file__,
) -> subprocess.Popen:
    """Start this script, or another, for jobs with the command ``start``: alone, or as a user
    starts several."""
    return subprocess.Popen(
        [*start, script, *jobs],
        env=environment(device),
        cwd=Path(jobs[0]).parent,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def launch_nodes(jobs: Sequence[str], device: str = "cpu") -> list[subprocess.Popen]:
    """Start two nodes of one process on this machine (and one GPU), each with a configuration of
    its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    launches = []
    for rank in (1, 0):
        config = Path(f"{jobs[0]}.node{rank}.yaml")
        config.write_text(NODE.format(rank=rank, port=port, cpu=str(device == "cpu").lower()))
        launches.append(launch(jobs, (*ACCELERATE, "--config_file", str(config)), device))
    return launches


def ended(process: subprocess.Popen) -> tuple[int, str]:
    """Exit code and output of a launch, which must end within bounds."""
    try:
        output, _ = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.terminate()  # the launcher takes its processes along
        raise
    return process.returncode, output


def perform(task: dict[str, Any]) -> None:
    """Run the phase of ``task`` with its points and records in place."""

    @contextmanager
    def open_log(scratch: Path):
        with open(task["log"], "w") as file:  # after a resume the earlier points are logged again

            def log(values: dict[str, float], step: int) -> None:
                file.write(json.dumps([step, values]) + "\n")
                file.flush()

            yield log

    if task.get("backend") and not torch.distributed.is_initialized():
        torch.distributed.init_process_group(task["backend"])
    points = Points(task) if task.get("stop") or task.get("watch") else None
    recorder = Recorder() if task.get("record") else None
    inputs = Inputs(**{name: path and Path(path) for name, path in task["inputs"].items()})
    run_phase(
        task["phase"], Params.model_validate(task["params"]), inputs, Path(task["out"]), open_log
    )
    if task.get("watch"):
        write_json(task["watch"], points.passed)
    if recorder:
        recorder.save(f"{task['record']}.{os.environ.get('RANK', 0)}.pt")


def perform_all(paths: list[str]) -> None:
    """Several jobs in the same processes (those that are stopped or watched come alone).

    The group of processes stays until the last has ended: making it takes longer than a job.
    """
    from accelerate import Accelerator

    end = Accelerator.end_training
    step = torch.optim.AdamW.step
    for number, path in enumerate(paths):
        last = number == len(paths) - 1
        Accelerator.end_training = end if last else lambda self: None
        perform(read_json(path))
        torch.optim.AdamW.step = step


def _begin(do: Callable[[dict[str, Any]], None], path: str) -> None:
    """Do a job in this new process, whose words go to a file."""
    output = os.open(f"{path}.output", os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a script's background
    torch.set_num_threads(1)
    random.seed()  # a fresh process has no random state in common with the one before
    np.random.seed()
    torch.seed()
    run_cleanly(stoppable()(lambda: do(read_json(path))))


class Server:
    """Starts processes for jobs; use as a context manager. ``do``: what does a job."""

    def __init__(self, folder: Path, do: Callable[[dict[str, Any]], None] = perform):
        self.folder, self.do = folder, do
        self.processes: dict[int, tuple[BaseProcess, Path]] = {}

    def __enter__(self) -> Self:
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(["tests.support.building"])
        with patch.dict(os.environ, environment()):
            forkserver.ensure_running()
        return self

    def __exit__(self, *error: object) -> None:
        for process, _ in self.processes.values():  # a test that failed may have left one halted
            process.kill()
            process.join(PATIENCE)

    def start(self, task: dict[str, Any]) -> int:
        """Start a process for ``task``; its id."""
        path = self.folder / f"job-{len(self.processes)}.json"
        write_json(path, task)
        process = self.context.Process(target=_begin, args=(self.do, str(path)))
        process.start()
        assert process.pid is not None
        self.processes[process.pid] = process, path
        return process.pid

    def wait(self, pid: int) -> int:
        """Exit code of a process, negative for a signal."""
        process, _ = self.processes[pid]
        process.join(PATIENCE)
        assert process.exitcode is not None, f"still running: {self.output(pid)}"
        return process.exitcode

    def run(self, *tasks: dict[str, Any]) -> list[tuple[int, str]]:
        """Do tasks at the same time; exit code (negative for a signal) and output of each."""
        pids = [self.start(task) for task in tasks]
        return [(self.wait(pid), self.output(pid)) for pid in pids]

    def finish(self, *tasks: dict[str, Any]) -> None:
        """Do tasks at the same time; all must succeed."""
        for code, output in self.run(*tasks):
            assert code == 0, output

    def output(self, pid: int) -> str:
        """What a process wrote to standard output and error."""
        return Path(f"{self.processes[pid][1]}.output").read_text()

    def until_still(self, pid: int) -> bool:
        """Wait until a process has stopped itself (SIGSTOP) or ended; whether it has stopped."""
        end = time.monotonic() + PATIENCE
        while psutil.pid_exists(pid) and time.monotonic() < end:
            if psutil.Process(pid).status() == psutil.STATUS_STOPPED:
                return True
            time.sleep(0.01)
        assert not psutil.pid_exists(pid), self.output(pid)
        return False


def environment(device: str = "cpu") -> dict[str, str]:
    """The environment of a process: this one's, on the device, with one thread and the tree that
    the tests are in."""
    places = {
        "cpu": {"CUDA_VISIBLE_DEVICES": "", "ACCELERATE_USE_CPU": "true"},
        # asked for by deterministic algorithms; and gloo may not find the machine by its name
        "cuda": {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "GLOO_SOCKET_IFNAME": "lo"},
    }
    return os.environ | {
        **places[device],
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONPATH": str(ROOT),
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    # some of a GPU's fastest kernels sum in an order that changes from run to run
    torch.use_deterministic_algorithms(torch.cuda.is_available())
    run_cleanly(stoppable()(lambda: perform_all(sys.argv[1:])))
