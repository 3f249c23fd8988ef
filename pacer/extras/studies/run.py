"""Makes the missing runs of a table of experiments with DVC's own commands.

One after the other, they are made in the workspace by ``dvc exp run``, where a training that was
stopped goes on; afterwards the user's parameters and outputs are put back. Or they wait in DVC's
queue for workers, which make them in folders of their own. A run is done if git has an experiment
whose name ends in its key, so a table goes on where it stopped, and tables and rows that are alike
share a run.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ruamel.yaml import YAML

from pacer.core.errors import ConfigError, PacerError
from pacer.core.io import atomic_directory, write_text
from pacer.extras.studies.plan import DEFINITION, PARAMS, TARGET, Run, plan
from pacer.extras.studies.repository import Repository
from pacer.extras.studies.study import Study
from pacer.metrics.result import CASES, SCORES_FILE, SIGNATURE_FILE

#: What a run may use beyond the dependencies of its stages.
_CODE = ("pacer", "stages")
#: Tracked files that a run in the workspace changes.
_CHANGED = (PARAMS, DEFINITION, "dvc.lock", "metrics", "baselines")


def run_study(
    study: Study,
    repository: Repository,
    report: Callable[[str], None],
    rows: frozenset[str] = frozenset(),
    queue: bool = False,
) -> None:
    """Make every missing run of ``study`` with the current code and parameters, of these rows
    (empty: all), or add it to DVC's ``queue``. Raises a PacerError if a run failed, or the table
    does not fit the parameters."""
    names = [row.name for row in study.rows]
    if unknown := sorted(rows.difference(names)):
        raise ConfigError(
            f"{study.name} has no row {unknown[0]!r}; its rows are {', '.join(names)}"
        )
    runs = plan(study, repository)
    _check_committed(repository, runs)
    first = {run.key: run for run in reversed(runs) if run.row in (rows or names)}
    done = {one.run.key for one in finished(runs, repository) if one.is_current}
    missing = [run for run in runs if run is first.get(run.key) and run.key not in done]
    if not missing:
        report(f"{study.name}: nothing to do: all {len(first)} runs exist")
        return
    report(f"{study.name}: {len(missing)} of {len(first)} runs are missing")
    options = ["--queue"] if queue else []
    try:
        for number, run in enumerate(missing, start=1):
            report(f"[{number}/{len(missing)}] {run.name}")
            _run(repository, run, *options)
    finally:
        with suppress(PacerError):  # DVC says what it cannot bring back
            repository.dvc("checkout", "--allow-missing", "--quiet", *missing[0].pipeline.outs)


def _run(repository: Repository, run: Run, *options: str) -> None:
    """Let DVC make a run, or queue it; then put back the files that it changes. The stages of a
    baseline are added to ``dvc.yaml``: in the user's, DVC would miss the outputs of baselines that
    were never run."""
    try:
        if run.pipeline.target != TARGET:
            definition = repository.root / DEFINITION
            YAML(typ="safe", pure=True).dump(run.pipeline.definition, definition)
        repository.dvc("exp", "run", *options, *run.options, run.pipeline.target)
    finally:
        repository.git("reset", "--quiet", "--", *_CHANGED)  # DVC stages what it changes
        tracked = repository.git("ls-files", "--", *_CHANGED).splitlines()
        repository.git("checkout", "--quiet", "--", *tracked)
        repository.git("clean", "--force", "-d", "--quiet", "--", *_CHANGED)


def _check_committed(repository: Repository, runs: Iterable[Run]) -> None:
    """Raise a ConfigError unless git has all that a run depends on, as it is now: a run in the
    workspace changes it, and must not take anything of the user's with it."""
    paths = {*_CODE, *_CHANGED, *(path for run in runs for path in run.pipeline.code)}
    if changed := repository.git("status", "--porcelain", "--", *paths).splitlines():
        raise ConfigError(
            f"{changed[0][3:]} is not committed ({len(changed)} such files); commit what the rows "
            "are to use, or, if `pacer study` was killed, `git reset --hard` and `dvc checkout`"
        )


class Finished(NamedTuple):
    """The experiment of a run. ``is_current``: whether it was made with the code and parameters of
    now."""

    run: Run
    name: str
    commit: str
    is_current: bool


def finished(runs: Iterable[Run], repository: Repository) -> Iterator[Finished]:
    """Yield the experiment of each run: the one with the code and parameters of now, else the
    newest of the same row and replicate."""
    known = {}
    for name, commit in repository.experiments().items():
        same, _, key = name.rpartition("-")
        known[same] = known[key] = name, commit
    for run in runs:
        same = run.name.rpartition("-")[0]
        if found := known.get(run.key) or known.get(same):
            yield Finished(run, *found, run.key in known)


def kept_files(repository: Repository, experiment: Finished) -> Path:
    """Return a folder with copies of the parameters, scores, signature and cases of an experiment,
    from git and from DVC's cache; without cases if the cache lacks them."""
    folder = repository.results / "cases" / experiment.name
    if not (folder / CASES).is_file():
        scores = experiment.run.pipeline.scores
        with atomic_directory(folder) as restored:
            for path in (PARAMS, f"{scores}/{SCORES_FILE}", f"{scores}/{SIGNATURE_FILE}"):
                text = repository.git("show", f"{experiment.commit}:{path}")
                write_text(restored / Path(path).name, text)
            source = (".", f"{scores}/{CASES}", "--rev", experiment.commit)
            with suppress(PacerError):  # DVC says what its cache lacks
                repository.dvc("get", "--quiet", *source, "--out", str(restored / CASES))
    return folder
