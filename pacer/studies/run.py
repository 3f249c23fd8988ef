"""Makes the missing runs of a study with DVC's own commands.

One after the other, they are made in the workspace by ``dvc exp run``, where a training that was
stopped goes on; afterwards the user's parameters and outputs are put back. Several at a time are
made by DVC's queue, in folders of its own. A run is done if git has an experiment whose name ends
in its key, so a study goes on where it stopped, and studies and rows that are alike share a run.
"""

import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from pacer.core.errors import ConfigError, PacerError
from pacer.core.io import atomic_directory, write_text
from pacer.core.stops import environment_without
from pacer.studies.plan import CODE, DEFINITION, PARAMS, Run, plan
from pacer.studies.repository import Repository
from pacer.studies.study import Study

#: Files of a run that tests between rows read, beside its scores.
SIGNATURE, CASES = "signature.json", "cases.parquet"
#: Tracked files that a run in the workspace changes.
_CHANGED = (PARAMS, DEFINITION, "dvc.lock", "metrics", "baselines")
#: Seconds between two looks at DVC's queue.
_PERIOD = 10.0

Report = Callable[[str], None]


def run_study(
    study: Study,
    repository: Repository,
    report: Report,
    *,
    rows: frozenset[str] = frozenset(),
    replicates: frozenset[str] = frozenset(),
    jobs: int = 1,
    devices: str | None = None,
) -> None:
    """Make every missing run of ``study`` with the current code and parameters: of these rows and
    replicates (empty: all), ``jobs`` at a time, which share the GPUs ``devices`` (names,
    comma-separated; None: all) and the cores. Raises a PacerError if a run failed, or the study
    does not fit the parameters."""
    for kind, given, names in (
        ("row", rows, [row.name for row in study.rows]),
        ("replicate", replicates, study.labels),
    ):
        if unknown := sorted(given - {*names}):
            raise ConfigError(
                f"study {study.name} has no {kind} {unknown[0]!r}; its {kind}s are "
                f"{', '.join(names)}"
            )
    _check_committed(repository)
    runs = plan(study, repository)
    for place, row in enumerate(study.rows):
        if row.needs and all(run.row != place for run in runs):
            report(f"{study.name}: {row.name} is left out; it needs {', '.join(row.needs)}")
    chosen = [
        run
        for run in runs
        if (not rows or study.rows[run.row].name in rows)
        and (not replicates or run.replicate in replicates)
    ]
    keys = {run.key for run in chosen}
    done = by_key(repository.experiments())
    first = {run.key: run for run in reversed(chosen)}
    missing = [run for run in chosen if run is first[run.key] and run.key not in done]
    if not missing:
        report(f"{study.name}: nothing to do: all {len(keys)} runs exist")
        return
    report(f"{study.name}: {len(missing)} of {len(keys)} runs are missing")
    if jobs == 1:
        _run_in_workspace(missing, repository, report)
    else:
        _run_by_queue(missing, repository, report, jobs, devices)


def _run_in_workspace(missing: list[Run], repository: Repository, report: Report) -> None:
    """Make runs one after the other, and put the workspace back to what it was."""
    try:
        for number, run in enumerate(missing, start=1):
            report(f"[{number}/{len(missing)}] {run.name}")
            _run(repository, run)
    finally:
        with suppress(PacerError):  # DVC says what it cannot bring back
            repository.dvc("checkout", "--allow-missing", "--quiet", *missing[0].outs)


def _run_by_queue(
    missing: list[Run], repository: Repository, report: Report, jobs: int, devices: str | None
) -> None:
    """Make runs by DVC's queue, and wait for them. Rows that are in the queue already are not
    queued again, unless the worker that ran them was killed: DVC shows these as running for
    ever."""
    states, is_working = _queue(repository)
    known = {name for name, state in states.items() if state == "Queued" or is_working}
    for run in missing:
        if run.name not in known or states[run.name] not in ("Queued", "Running"):
            _run(repository, run, "--queue")
    _start_workers(repository, min(jobs, len(missing)), devices)
    report("DVC's queue makes them; Ctrl-C does not end it, but `dvc queue stop --kill` does")
    left = {run.key: run.name for run in missing}
    idle = 0
    while left and idle < 3:  # workers take some seconds to start
        time.sleep(_PERIOD)
        before, (states, is_working) = states, _queue(repository)
        idle = 0 if is_working else idle + 1
        for name in left.values():
            if states.get(name) != before.get(name):
                report(f"{name}: {states.get(name)}")
        done = by_key(repository.experiments())
        left = {key: name for key, name in left.items() if key not in done}
    if left:
        raise PacerError(
            f"{len(left)} runs have not succeeded: {', '.join(left.values())}; `dvc queue logs "
            "NAME` says why; repeat the command to queue them again"
        )


def _run(repository: Repository, run: Run, *options: str) -> None:
    """Let DVC make a run, or queue it; then put back the files that it changes. The stages of a
    baseline are added to ``dvc.yaml``: in the user's, DVC would miss the outputs of baselines that
    were never run."""
    try:
        if run.pipeline is not None:
            write_text(repository.root / DEFINITION, run.pipeline)
        repository.dvc("exp", "run", *options, *run.options, run.target)
    finally:
        repository.git("reset", "--quiet", "--", *_CHANGED)  # DVC stages what it changes
        tracked = repository.git("ls-files", "--", *_CHANGED).splitlines()
        repository.git("checkout", "--quiet", "--", *tracked)
        repository.git("clean", "--force", "-d", "--quiet", "--", *_CHANGED)


def _queue(repository: Repository) -> tuple[dict[str, str], bool]:
    """Return the state of each row of DVC's queue, by its name, and whether a worker is active."""
    command = ["dvc", "queue", "status"]
    done = subprocess.run(command, cwd=repository.root, capture_output=True, text=True, check=False)
    lines = [line.split() for line in done.stdout.splitlines() if line.strip()]
    states = {words[1]: words[-1] for words in lines[1:] if len(words) > 3 and words[0] != "Worker"}
    # DVC cannot read its queue while a worker writes it: then one is active
    return states, done.returncode != 0 or lines[-1][:3] != ["Worker", "status:", "0"]


def _start_workers(repository: Repository, jobs: int, devices: str | None) -> None:
    """Start workers, each with its share of the GPUs. They share the cores: with fewer threads,
    sums would differ in their last bits from those of a run alone."""
    names = devices.split(",") if devices else []
    repository.results.mkdir(parents=True, exist_ok=True)
    environment = environment_without(())
    for job in range(jobs):
        if names:
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(names[job % len(names) :: jobs])
        # workers keep the output open, so it must not be a pipe, which a caller would wait for
        with (repository.results / "queue.log").open("a") as log:
            subprocess.run(
                ["dvc", "queue", "start", "--jobs", str(job + 1)],
                cwd=repository.root,
                env=environment,
                stdout=log,
                stderr=log,
                check=True,
            )


def _check_committed(repository: Repository) -> None:
    """Raise a ConfigError unless git has all that a run depends on, as it is now: a run in the
    workspace changes it, and must not take anything of the user's with it."""
    paths = [*CODE, *_CHANGED]
    if changed := repository.git("status", "--porcelain", "--", *paths).splitlines():
        raise ConfigError(
            f"{changed[0][3:]} is not committed ({len(changed)} such files); commit what the rows "
            "are to use, or, if a study was killed here, `git reset --hard` and `dvc checkout`"
        )


class Finished(NamedTuple):
    """The experiment of a row, by its index, and a replicate. ``scores``: the folder of its scores.
    ``is_current``: whether it was made with the code and parameters of now."""

    row: int
    replicate: str
    name: str
    commit: str
    scores: str
    is_current: bool


def finished(study: Study, repository: Repository) -> Iterator[Finished]:
    """Yield the experiments of a study: for each row and replicate the one with the code and
    parameters of now, else the newest."""
    known = repository.experiments()
    same, newest = by_key(known), {name.rpartition("-")[0]: name for name in known}
    for run in plan(study, repository):
        current = same.get(run.key)
        if name := current or newest.get(run.name.rpartition("-")[0]):
            yield Finished(
                run.row, run.replicate, name, known[name], run.scores, current is not None
            )


def by_key(names: Iterable[str]) -> dict[str, str]:
    """Return the hash at the end of an experiment's name -> the name."""
    return {name.rpartition("-")[2]: name for name in names}


def kept_files(repository: Repository, experiment: Finished) -> Path:
    """Return a folder with copies of the signature and cases of an experiment, from git and from
    DVC's cache; without cases if the cache lacks them."""
    folder = repository.results / "runs" / experiment.name
    if not (folder / CASES).is_file():
        with atomic_directory(folder) as restored:
            place = f"{experiment.scores}/{SIGNATURE}"
            write_text(restored / SIGNATURE, repository.git("show", f"{experiment.commit}:{place}"))
            source = (".", f"{experiment.scores}/{CASES}", "--rev", experiment.commit)
            with suppress(PacerError):  # DVC says what its cache lacks
                repository.dvc("get", "--quiet", *source, "--out", str(restored / CASES))
    return folder
