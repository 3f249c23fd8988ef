"""Fault injection into the micro profile: kills, stops and full disks.

    python bench/faults.py WORK [--kills 100] [--stops 20] [--full 20] [--out bench/results/faults.md]

WORK gets a clone of the repository in which the pipeline has run once. The result of each trial is in WORK/tried.jsonl,
and the same command continues after a stop. A trial depends only on the seed and its number. After each fault the
command is called again. All its outputs must then equal those of an undisturbed run, byte for byte, except speeds,
memory, and the page that shows them. The faults are:

    kill     SIGKILL to the whole process group at a random moment of a stage, of `dvc repro`, or of a command
    stop     SIGTERM to the process alone at such a moment; all must have ended 30 seconds later
    full     the file system is full from a random byte on (a preloaded library refuses to write)
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import torch
from measuring import hardware, table
from ruamel.yaml import YAML

from pacer.core.io import hash_file

ROOT = Path(__file__).resolve().parents[1]
PACER = Path(sys.executable).parent / "pacer"
GENERATE = f"{PACER} generate --model exported --cases cases.csv --out generated/reports.jsonl"
#: Stages that a trial of `dvc repro` runs.
REPEATED = ("calibrate", "decode", "score")
#: Outputs that contain or show speeds or memory.
VARY = ("reports", "plots", "metrics.json")
#: A library that refuses to write after a number of bytes, as a full disk does.
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
static atomic_long left = -1;
static int full(int file, size_t count) {
  struct stat about;
  const char *room = getenv("FULL_AFTER");
  if (!room || fstat(file, &about) || !S_ISREG(about.st_mode)) return 0;
  if (left == -1) left = atol(room);
  if ((left -= (long)count) < 0) { left = 0; errno = ENOSPC; return 1; }
  return 0;
}
ssize_t write(int file, const void *from, size_t count) {
  if (full(file, count)) return -1;
  return ((ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write"))(file, from, count);
}
ssize_t writev(int file, const struct iovec *parts, int count) {
  size_t sum = 0;
  for (int part = 0; part < count; part++) sum += parts[part].iov_len;
  if (full(file, sum)) return -1;
  return ((ssize_t(*)(int, const struct iovec *, int))dlsym(RTLD_NEXT, "writev"))(file, parts, count);
}
"""


class Step(NamedTuple):
    """A command and its outputs."""

    name: str
    command: str
    outs: list[str]


REPRO = Step("dvc repro", "dvc repro score", ["models/calibrate", "predictions", "metrics/scores.json"])


class Project:
    """A clone in which the pipeline has run once, and a copy of all its outputs."""

    def __init__(self, work: Path):
        self.folder, self.whole, self.printed = work / "project", work / "whole", work / "printed.txt"
        self.shim, durations = work / "faults.so", work / "seconds.json"
        self.environment = os.environ | {"PYTHONPATH": str(self.folder), "OMP_NUM_THREADS": "1"}
        self.environment |= {"PYTHONDONTWRITEBYTECODE": "1", "DVC_NO_ANALYTICS": "1", "LD_PRELOAD": str(self.shim)}
        if not durations.exists():
            work.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(self.folder, ignore_errors=True)
            shutil.rmtree(self.whole, ignore_errors=True)
            (work / "faults.c").write_text(SHIM)
            subprocess.run(["cc", "-shared", "-fPIC", "-o", str(self.shim), str(work / "faults.c"), "-ldl"], check=True)
            subprocess.run(["git", "clone", "--quiet", str(ROOT), str(self.folder)], check=True)
            self.run(f"{PACER} use micro")
            self.run("dvc repro")
            self.run(f"{PACER} export exported")
            images = sorted((self.folder / "data" / "source" / "images").rglob("*.*"))[:12]
            cases = ["frontal", *(str(image.relative_to(self.folder)) for image in images)]
            (self.folder / "cases.csv").write_text("\n".join(cases) + "\n")
            self.run(GENERATE)
            shutil.copytree(self.folder, self.whole, ignore=shutil.ignore_patterns(".git"))
        self.steps = {step.name: step for step in (*self.stages(), REPRO, Step("generate", GENERATE, ["generated"]))}
        if not durations.exists():
            durations.write_text(json.dumps({name: self.seconds_of(step) for name, step in self.steps.items()}))
        self.seconds = json.loads(durations.read_text())

    def stages(self) -> list[Step]:
        stages = YAML(typ="safe").load(self.folder / "dvc.yaml")["stages"]
        steps = []
        for name, stage in stages.items():
            outs = [out for kind in ("outs", "metrics", "plots") for out in stage.get(kind, [])]
            paths = [out if isinstance(out, str) else next(iter(out)) for out in outs]
            steps += [Step(name, stage["cmd"], paths)] if name != "report" else []
        return steps

    def begin(self, command: str, **environment: str) -> subprocess.Popen:
        """Start a command in a separate process group, with its output in a file."""
        settings = {"cwd": self.folder, "env": self.environment | environment, "start_new_session": True}
        with self.printed.open("w") as output:
            return subprocess.Popen(
                shlex.split(command.removeprefix("exec ")), stdout=output, stderr=output, **settings
            )

    def run(self, command: str) -> None:
        if self.begin(command).wait():
            sys.exit(f"{command}\n{self.printed.read_text()[-4000:]}")

    def seconds_of(self, step: Step) -> float:
        self.without(step)
        started = time.monotonic()
        self.run(step.command)
        return time.monotonic() - started

    def reset(self) -> None:
        """Restore everything as the complete run left it."""
        for out in {out for step in self.steps.values() for out in step.outs}:
            remove(self.folder / out)
            source, target = self.whole / out, self.folder / out
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(source, target) if source.is_dir() else shutil.copy2(source, target)
        for left in self.folder.rglob("*.scratch"):
            shutil.rmtree(left)

    def without(self, step: Step) -> None:
        """Remove the outputs of a command, and what DVC knows about how they were made."""
        for out in (*step.outs, ".dvc/cache/runs"):
            remove(self.folder / out)
        if step.command.startswith("dvc"):
            lock = YAML().load(self.whole / "dvc.lock")
            for stage in REPEATED:
                del lock["stages"][stage]
            YAML().dump(lock, self.folder / "dvc.lock")

    def differing(self, step: Step) -> list[str]:
        """Return the files that differ from those of the complete run, are missing or are additional."""
        names = []
        for out in step.outs:
            if not out.endswith(VARY):
                now, before = contents(self.folder / out), contents(self.whole / out)
                names += [f"{out}/{name}" for name in now.keys() | before.keys() if now.get(name) != before.get(name)]
        return names


def remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def contents(path: Path) -> dict[str, str]:
    """Return the hash of each file."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return {str(file.relative_to(path)): hash_file(file) for file in files}


def ended(group: int) -> bool:
    """Wait until no process of a group is left."""
    for _ in range(300):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


def tried(project: Project, step: Step, draw: random.Random, fault: str) -> dict[str, Any]:
    """Start a command, inject a fault, call it again, and compare the outputs."""
    project.reset()
    project.without(step)
    moment, room = draw.uniform(0, project.seconds[step.name]), int(10 ** draw.uniform(1, 6.5))
    running = project.begin(step.command, **({"FULL_AFTER": str(room)} if fault == "full" else {}))
    with suppress(subprocess.TimeoutExpired):
        running.wait(moment if fault != "full" else None)
    if running.poll() is None:
        running.terminate() if fault == "stop" else os.killpg(running.pid, signal.SIGKILL)
    harmed, first = running.wait() != 0, project.printed.read_text()
    if fault == "stop" and not ended(running.pid):
        os.killpg(running.pid, signal.SIGKILL)
        first = "Traceback: it did not end"
    # a user who did not kill the command must see a sentence, not a traceback
    traced = fault != "kill" and harmed and "Traceback" in first
    failed = project.begin(step.command).wait() != 0
    printed = first if traced else project.printed.read_text() if failed else ""
    return {
        "step": step.name,
        "harmed": harmed,
        "ok": not failed and not traced,
        "why": printed[-300:].strip(),
        "differing": [] if failed else project.differing(step),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path, help="folder for the clone and the trials")
    for name, default in (("--kills", 100), ("--stops", 20), ("--full", 20), ("--seed", 0)):
        parser.add_argument(name, type=int, default=default)
    parser.add_argument("--out", type=Path, help="also write the table here")
    options = parser.parse_args()
    journal = options.work.resolve() / "tried.jsonl"
    project = Project(options.work.resolve())
    lines = journal.read_text().splitlines() if journal.exists() else []
    known = {tuple(row["trial"]): row for row in map(json.loads, lines)}
    counts = {"kill": options.kills, "stop": options.stops, "full": options.full}
    planned = [(fault, number) for fault, count in counts.items() for number in range(count)]
    for fault, number in planned:
        trial = (options.seed, fault, number)
        if trial not in known:
            draw = random.Random(" ".join(map(str, trial)))
            step = project.steps[draw.choice(sorted(project.steps))]
            known[trial] = {"trial": list(trial), **tried(project, step, draw, fault)}
            with journal.open("a") as file:
                file.write(json.dumps(known[trial]) + "\n")
            print(*known[trial].values(), file=sys.stderr, flush=True)
    cells, bad = [], []
    for fault in counts:
        rows = [known[options.seed, *trial] for trial in planned if trial[0] == fault]
        bad += [row for row in rows if not row["ok"] or row["differing"]]
        sums = (sum(bool(row[name]) for row in rows) for name in ("harmed", "ok", "differing"))
        cells.append([fault, str(len(rows)), *map(str, sums)])
    about = f"`python bench/faults.py WORK`, {date.today()}, seed {options.seed}. {hardware(torch.device('cpu'))}."
    lines = table(["fault", "tried", "harmed the command", "survived", "other bytes"], cells)
    lines += [f"- {row['trial']} {row['step']}: {row['why']} {row['differing'][:5]}" for row in bad]
    text = "\n".join(["# Faults", "", about, "", *lines])
    print(text)
    if options.out:
        options.out.write_text(f"{text}\n")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
