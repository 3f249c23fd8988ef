"""Run a study: one DVC experiment for each different run, each in a checkout of its own.

A run is known by its key (:func:`pacer.studies.plan.identify`). What it gives is kept in ``results/runs/KEY/``, so a
study goes on where it stopped, studies share runs, and rows of one study that are made from the same are one run. DVC's
run cache gives back every stage that another run has made already: rows that differ after a phase share it.
"""

from __future__ import annotations

import os
import queue
import re
import shutil
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, partial
from graphlib import TopologicalSorter
from pathlib import Path

from pacer.core.errors import ConfigError, DataError
from pacer.core.io import atomic_directory, read_json, write_json
from pacer.studies.dvc import Dvc, Share, only_study
from pacer.studies.pipeline import DEFINITION, LOCK, Lock, Pipeline, code_hash, read_lock
from pacer.studies.plan import Run, identify, overridden, plan, read_files
from pacer.studies.study import Study
from pacer.studies.worktree import Snapshot, Worktree, checkouts

#: What is kept of a run, from the folder of its scores.
KEPT = ("scores.json", "signature.json", "cases.parquet")
RECORD = "run.json"
#: What is recorded of the corpus: whether scores can stand beside published ones hangs on it.
DESCRIBED = {"source", "format", "target", "cleaner", "unseen_comparisons", "limit", "contexts"}

Report = Callable[[str], None]


def results_folder(root: Path) -> Path:
    """Where runs and tables of studies are kept; none of it is in git."""
    return root / "studies" / "results"


def run_study(
    study: Study,
    root: Path,
    report: Report,
    *,
    rows: frozenset[str] = frozenset(),
    jobs: int = 1,
    devices: str | None = None,
) -> None:
    """Make every run of ``study`` that is not there yet, of the code and parameters as they are now.

    Args:
        rows: names of the rows to run; empty: all. jobs: runs that are made side by side.
        devices: GPUs that these share out, as :func:`shares` takes them.

    Raises:
        PacerError: another study is running, a stage failed, or the study does not fit the parameters.
    """
    unknown = sorted(rows - {row.name for row in study.rows})
    if unknown:
        raise ConfigError(
            f"study {study.name} has no row {unknown[0]!r}; its rows are {', '.join(row.name for row in study.rows)}"
        )
    root = root.resolve()
    state = results_folder(root)
    pipelines = {target: Pipeline.read(root, target) for target in (None, *(row.target for row in study.rows))}
    code = cache(partial(code_hash, root))
    with only_study(state):
        dvc, texts = Dvc(state), read_files(study, root)

        def planned() -> list[Run]:
            return plan(study, texts, pipelines, code, _locks(root, state))

        runs = planned()
        _write_index(study, runs, state)
        for row in study.rows:
            if row.needs and row.files is None and not any(study.rows[run.row] is row for run in runs):
                report(f"{study.name}: {row.name} is left out; it needs {', '.join(row.needs)}")
        missing, distinct = _missing(runs, rows, state)
        if not missing:
            report(f"{study.name}: nothing to do, all {distinct} runs exist")
            return
        report(f"{study.name}: {len(missing)} of {distinct} runs to make")
        runner = StudyRunner(
            root, state, study, texts, pipelines, dvc, shares(devices, min(jobs, len(missing))), report
        )
        made: set[str] = set()
        try:
            while missing:  # again where the data turned out to be other than a lock said
                runner.run_all(missing)
                made |= {run.place for run in missing}
                missing = [run for run in _missing(planned(), rows, state)[0] if run.place not in made]
        finally:
            _write_index(study, planned(), state)


def folders(study: Study, state: Path) -> Iterator[tuple[int, int, Path]]:
    """(row, seed, folder) of every finished run that the study last planned."""
    index = state / study.name / "runs.json"
    if not index.is_file():
        return
    planned = {(entry["group"], entry["row"], entry["seed"]): entry["key"] for entry in read_json(index)}
    for seed in study.seeds:
        for number, row in enumerate(study.rows):
            folder = state / "runs" / planned.get((row.group, row.name, seed), "none")
            if (folder / RECORD).is_file():
                yield number, seed, folder


@dataclass
class RunState:
    """A run in progress: its checkout, the outcome of each stage, and the seconds they took."""

    run: Run
    tree: Worktree
    lock: threading.Lock = field(default_factory=threading.Lock)
    prepared: bool = False
    stages: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0


class StudyRunner:
    """Runs the rows of a study, each in its own checkout, as many at a time as there are shares of the machine."""

    def __init__(
        self,
        root: Path,
        state: Path,
        study: Study,
        texts: dict[str, str],
        pipelines: dict[str | None, Pipeline],
        dvc: Dvc,
        shares: list[Share],
        report: Report,
    ):
        self._root, self._state, self._study, self._texts = root, state, study, texts
        self._pipelines, self._dvc, self._jobs, self._report = pipelines, dvc, len(shares), report
        self._cache = dvc.cache(root)
        paths = {path for one in pipelines.values() for path in (*one.code, *one.files, *one.locks, DEFINITION)}
        self._snapshot = Snapshot.take(root, state, sorted(paths))
        self._hashes = {path: code_hash(root, path) for one in pipelines.values() for path in one.code}
        self._shares: queue.Queue[Share] = queue.Queue()
        for share in shares:
            self._shares.put(share)
        self._naming = threading.Lock()

    def run_all(self, runs: list[Run]) -> None:
        """Run all of these; a stage that several of them share runs once, for the first of them.

        The first failure is raised, after what was running beside it has ended.
        """
        states = [RunState(run, Worktree(self._root, self._state, run.place)) for run in runs]
        phases = shared_stages(runs) if self._jobs > 1 else {}
        steps = {frozenset({number}): [] for number in range(len(runs))} | phases
        order = TopologicalSorter({who: [other for other in steps if other > who] for who in steps})
        order.prepare()
        ready: list[frozenset[int]] = []
        with ThreadPoolExecutor(self._jobs) as pool:
            try:
                running: dict[Future[None], frozenset[int]] = {}
                while order.is_active():
                    ready = sorted([*ready, *order.get_ready()], key=lambda who: (min(who), -len(who)))
                    while ready and len(running) < self._jobs:
                        who = ready.pop(0)
                        if len(who) == 1:
                            number = min(who)
                            self._report(f"[{number + 1}/{len(runs)}] {runs[number].name}, seed {runs[number].seed}")
                        running[pool.submit(self._step, states[min(who)], steps[who])] = who
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        future.result()
                        order.done(running.pop(future))
            except (KeyboardInterrupt, SystemExit):
                self._dvc.stop()
                raise

    def _step(self, current: RunState, stages: list[str]) -> None:
        """Make stages of a run that others wait for; with none, all that is left, its experiment and its record."""
        share = self._shares.get()
        try:
            with current.lock:
                self._carry_on(current, stages, share)
        finally:
            self._shares.put(share)

    def _carry_on(self, current: RunState, stages: list[str], share: Share) -> None:
        run, tree, started = current.run, current.tree, time.monotonic()
        pipeline = self._pipelines[run.target]
        log = self._state / "logs" / f"{run.place}.txt"
        call = partial(self._dvc, folder=tree.root, log=log, share=share)
        # another run may have prepared the same data by now
        data = identify(pipeline, run.values, self._hashes.__getitem__, _locks(self._root, self._state)).data
        if not current.prepared:
            files = {name: overridden(text, run.overrides.get(name, {}), name) for name, text in self._texts.items()}
            tree.prepare(self._snapshot, self._cache, files)
            tree.refuse_other_code({path: self._hashes[path] for path in pipeline.code})
        if tree.adopt(data) or not current.prepared:
            call("checkout", "--force", "--allow-missing")  # outs that a killed stage left half-made are let go
            tree.link(run.values.values(), pipeline.makers)
            current.prepared = True
        beside = f"{run.name}, seed {run.seed}, " * (self._jobs > 1)

        def stage(name: str, outcome: str) -> None:
            if outcome != "unchanged":
                self._report(f"  {beside}{name}: {'runs' if outcome == 'ran' else 'made before'}")

        current.stages = call("repro", *(stages or [pipeline.target]), report=stage) | current.stages
        current.seconds += time.monotonic() - started
        if not stages:
            experiment = self._keep(current, pipeline, call)
            tree.remove()
            self._report(f"  {beside}done in {current.seconds:.0f} s: experiment {experiment}")

    def _keep(self, current: RunState, pipeline: Pipeline, call: Callable[..., dict[str, str]]) -> str:
        """Name the experiment and keep the scores, under the key of what they were really made from."""
        run, tree = current.run, current.tree.root
        key = identify(pipeline, run.values, self._hashes.__getitem__, [read_lock(tree / LOCK)]).key
        experiment = f"{_slug(self._study.name)}-{_slug(run.name)}-{run.seed}-{key[:6]}"
        with self._naming:  # DVC names experiments by references that all checkouts share
            call("exp", "save", "--force", "--name", experiment, pipeline.target)
        written = {*pipeline.files, *pipeline.locks, *pipeline.makers}
        record = {
            "study": self._study.name,
            "row": run.name,
            "seed": run.seed,
            "experiment": experiment,
            "revision": self._snapshot.commit,
            "edited": any(not written & {name, *map(str, Path(name).parents)} for name in self._snapshot.changed),
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": round(current.seconds, 1),
            "stages": current.stages,
            "target": run.target,
            "overrides": run.overrides,
            "split": run.params.decode.split,
            "limit": run.params.decode.limit,
            "corpus": run.params.corpus.model_dump(mode="json", include=DESCRIBED),
        }
        with atomic_directory(self._state / "runs" / key) as folder:
            scores = {name: f"{pipeline.scores}/{name}" for name in KEPT}
            for name, path in (scores | {path: path for path in (*pipeline.locks, *pipeline.files)}).items():
                if not (tree / path).is_file():
                    raise DataError(f"the stage {pipeline.target} left no {path}")
                (folder / name).parent.mkdir(exist_ok=True)
                shutil.copyfile(tree / path, folder / name)
            write_json(folder / RECORD, record)
        return experiment


def shared_stages(runs: list[Run]) -> dict[frozenset[int], list[str]]:
    """Places of the runs that share stages, several at least -> the names of these."""
    places: dict[str, set[int]] = defaultdict(set)
    for place, run in enumerate(runs):
        for chain in run.identity.chain.values():
            places[chain].add(place)
    shared: dict[frozenset[int], list[str]] = defaultdict(list)
    for who in sorted({frozenset(found) for found in places.values() if len(found) > 1}, key=len):
        chain = runs[min(who)].identity.chain
        shared[who] = [name for name, own in chain.items() if places[own] == who]
    return shared


def shares(devices: str | None, jobs: int) -> list[Share]:
    """Of the machine, for each of ``jobs``: where there are fewer GPUs or cores than jobs, some share one.

    Args:
        devices: names of GPUs, comma-separated; None: those of this machine.
    """
    if jobs == 1:
        return [Share()]
    names = devices.split(",") if devices else []
    if devices is None:
        with suppress(OSError, subprocess.CalledProcessError):
            command = ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"]
            names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return [
        Share(",".join(_part(names, job, jobs)) or None, tuple(_part(cores, job, jobs)) or None) for job in range(jobs)
    ]


def _part(things: list, job: int, jobs: int) -> list:
    return things[job % len(things) :: jobs] if things else []


def _missing(runs: list[Run], rows: frozenset[str], state: Path) -> tuple[list[Run], int]:
    """The runs of these rows that are not there yet, the first of equal ones; and how many different ones there are."""
    wanted = {run.key: run for run in reversed(runs) if not rows or run.name in rows}
    missing = [run for run in runs if run is wanted.get(run.key) and not (state / "runs" / run.key / RECORD).is_file()]
    return missing, len(wanted)


def _locks(root: Path, state: Path) -> list[Lock]:
    """What is known of stages: by the user's own lock, by rows under way, by finished runs, the newest first."""
    under_way = [path for one in checkouts(root, state) if (path := one / LOCK).is_file()]
    found = sorted([*under_way, *state.glob(f"runs/*/{LOCK}")], key=lambda path: -path.stat().st_mtime)
    return [read_lock(path) for path in (root / LOCK, *found)]


def _write_index(study: Study, runs: list[Run], state: Path) -> None:
    rows = study.rows
    write_json(
        state / study.name / "runs.json",
        [{"group": rows[run.row].group, "row": run.name, "seed": run.seed, "key": run.key} for run in runs],
    )


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
