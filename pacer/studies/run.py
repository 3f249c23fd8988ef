"""Makes the missing runs of a study, each in a git worktree, and records each as a DVC experiment.

A run is done if git has an experiment whose name ends in its hash. So a study resumes where it stopped, and studies and
rows with the same inputs share a run. DVC's run cache restores every stage that another run has made, so rows that
differ only after some phase share the stages up to it.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from itertools import chain, count, groupby
from pathlib import Path
from typing import Any

from pacer.core.errors import ConfigError
from pacer.core.io import atomic_directory, read_json, write_json
from pacer.studies.dvc import Dvc, Share, only_study, shares
from pacer.studies.plan import PARAMS, Run, hash_of, plan
from pacer.studies.study import Study
from pacer.studies.worktree import Repository, Worktree

#: Files kept next to an experiment for tests between rows; git has only its scores.
SIGNATURE = "signature.json"
KEPT = ("cases.parquet", SIGNATURE)
#: File with the latest planned runs of a study.
INDEX = "runs.json"

Report = Callable[[str], None]


def results_folder(root: Path) -> Path:
    """Return the folder of tables, worktrees and files kept from runs; none of it is in git."""
    return root.resolve() / "studies" / "results"


def run_study(
    study: Study,
    root: Path,
    report: Report,
    *,
    rows: frozenset[str] = frozenset(),
    jobs: int = 1,
    devices: str | None = None,
) -> None:
    """Make every missing run of ``study`` with the current code and parameters.

    Args:
        rows: names of the rows to run; empty: all. jobs: number of runs made in parallel.
        devices: GPUs to share among them, as in :func:`pacer.studies.dvc.shares`.

    Raises:
        PacerError: another study is running, a stage failed, or the study does not fit the parameters.
        KeyboardInterrupt: it was stopped; all processes that it started have ended.
    """
    if unknown := sorted(rows - {row.name for row in study.rows}):
        names = ", ".join(row.name for row in study.rows)
        raise ConfigError(f"study {study.name} has no row {unknown[0]!r}; its rows are {names}")
    state = results_folder(root)
    with only_study(state):
        dvc, repository = Dvc(state), Repository(root)
        runs = plan(study, repository.read, repository.hashes)
        write_json(state / study.name / INDEX, [_record(study, run) for run in runs])
        for place, row in enumerate(study.rows):
            if row.needs and all(run.row != place for run in runs):
                report(f"{study.name}: {row.name} is left out; it needs {', '.join(row.needs)}")
        wanted = {run.key: run for run in reversed(runs) if not rows or study.rows[run.row].name in rows}
        done = set(map(hash_of, repository.experiments()))
        missing = [run for run in runs if run is wanted.get(run.key) and run.key not in done]
        if not missing:
            report(f"{study.name}: nothing to do, all {len(wanted)} runs exist")
            return
        report(f"{study.name}: {len(missing)} of {len(wanted)} runs to make")
        StudyRunner(study, repository, state, dvc, missing, report).run_all(shares(devices, min(jobs, len(missing))))


def _record(study: Study, run: Run) -> dict[str, Any]:
    """Return what a table needs about a run, for example to decide whether published scores are comparable."""
    row, overrides = study.rows[run.row], study.overrides(run.row, run.replicate)
    corpus, decode = run.values[PARAMS]["corpus"], run.values[PARAMS]["decode"]
    place = {"group": row.group, "row": row.name, "replicate": run.replicate, "experiment": run.name}
    described = {"corpus": corpus, "split": decode["split"], "limit": decode["limit"]}
    return place | {"target": row.target, "overrides": overrides, "scores": run.stages[-1].scores} | described


def finished(study: Study, repository: Repository, state: Path) -> Iterator[tuple[int, str, str, Any]]:
    """Yield row, replicate, reference and record of every finished run in the study's latest plan."""
    index = state / study.name / INDEX
    references = {hash_of(name): reference for name, reference in repository.experiments().items()}
    records = read_json(index) if index.is_file() else []
    planned = {(record["group"], record["row"], record["replicate"]): record for record in records}
    for label in study.labels:
        for place, row in enumerate(study.rows):
            record = planned.get((row.group, row.name, label))
            if record is not None and (reference := references.get(hash_of(record["experiment"]))) is not None:
                yield place, label, reference, record


def stopped(state: Path) -> list[tuple[str, str, str]]:
    """Return slot, study and experiment of every row that is being made or was interrupted."""
    entries = ((path.parent.name, read_json(path)) for path in sorted(state.glob("slots/*/row.json")))
    return [(slot, entry["study"], entry["experiment"]) for slot, entry in entries]


class StudyRunner:
    """Makes the ``missing`` runs, one at a time per share of the machine. If several of them share stages, one makes
    the stages and the others wait for it."""

    def __init__(self, study: Study, repository: Repository, state: Path, dvc: Dvc, missing: list[Run], report: Report):
        self._study, self._repository, self._state, self._dvc = study, repository, state, dvc
        self._waiting, self._count, self._report = list(missing), len(missing), report
        self._cache, self._taking, self._busy = dvc.cache(repository.root), threading.Lock(), dict[str, Run]()
        self._sharers: dict[str, list[str]] = defaultdict(list)
        for run in missing:
            for key in run.keys.values():
                self._sharers[key].append(run.name)
        self._making = {tuple(names): threading.Lock() for names in self._sharers.values()}

    def run_all(self, machine: list[Share]) -> None:
        """Make all runs. The first failure is raised after the runs in progress have ended."""
        with ThreadPoolExecutor(len(machine)) as pool:
            workers = [pool.submit(self._work, share) for share in machine]
            try:
                while wait(workers, timeout=0.2).not_done:  # with polars, a wait without a timeout is uninterruptible
                    pass
            except KeyboardInterrupt:
                self._drop_waiting()
                while wait(workers, timeout=0.05).not_done:
                    self._dvc.stop()
                raise
        for worker in workers:
            worker.result()

    def _work(self, share: Share) -> None:
        """Make one run after another, until none is left or one fails."""
        while (following := self._take()) is not None:
            number, run, slot = following
            label = f"[{number}/{self._count}] {self._study.rows[run.row].name}, {run.replicate}"
            try:
                self._make(run, slot, share, label)
            except BaseException:
                self._drop_waiting()
                raise
            finally:
                with self._taking:
                    del self._busy[slot]

    def _drop_waiting(self) -> None:
        with self._taking:
            self._waiting.clear()

    def _take(self) -> tuple[int, Run, str] | None:
        """Return a run with its number, and a slot: the one in which it was interrupted, else an unused one.

        It is the first run of those that share the fewest stages with runs in progress, so that few wait for others.
        """
        with self._taking:
            if not self._waiting:
                return None
            making = {key for run in self._busy.values() for key in run.keys.values()}
            run = min(self._waiting, key=lambda run: len(making.intersection(run.keys.values())))
            self._waiting.remove(run)
            # compare without hashes: half-trained state is also usable after code edits
            slots = {slot: name.rpartition("-")[0] for slot, _, name in stopped(self._state)}
            resumed = [slot for slot, name in slots.items() if name == run.name.rpartition("-")[0]]
            new = (slot for slot in map(str, count()) if slot not in slots)
            slot = next(slot for slot in chain(resumed, new) if slot not in self._busy)
            self._busy[slot] = run
            return self._count - len(self._waiting), run, slot

    def _make(self, run: Run, slot: str, share: Share, label: str) -> None:
        """Make a run, keep the files that tests need, and record its experiment."""
        started, folder = time.monotonic(), self._state / "slots" / slot
        tree = Worktree(self._repository, folder, self._cache, self._state / "stages")

        def report(stage: str, restored: bool) -> None:
            self._report(f"{label}: {stage} {'was made before' if restored else 'runs'}")

        log = self._state / "logs" / f"{run.name}.txt"
        dvc = partial(self._dvc, folder=tree.tree, log=log, share=share, report=report)

        def check_out() -> None:
            with tree.keep_appended(run):
                dvc("checkout", "--force", "--allow-missing")

        tree.prepare(self._study.name, run)
        check_out()  # discards what an interrupted stage left half-made
        for sharers, group in groupby(run.keys, lambda stage: tuple(self._sharers[run.keys[stage]])):
            stages = list(group)
            with self._making[sharers]:
                if tree.adopt(run):
                    check_out()
                if len(sharers) == 1 or not tree.knows(run, stages):  # the last stages check all earlier ones
                    dvc("repro", *stages)
                    tree.record(run, stages)
        with atomic_directory(self._state / "runs" / run.name) as beside:
            for name in KEPT:
                shutil.copyfile(tree.tree / run.stages[-1].scores / name, beside / name)
        tree.save(run)
        tree.marker.unlink()
        self._report(f"{label}: done in {time.monotonic() - started:.0f} s, experiment {run.name}")
