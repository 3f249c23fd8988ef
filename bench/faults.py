"""A campaign of faults over the micro profile: kills, full disks, flipped bits, clocks that jump.

    python bench/faults.py WORK                  a developer's tenth: 100 kills, 70 damaged files and some of the others
    python bench/faults.py WORK --times 10 --jobs 2 --out bench/results/faults.md

WORK gets a clone of the repository for each job, with the pipeline run once; what came of each trial stands in
WORK/tried.jsonl, and the same command goes on after a stop. A trial is drawn from the seed and its number alone. After
each fault the command is called again, and everything that it leaves must be what the unharmed run left, byte for byte
(speeds and memory, and the page that shows them, apart):

    kill     SIGKILL to the whole process group at a random moment of a stage, of `dvc repro`, or of a command
    end      SIGTERM likewise
    full     the file system has no room from a random byte on (a library between program and system refuses)
    flip     one bit of one file that a stage left; the stages that read it must name it, or leave the same bytes
    cut      likewise, the file ends at a random byte
    zero     likewise, one block of 4,096 bytes is zeros
    scratch  a kill, then one bit of what the killed command left for its next call
    vanish   a file that the command reads is gone from a random moment on, and back for the next call
    twice    the command is called a second time while it runs
    clock    the time of day jumps by up to ten years at a random moment, and back
    memory   from a random moment on the processes of the command get little more memory than they have
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import torch
from measuring import hardware, table
from ruamel.yaml import YAML

from pacer.core.io import hash_file
from pacer.core.journal import Journal, read_journal
from pacer.core.progress import Ticker

ROOT = Path(__file__).resolve().parents[1]
#: Stages that a trial of `dvc repro` runs, and what it makes beside their model.
REPEATED = ("calibrate", "decode", "score")
MADE = ("predictions", "metrics/scores.json", "metrics/cases.parquet")
#: Outs that hold speeds, memory or what shows them.
VARY = ("reports", "plots", "metrics.json")
KINDS = ("outs", "metrics", "plots")
#: Trials of the tenth.
TENTH = {
    "kill": 100,
    "end": 10,
    "full": 20,
    "flip": 50,
    "cut": 10,
    "zero": 10,
    "scratch": 10,
    "vanish": 10,
    "twice": 5,
    "clock": 5,
    "memory": 10,
}
DAMAGES = ("flip", "cut", "zero")
#: Refuses writes once a number of bytes is written, as a full disk does; moves the time of day between two readings.
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
static atomic_long left = -1, readings = 0;
int clock_gettime(clockid_t clock, struct timespec *now) {
  int failed = ((int(*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime"))(clock, now);
  const char *from = getenv("JUMP_FROM"), *to = getenv("JUMP_TO"), *by = getenv("JUMP_BY");
  if (clock == CLOCK_REALTIME && from && to && by) {
    long reading = readings++;
    if (reading >= atol(from) && reading < atol(to)) now->tv_sec += atol(by);
  }
  return failed;
}
static int full(int file, size_t count) {
  struct stat about;
  if (!getenv("FULL_AFTER")) return 0;
  if (fstat(file, &about) || !S_ISREG(about.st_mode)) return 0;
  if (left == -1) left = atol(getenv("FULL_AFTER"));
  if ((left -= (long)count) < 0) { left = 0; errno = ENOSPC; return 1; }
  return 0;
}
ssize_t write(int file, const void *from, size_t count) {
  if (full(file, count)) return -1;
  return ((ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write"))(file, from, count);
}
ssize_t pwrite64(int file, const void *from, size_t count, off64_t at) {
  if (full(file, count)) return -1;
  return ((ssize_t(*)(int, const void *, size_t, off64_t))dlsym(RTLD_NEXT, "pwrite64"))(file, from, count, at);
}
ssize_t writev(int file, const struct iovec *parts, int count) {
  size_t sum = 0;
  for (int part = 0; part < count; part++) sum += parts[part].iov_len;
  if (full(file, sum)) return -1;
  return ((ssize_t(*)(int, const struct iovec *, int))dlsym(RTLD_NEXT, "writev"))(file, parts, count);
}
"""


#: A study of two systems, small enough to be killed often.
STUDY = """title: Two systems
layout: mean
metrics: [f1]
seeds: [42]
set: {decode.controls: [], decode.limit: 2, calibrate.gate_inputs: none}
rows:
  - {name: Base, set: {refine.variant: endpoint, commit.route: direct}}
  - {name: Commit only, set: {refine.variant: endpoint, commit.route: stochastic}}
"""
#: A scorer of another environment: the words of a report.
SCORER = """import json, sys
options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
with open(options["--hypotheses"]) as lines, open(options["--out"] + "/scores.jsonl", "w") as out:
    for row in map(json.loads, lines):
        print(json.dumps({"record_id": row["record_id"], "words": len(row["text"].split())}), file=out)
with open(options["--out"] + "/about.json", "w") as out:
    json.dump({"name": "words", "version": "1"}, out)
"""


class Step(NamedTuple):
    """A command, what it leaves, and what it reads of what others leave."""

    name: str
    command: str
    outs: list[str]
    deps: list[str]


class Running(subprocess.Popen):
    """A command in a process group of its own."""

    def __init__(self, command: list[str], **options: Any):
        self._told = tempfile.TemporaryFile("w+")  # noqa: SIM115  a pipe that is full would stop the command
        super().__init__(command, stdout=self._told, stderr=self._told, start_new_session=True, **options)

    def told(self) -> str:
        self._told.seek(0)
        return self._told.read()


class Project:
    """A clone with the pipeline run once, and a copy of all that it left."""

    def __init__(self, work: Path):
        self.folder, self.whole = work / "project", work / "whole"
        self.shim = work / "faults.so"
        own = {"PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
        self.environment = os.environ | own
        if not self.whole.exists():
            shutil.rmtree(self.folder, ignore_errors=True)
            work.mkdir(parents=True, exist_ok=True)
            (work / "faults.c").write_text(SHIM)
            subprocess.run(["cc", "-shared", "-fPIC", "-o", str(self.shim), str(work / "faults.c"), "-ldl"], check=True)
            subprocess.run(["git", "clone", "--quiet", str(ROOT), str(self.folder)], check=True)
            # `features` finds what is wrong with an image; so `corpus` does, which reads it first
            micro = (self.folder / "configs" / "micro.yaml").read_text()
            full = micro.replace("check_images: headers", "check_images: full")
            (self.folder / "params.yaml").write_text(full)
            self.run("dvc config --local core.analytics false")
            self.run("dvc config --local cache.type copy")
            self.run("dvc repro")
            for step in self.commands().values():
                self.run(step.command)
            shutil.copytree(self.folder, self.whole, ignore=shutil.ignore_patterns(".git"))
        self.steps = self.stages() | self.commands()
        durations = work / "seconds.json"
        if not durations.exists():
            self.reset()
            durations.write_text(json.dumps({name: self.timed(step) for name, step in self.steps.items()}))
        self.seconds = json.loads(durations.read_text())

    def stages(self) -> dict[str, Step]:
        found = YAML(typ="safe").load(self.folder / "dvc.yaml")["stages"]
        own = {
            name: [out if isinstance(out, str) else next(iter(out)) for kind in KINDS for out in stage.get(kind, [])]
            for name, stage in found.items()
        }
        made = [out for outs in own.values() for out in outs]
        return {
            name: Step(name, s["cmd"], own[name], [out for out in made if any(inside(out, dep) for dep in s["deps"])])
            for name, s in found.items()
            if name != "report"
        }

    def commands(self) -> dict[str, Step]:
        (self.folder / "words.py").write_text(SCORER)
        (self.folder / "studies" / "faults.yaml").write_text(STUDY)
        cases = self.folder / "cases"
        if not cases.exists():
            cases.mkdir()
            for image in sorted((self.folder / "data" / "source" / "images").rglob("*.*"))[:12]:
                shutil.copy(image, cases)
        return {
            "dvc repro": Step("dvc repro", "dvc repro score", [*MADE, "models/calibrate"], []),
            "export": Step(
                "export",
                f"{PACER} export exported",
                ["exported"],
                ["models/calibrate", "models/parent", "data/features"],
            ),
            "score": Step(
                "score",
                f"{PACER} score --records data/corpus/records.parquet --predictions predictions --out scored "
                f"--also 'words={sys.executable} words.py'",
                ["scored"],
                ["predictions"],
            ),
            "generate": Step(
                "generate",
                f"{PACER} generate --model exported --cases cases --out generated/reports.jsonl",
                ["generated"],
                ["exported"],
            ),
            "study run": Step("study run", f"{PACER} study run faults", ["studies/results/faults"], []),
        }

    def run(self, command: str, check: bool = True) -> tuple[int, str]:
        """Status and what it said."""
        begun = self.begin(command)
        status, told = begun.wait(), begun.told()
        if check and status:
            sys.exit(f"{command}\n{told[-4000:]}")
        return status, told

    def begin(self, command: str, **environment: str) -> Running:
        if environment:
            environment["LD_PRELOAD"] = str(self.shim)
        return Running(shlex.split(command), cwd=self.folder, env=self.environment | environment)

    def timed(self, step: Step) -> float:
        self.without(step)
        started = time.monotonic()
        self.run(step.command)
        return time.monotonic() - started

    def reset(self) -> None:
        """All as the whole run left it."""
        for step in self.steps.values():
            for out in step.outs:
                bring(self.whole / out, self.folder / out)
        for left in self.folder.rglob("*.scratch"):
            shutil.rmtree(left)

    def without(self, step: Step) -> None:
        """Before the command: nothing that it makes is there, and DVC does not know how it was made."""
        for out in step.outs:
            remove(self.folder / out)
        if step.command.startswith("dvc"):
            lock = YAML().load(self.whole / "dvc.lock")
            for stage in REPEATED:
                del lock["stages"][stage]
            YAML().dump(lock, self.folder / "dvc.lock")
        for remembered in (".dvc/cache/runs", "studies/results"):
            remove(self.folder / remembered)

    def differing(self, step: Step) -> list[str]:
        """Files that are other than the whole run's, missing or too many."""
        found = []
        for out in step.outs:
            if not out.endswith(VARY):
                one, other = contents(self.folder / out), contents(self.whole / out)
                found += [f"{out}/{name}" for name in one.keys() | other.keys() if one.get(name) != other.get(name)]
        return found


PACER = f"{Path(sys.executable).parent}/pacer"


def inside(out: str, dep: str) -> bool:
    return out == dep or out.startswith(f"{dep}/") or dep.startswith(f"{out}/")


def remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def bring(source: Path, target: Path) -> None:
    remove(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(source, target) if source.is_dir() else shutil.copy2(source, target)


def contents(path: Path) -> dict[str, Any]:
    """Hashes of files; of reports with the seconds that they took, what else is in the lines."""
    look = untimed if path.name == "generated" else hash_file
    return {str(file.relative_to(path)): look(file) for file in files_below(path)}


def untimed(path: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in path.read_text().split("\n") if line.startswith("{") and line.endswith("}")]
    return [{key: value for key, value in row.items() if key not in ("seconds", "pacer_crc32")} for row in rows]


def harmed(project: Project, step: Step, draw: random.Random, how: str) -> dict[str, Any]:
    """Begin a command, harm it, call it again, compare."""
    project.without(step)
    moment = draw.uniform(0, project.seconds[step.name])
    environment: dict[str, str] = {}
    if how == "full":
        environment = {"FULL_AFTER": str(int(10 ** draw.uniform(1, 6.5)))}
    elif how == "clock":
        first = int(10 ** draw.uniform(0, 4))
        environment = {"JUMP_FROM": str(first), "JUMP_TO": str(first + int(10 ** draw.uniform(0, 4)))}
        environment["JUMP_BY"] = str(int(draw.uniform(-3e8, 3e8)))
    begun = project.begin(step.command, **environment)
    with suppress(subprocess.TimeoutExpired):
        begun.wait(moment if how in ("kill", "end", "scratch", "vanish", "twice", "memory") else None)
    other: Running | None = None
    gone: Path | None = None
    if begun.poll() is None:
        if how in ("kill", "scratch", "end"):
            os.killpg(begun.pid, signal.SIGTERM if how == "end" else signal.SIGKILL)
        elif how == "twice":
            other = project.begin(step.command)
        elif how == "memory":
            limit_memory(begun.pid, int(10 ** draw.uniform(5, 8.5)))
        elif how == "vanish":
            read = [path for dep in step.deps for path in files_below(project.folder / dep)]
            if read:
                gone = draw.choice(sorted(read))
                gone.unlink()
    ended = [(running.wait(), running.told()) for running in (begun, other) if running is not None]
    if gone is not None:
        bring(project.whole / gone.relative_to(project.folder), gone)
    where = gone
    if how == "scratch":
        left = sorted(path for found in project.folder.rglob("*.scratch") for path in files_below(found))
        where = draw.choice(left) if left else None
        if where:
            damage(where, draw)
    # what a person sees of a fault that they did not cause by a signal must be a sentence
    seen = [told for status, told in ended if status and how in ("full", "vanish", "twice", "clock", "memory")]
    if how == "memory":  # while modules are imported nobody is there yet who could say it
        seen = [told for told in seen if not re.search(r"in <module>\n +(from|import) ", told)]
    if how == "clock" and begun.returncode:
        seen = ["Traceback: the clock ended the command"]
    done = step.name == "export" and not project.differing(step)  # killed as it ended: what is there is not replaced
    status, told = project.run(step.command, check=False)
    if done:
        status = 0
    if how == "scratch" and status:
        seen.append(told)
        for path in project.folder.rglob("*.scratch"):  # the way out that the sentence names
            shutil.rmtree(path)
        status, told = project.run(step.command, check=False)
    traced = [sentence for sentence in seen if "Traceback" in sentence]
    return {
        "harmed": any(status for status, _ in ended) or bool(where),
        "ok": not status and not traced,
        "why": (traced[0] if traced else told).strip()[-300:] if status or traced else "",
        "differing": [] if status else project.differing(step),
        "file": str(where.relative_to(project.folder)) if where else "",
    }


def limit_memory(parent: int, more: int) -> None:
    """Let a process and those that it has started grow by this many bytes."""
    with suppress(psutil.NoSuchProcess):
        for process in (own := psutil.Process(parent), *own.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                limit = process.memory_info().vms + more
                process.rlimit(psutil.RLIMIT_AS, (limit, limit))


def files_below(path: Path) -> list[Path]:
    return [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]


def damage(path: Path, draw: random.Random, how: str = "flip") -> None:
    content = bytearray(path.read_bytes())
    if content:
        place = draw.randrange(len(content))
        block = slice(place - place % 4096, place - place % 4096 + 4096)
        if how == "flip":
            content[place] ^= 1 << draw.randrange(8)
        elif how == "cut":
            del content[place:]
        else:
            content[block] = bytes(len(content[block]))
    path.write_bytes(content)


def damaged(project: Project, draw: random.Random, how: str) -> dict[str, Any]:
    """Damage to one file; then a stage that reads it."""
    readers = [(step, dep) for step in project.steps.values() for dep in step.deps if not dep.endswith(VARY)]
    step, dep = draw.choice(readers)
    path = draw.choice(sorted(files_below(project.folder / dep)))
    damage(path, draw, how)
    project.without(step)
    status, told = project.run(step.command, check=False)
    traced = status != 0 and "Traceback" in told
    differing = [] if status else project.differing(step)
    return {
        "harmed": status != 0,
        "ok": not traced and not differing,
        "why": told.strip()[-300:] if traced else "",
        "differing": differing,
        "step": step.name,
        "file": str(path.relative_to(project.folder)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path, help="folder for the clones and the trials")
    parser.add_argument("--times", type=int, default=1, help="tenths; 10 is a night's")
    parser.add_argument("--jobs", type=int, default=1, help="trials at a time, each in a clone of its own")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="also write the table here")
    options = parser.parse_args()
    journal = options.work.resolve() / "tried.jsonl"
    tried = {tuple(row["trial"]): row for _, row in read_journal(journal)}
    planned = [(options.seed, how, n) for how, count in TENTH.items() for n in range(count * options.times)]
    waiting = iter([trial for trial in planned if trial not in tried])
    started, before, lock = time.monotonic(), len(tried), threading.Lock()

    def work(job: int) -> None:
        project = Project(options.work.resolve() / str(job))
        while True:
            with lock:
                trial = next(waiting, None)
            if trial is None:
                return
            how, draw = trial[1], random.Random(" ".join(map(str, trial)))
            project.reset()
            step = project.steps[draw.choice(sorted(project.steps))]
            row = damaged(project, draw, how) if how in DAMAGES else harmed(project, step, draw, how)
            row = {"trial": list(trial), "step": step.name, **row}
            kept.append(row, durable=True)
            with lock:
                tried[trial] = row
                ticker.advance(note="" if row["ok"] and not row["differing"] else f"{how} {trial[2]} FAILED")

    ticker = Ticker("trials", len(planned), done=before)
    with Journal(journal) as kept, ticker, ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(work, range(options.jobs)))
    rows = [tried[trial] for trial in planned]
    counts = {how: [row for row in rows if row["trial"][1] == how] for how in TENTH}
    found = [
        [how, str(len(own)), str(sum(row["harmed"] for row in own)), str(sum(row["ok"] for row in own)),
         str(sum(bool(row["differing"]) for row in own))]
        for how, own in counts.items()
    ]  # fmt: skip
    lines = [
        "# Faults",
        "",
        f"`python bench/faults.py WORK`, {date.today()}, seed {options.seed}. {hardware(torch.device('cpu'))}; "
        f"{len(rows) - before} trials in {(time.monotonic() - started) / 60:.0f} minutes of this call.",
        "",
        *table(["fault", "tried", "harmed the command", "survived", "other bytes"], found),
        "",
        *(f"- {row['trial']} {row['step']} {row.get('file', '')}: {row['why']} {row['differing'][:5]}"
          for row in rows if not row["ok"] or row["differing"]),
    ]  # fmt: skip
    print("\n".join(lines))
    if options.out:
        options.out.write_text("\n".join(lines) + "\n")
    sys.exit(any(not row["ok"] or row["differing"] for row in rows))


if __name__ == "__main__":
    main()
