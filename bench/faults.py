"""A campaign of faults over the micro profile: kills, full disks, flipped bits, requests to end.

    python bench/faults.py WORK                                  a developer's tenth: 100 kills, 50 flips, 20 full disks
    python bench/faults.py WORK --kills 1000 --flips 500 --full 200 --out bench/results/faults.md

WORK gets a clone of the repository with the pipeline run once; what came of each trial stands in WORK/tried.jsonl, and
the same command goes on after a stop. A trial is drawn from the seed and its number alone. After each fault the command
is called again, and everything that it leaves must be what the unharmed run left, byte for byte (speeds and memory, and
the page that shows them, apart):

    kill    SIGKILL to the whole process group at a random moment of a stage, of `dvc repro`, or of a command
    end     SIGTERM likewise
    full    the file system has no room from a random byte on (a library between the program and the system refuses)
    flip    one bit of one file that a stage left; the stages that read it must name it, or leave the same bytes
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import torch
from measuring import hardware, table
from ruamel.yaml import YAML

from pacer.core.io import hash_file
from pacer.core.journal import Journal, read_journal
from pacer.core.progress import Ticker

ROOT = Path(__file__).resolve().parents[1]
#: Outs that hold speeds, memory or what shows them.
VARY = ("reports", "plots", "metrics.json")
KINDS = ("outs", "metrics", "plots")
#: Refuses writes once a number of bytes is written, as a full disk does.
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


class Step(NamedTuple):
    """A command, what it leaves, and what it reads of what others leave."""

    command: str
    outs: list[str]
    deps: list[str]


class Project:
    """A clone with the pipeline run once, and a copy of all that it left."""

    def __init__(self, work: Path):
        self.folder, self.whole = work / "project", work / "whole"
        self.shim = work / "full.so"
        self.environment = {**os.environ, "PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"}
        if not self.whole.exists():
            shutil.rmtree(self.folder, ignore_errors=True)
            work.mkdir(parents=True, exist_ok=True)
            (work / "full.c").write_text(SHIM)
            subprocess.run(["cc", "-shared", "-fPIC", "-o", str(self.shim), str(work / "full.c"), "-ldl"], check=True)
            subprocess.run(["git", "clone", "--quiet", str(ROOT), str(self.folder)], check=True)
            shutil.copy(self.folder / "configs" / "micro.yaml", self.folder / "params.yaml")
            self.run("dvc config --local core.analytics false")
            self.run("dvc config --local cache.type copy")
            self.run("dvc repro")
            for step in self.commands().values():
                self.run(step.command)
            shutil.copytree(self.folder, self.whole, ignore=shutil.ignore_patterns(".git"))
        self.steps = self.stages() | self.commands()

    def stages(self) -> dict[str, Step]:
        found = YAML(typ="safe").load(self.folder / "dvc.yaml")["stages"]
        own = {
            name: [out if isinstance(out, str) else next(iter(out)) for kind in KINDS for out in stage.get(kind, [])]
            for name, stage in found.items()
        }
        made = [out for outs in own.values() for out in outs]
        return {
            name: Step(s["cmd"], own[name], [out for out in made if any(inside(out, dep) for dep in s["deps"])])
            for name, s in found.items()
            if name != "report"
        }

    @staticmethod
    def commands() -> dict[str, Step]:
        return {
            "dvc repro": Step("dvc repro score", ["predictions", "metrics/scores.json", "models/calibrate"], []),
            "export": Step(
                f"{PACER} export exported", ["exported"], ["models/calibrate", "models/parent", "data/features"]
            ),
            "score": Step(
                f"{PACER} score --records data/corpus/records.parquet --predictions predictions --out scored",
                ["scored"],
                ["predictions"],
            ),
        }

    def run(self, command: str, check: bool = True, **more: Any) -> subprocess.CompletedProcess:
        done = subprocess.run(
            command.split(), cwd=self.folder, env=self.environment, capture_output=True, text=True, **more
        )
        if check and done.returncode:
            sys.exit(f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
        return done

    def reset(self) -> None:
        """All as the whole run left it."""
        for step in self.steps.values():
            for out in step.outs:
                bring(self.whole / out, self.folder / out)
        for left in self.folder.rglob("*.scratch"):
            shutil.rmtree(left)

    def without(self, step: Step) -> None:
        """Before the command: nothing that it makes is there."""
        for out in step.outs:
            remove(self.folder / out)

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


def contents(path: Path) -> dict[str, str]:
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return {str(file.relative_to(path)): hash_file(file) for file in files}


def interrupted(project: Project, step: Step, draw: random.Random, how: str) -> dict[str, Any]:
    """Begin a command, harm it, call it again, compare."""
    project.without(step)
    environment, seconds = project.environment, project.seconds[step.command]
    if how == "full":
        room = int(10 ** draw.uniform(1, 6.5))
        environment = environment | {"LD_PRELOAD": str(project.shim), "FULL_AFTER": str(room)}
    begun = subprocess.Popen(
        step.command.split(), cwd=project.folder, env=environment, start_new_session=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    told = ""
    if how == "full":
        told = begun.communicate()[1]
    else:
        try:
            begun.communicate(timeout=draw.uniform(0, seconds))
        except subprocess.TimeoutExpired:
            os.killpg(begun.pid, signal.SIGKILL if how == "kill" else signal.SIGTERM)
            told = begun.communicate()[1]
    ended = begun.returncode
    again = project.run(step.command, check=False)
    harmed = bool(ended) if how == "full" else ended not in (0, None)
    traced = how == "full" and harmed and "Traceback" in told
    return {
        "harmed": harmed,
        "ok": again.returncode == 0 and not traced,
        "why": ("a traceback" if traced else again.stderr.strip()[-300:]) if again.returncode or traced else "",
        "differing": [] if again.returncode else project.differing(step),
    }


def flipped(project: Project, draw: random.Random) -> dict[str, Any]:
    """One bit of one file; then the stages that read it."""
    readers = [(name, step, dep) for name, step in project.steps.items() for dep in step.deps if not dep.endswith(VARY)]
    name, step, dep = draw.choice(readers)
    files = sorted(path for path in [project.folder / dep, *(project.folder / dep).rglob("*")] if path.is_file())
    path = draw.choice(files)
    content = bytearray(path.read_bytes())
    if content:
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    path.write_bytes(content)
    project.without(step)
    done = project.run(step.command, check=False)
    found = done.returncode != 0
    named = found and "Traceback" not in done.stderr
    differing = [] if found else project.differing(step)
    return {
        "harmed": found,
        "ok": named or (not found and not differing),
        "why": "" if named or not found else done.stderr.strip()[-300:],
        "differing": differing,
        "file": f"{path.relative_to(project.folder)} read by {name}",
    }


def trials(kills: int, ends: int, full: int, flips: int) -> Iterator[tuple[str, int]]:
    for how, count in (("kill", kills), ("end", ends), ("full", full), ("flip", flips)):
        yield from ((how, number) for number in range(count))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path, help="folder for the clone and the trials")
    for name, count in (("kills", 100), ("ends", 20), ("full", 20), ("flips", 50)):
        parser.add_argument(f"--{name}", type=int, default=count)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="also write the table here")
    options = parser.parse_args()
    project, journal = Project(options.work.resolve()), options.work / "tried.jsonl"
    project.reset()
    durations = options.work / "seconds.json"
    if not durations.exists():
        seconds = {}
        for step in project.steps.values():
            project.without(step)
            started = time.monotonic()
            project.run(step.command)
            seconds[step.command] = time.monotonic() - started
        durations.write_text(json.dumps(seconds))
    project.seconds = json.loads(durations.read_text())
    tried = {tuple(row["trial"]): row for _, row in read_journal(journal)}
    planned = list(trials(options.kills, options.ends, options.full, options.flips))
    started, before = time.monotonic(), len(tried)
    with Journal(journal) as kept, Ticker("trials", len(planned), done=len(tried)) as ticker:
        for how, number in planned:
            if (options.seed, how, number) in tried:
                continue
            draw = random.Random(f"{options.seed} {how} {number}")
            project.reset()
            name = draw.choice(sorted(project.steps))
            row = flipped(project, draw) if how == "flip" else interrupted(project, project.steps[name], draw, how)
            row = {"trial": [options.seed, how, number], "step": name, **row}
            kept.append(row, durable=True)
            tried[options.seed, how, number] = row
            ticker.advance(note="" if row["ok"] and not row["differing"] else f"{how} {number} FAILED")
    rows = [row for key, row in tried.items() if key[1:] in planned]
    counts = {how: [row for row in rows if row["trial"][1] == how] for how in ("kill", "end", "full", "flip")}
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
