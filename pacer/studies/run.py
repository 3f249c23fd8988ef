"""Makes the missing runs of a study, each in a git worktree, and records each as a DVC experiment.

A run is done if git has an experiment whose name ends in its hash. So a study resumes where it
stopped, and studies and rows with the same inputs share a run. DVC's run cache restores every stage
that another run has made, so rows that differ only after some phase share the stages up to it.

Any number of processes may make runs at the same time, also on several machines with one file
system. A lock on its slot, on itself and on each stage that it makes keep a run from the others.
"""

import shlex
import shutil
import threading
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Any

from pacer.core.errors import ConfigError
from pacer.core.io import (
    Busy,
    atomic_directory,
    awaited,
    locked,
    parse_yaml,
    read_json,
    write_json,
    write_text,
)
from pacer.studies.plan import PARAMS, Run, hash_of, plan
from pacer.studies.study import Study
from pacer.studies.worktree import (
    LOCK,
    Dvc,
    MachineShare,
    Repository,
    Worktree,
    end_processes,
    results_folder,
    shares,
)

#: Files kept next to an experiment for tests between rows; git has only its scores.
SIGNATURE, CASES = "signature.json", "cases.parquet"
KEPT = (CASES, SIGNATURE)
#: File with the latest planned runs of a study.
INDEX = "runs.json"
#: Folder with what `dvc.lock` says of each stage that was made.
STAGES = "stages"

Report = Callable[[str], None]


def run_study(
    study: Study,
    root: Path,
    report: Report,
    *,
    rows: frozenset[str] = frozenset(),
    replicates: frozenset[str] = frozenset(),
    jobs: int = 1,
    devices: str | None = None,
) -> None:
    """Make every missing run of ``study`` with the current code and parameters: of these rows and
    replicates (empty: all), ``jobs`` at a time on ``devices``, as in
    :func:`~pacer.studies.worktree.shares`. Raises a PacerError if a stage failed, or the study does
    not fit the parameters; a KeyboardInterrupt after the end of all its processes if it was
    stopped."""
    for kind, given, names in (
        ("row", rows, [r.name for r in study.rows]),
        ("replicate", replicates, study.labels),
    ):
        if unknown := sorted(given - {*names}):
            raise ConfigError(
                f"study {study.name} has no {kind} {unknown[0]!r}; its {kind}s are "
                f"{', '.join(names)}"
            )
    state, dvc, repository = results_folder(root), Dvc(), Repository(root)
    for slot, _, _ in stopped(state):
        with suppress(Busy), _locked_slot(state, slot):
            pass
    runs = _planned(study, repository, report)
    write_json(state / study.name / INDEX, [_record(study, run) for run in runs])
    chosen = [
        run
        for run in runs
        if (not rows or study.rows[run.row].name in rows)
        and (not replicates or run.replicate in replicates)
    ]
    missing = _missing(chosen, repository)
    if not missing:
        report(f"{study.name}: nothing to do: all {len({run.key for run in chosen})} runs exist")
        return
    report(f"{study.name}: {len(missing)} of {len({run.key for run in chosen})} runs are missing")
    StudyRunner(study, repository, state, dvc, missing, report).run_all(
        shares(devices, min(jobs, len(missing)))
    )


def _missing(runs: list[Run], repository: Repository) -> list[Run]:
    """Return the first of the runs with each hash that has no experiment."""
    done = set(map(hash_of, repository.experiments()))
    first = {run.key: run for run in reversed(runs)}
    return [run for run in runs if run is first[run.key] and run.key not in done]


def _planned(study: Study, repository: Repository, report: Report) -> list[Run]:
    """Return the runs of a study, and report the rows that have none because what they need is not
    set."""
    runs = plan(study, repository.read, repository.hashes)
    for place, row in enumerate(study.rows):
        if row.needs and all(run.row != place for run in runs):
            report(f"{study.name}: {row.name} is left out; it needs {', '.join(row.needs)}")
    return runs


def commands(study: Study, root: Path, report: Report) -> list[str]:
    """Return a command for each missing run, and in a comment the lines that make stages which it
    needs."""
    state, repository, lines = results_folder(root), Repository(root), []
    makers: dict[str, int] = {}
    for line, run in enumerate(_missing(_planned(study, repository, report), repository), start=1):
        words = ["pacer", "study", "run", study.name, "--row", study.rows[run.row].name]
        words += ["--replicate", run.replicate] * (len(study.labels) > 1)
        unmade = [
            key for key in run.keys.values() if not (state / STAGES / f"{key}.json").is_file()
        ]
        after = sorted({makers.setdefault(key, line) for key in unmade} - {line})
        lines.append(
            shlex.join(words) + (f"  # after {', '.join(map(str, after))}" if after else "")
        )
    return lines


@contextmanager
def _locked_slot(state: Path, slot: str) -> Generator[Path]:
    """Hold the folder of a slot and end what a killed study left in it. Raises a Busy if a run is
    being made there."""
    folder = state / "slots" / slot
    with locked(folder.with_suffix(".lock"), f"slot {slot} is in use"):
        end_processes(folder)
        yield folder


def _record(study: Study, run: Run) -> dict[str, Any]:
    """Return what a table needs about a run, for example to decide whether published scores are
    comparable."""
    row, overrides = study.rows[run.row], study.overrides(run.row, run.replicate)
    corpus, decode = run.values[PARAMS]["corpus"], run.values[PARAMS]["decode"]
    place = {
        "group": row.group,
        "row": row.name,
        "replicate": run.replicate,
        "experiment": run.name,
    }
    described = {"corpus": corpus, "split": decode["split"], "limit": decode["limit"]}
    return (
        place
        | {"target": row.target, "overrides": overrides, "scores": run.stages[-1].scores}
        | described
    )


def finished(
    study: Study, repository: Repository, state: Path
) -> Iterator[tuple[int, str, str, Any]]:
    """Yield row, replicate, reference and record of every finished run in the study's latest plan.

    If the results folder was deleted, or this is another clone, the study is planned anew, with the
    code and parameters of now.
    """
    index = state / study.name / INDEX
    references = {hash_of(name): reference for name, reference in repository.experiments().items()}
    if index.is_file():
        records = read_json(index)
    elif references:
        runs = plan(study, repository.read, repository.hashes)
        records = [_record(study, run) for run in runs]
    else:
        records = []
    planned = {(record["group"], record["row"], record["replicate"]): record for record in records}
    for label in study.labels:
        for place, row in enumerate(study.rows):
            record = planned.get((row.group, row.name, label))
            if (
                record is not None
                and (reference := references.get(hash_of(record["experiment"]))) is not None
            ):
                yield place, label, reference, record


def kept_files(repository: Repository, state: Path, reference: str, scores: str) -> Path:
    """Return the folder with the signature and cases of a finished run, whose folder of scores is
    ``scores``. If they were deleted, they are brought back from git and DVC's cache; if the cache
    lacks the cases, so does the folder."""
    folder = state / "runs" / reference.rpartition("/")[2]
    if all((folder / name).is_file() for name in KEPT):
        return folder
    stages = parse_yaml(repository.read(LOCK, reference))["stages"].values()
    hashes = {out["path"]: out.get("md5") for stage in stages for out in stage.get("outs", ())}
    md5 = hashes.get(f"{scores}/{CASES}") or ""
    cached = Path(Dvc().cache(repository.root), "files", "md5", md5[:2], md5[2:])
    with atomic_directory(folder) as restored:
        signature = repository.read(f"{scores}/{SIGNATURE}", reference)
        write_text(restored / SIGNATURE, signature)
        if cached.is_file():
            shutil.copyfile(cached, restored / CASES)
    return folder


def stopped(state: Path) -> list[tuple[str, str, str]]:
    """Return slot, study and experiment of every row that is being made or was interrupted."""
    entries = (
        (path.parent.name, read_json(path)) for path in sorted(state.glob("slots/*/row.json"))
    )
    return [(slot, entry["study"], entry["experiment"]) for slot, entry in entries]


class StudyRunner:
    """Makes the ``missing`` runs, one at a time per share of the machine. If several share a stage,
    also with runs of other processes, one makes the stage and the others wait for it."""

    def __init__(
        self,
        study: Study,
        repository: Repository,
        state: Path,
        dvc: Dvc,
        missing: list[Run],
        report: Report,
    ):
        self._study, self._repository, self._state, self._dvc = study, repository, state, dvc
        self._waiting, self._count, self._report = list(missing), len(missing), report
        self._cache, self._taking, self._busy = (
            dvc.cache(repository.root),
            threading.Lock(),
            list[Run](),
        )

    def run_all(self, machine: list[MachineShare]) -> None:
        """Make all runs. The first failure is raised after the runs in progress have ended."""
        with ThreadPoolExecutor(len(machine)) as pool:
            workers = [pool.submit(self._work, share) for share in machine]
            try:
                while wait(
                    workers, timeout=0.2
                ).not_done:  # with polars, a wait without a timeout is uninterruptible
                    pass
            except KeyboardInterrupt:
                self._drop_waiting()
                while wait(workers, timeout=0.05).not_done:
                    self._dvc.stop()
                raise
        for worker in workers:
            worker.result()

    def _work(self, share: MachineShare) -> None:
        """Make one run after another, until none is left or one fails."""
        while (following := self._take()) is not None:
            number, run = following
            label = f"[{number}/{self._count}] {self._study.rows[run.row].name}, {run.replicate}"
            try:
                with self._only_one(run.key, label):
                    if run.key in map(hash_of, self._repository.experiments()):
                        self._report(f"{label}: already completed by another process")
                    else:
                        with self._slot(run) as folder:
                            self._make(run, folder, share, label)
            except BaseException:
                self._drop_waiting()
                raise
            finally:
                with self._taking:
                    self._busy.remove(run)

    def _drop_waiting(self) -> None:
        with self._taking:
            self._waiting.clear()

    def _take(self) -> tuple[int, Run] | None:
        """Return a run with its number: the first that shares fewest stages with runs in progress,
        so that few wait."""
        with self._taking:
            if not self._waiting:
                return None
            making = {key for run in self._busy for key in run.keys.values()}
            run = min(self._waiting, key=lambda run: len(making.intersection(run.keys.values())))
            self._waiting.remove(run)
            self._busy.append(run)
            return self._count - len(self._waiting), run

    @contextmanager
    def _slot(self, run: Run) -> Generator[Path]:
        """Hold the folder of the slot in which a run was interrupted, else of an unused one."""
        # compare without hashes: half-trained state is also usable after code edits
        slots = {slot: name.rpartition("-")[0] for slot, _, name in stopped(self._state)}
        resumed = [slot for slot, name in slots.items() if name == run.name.rpartition("-")[0]]
        new = (slot for slot in map(str, count()) if slot not in slots)
        with ExitStack() as held:
            for slot in chain(resumed, new):
                with suppress(Busy):
                    folder = held.enter_context(_locked_slot(self._state, slot))
                    break
            yield folder

    def _only_one(self, key: str, label: str) -> AbstractContextManager[None]:
        """Hold the run or the stage with a key, as soon as no other process and no other job
        does."""

        def waiting(tries: int) -> None:
            self._dvc.check_stopped()
            if not tries:
                self._report(f"{label}: waiting for another run to finish it")

        return awaited(self._state / STAGES / f"{key}.lock", waiting)

    def _make(self, run: Run, folder: Path, share: MachineShare, label: str) -> None:
        """Make a run, keep the files that tests need, and record its experiment."""
        started = time.monotonic()
        tree = Worktree(self._repository, folder, self._cache, self._state / STAGES)

        def report(stage: str, restored: bool) -> None:
            self._report(f"{label}: {stage} {'restored' if restored else 'running'}")

        log = self._state / "logs" / f"{run.name}.txt"
        dvc = partial(self._dvc, folder=tree.tree, log=log, share=share, report=report)

        def check_out() -> None:
            dvc("checkout", "--force", "--allow-missing", *tree.outs_to_restore(run))

        tree.prepare(self._study.name, run)
        check_out()  # discards what an interrupted stage left half-made
        for stage in run.keys:
            with self._only_one(run.keys[stage], f"{label}: {stage}"):
                if tree.import_stages(run):
                    check_out()
                if stage == run.stages[-1].name or not tree.has_stages(
                    run, [stage]
                ):  # the last checks all others
                    dvc("repro", stage)
                    tree.record(run, [stage])
        with atomic_directory(self._state / "runs" / run.name) as beside:
            for name in KEPT:
                shutil.copyfile(tree.tree / run.stages[-1].scores / name, beside / name)
        tree.save(run)
        tree.marker.unlink()
        self._report(f"{label}: done in {time.monotonic() - started:.0f} s, experiment {run.name}")
