"""Run a study: one DVC experiment for each different run, one after another, in the workspace.

A run is known by its key, the hash of its parameters and of the code that its stages use. What it gives is kept in
``results/runs/KEY/``, so a study goes on where it stopped, studies share runs, and rows of one study with the same
parameters are one run. DVC's run cache gives back every stage that another run has made already: rows that differ
after a phase share it.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pacer.core.errors import ConfigError, DataError, PacerError
from pacer.core.io import read_json, whole_directory, write_json
from pacer.studies.dvc import Dvc, only_study
from pacer.studies.pipeline import LOCK, PARAMS, Pipeline
from pacer.studies.plan import KINDS, Kinds, Run, overridden, plan, read_files
from pacer.studies.study import Study
from pacer.studies.workspace import Workspace

#: What is kept of a run, from the folder of its scores.
KEPT = ("scores.json", "signature.json", "cases.parquet")
RECORD = "run.json"
#: What is recorded of the corpus: whether scores can stand beside published ones hangs on it.
DESCRIBED = ("source", "format", "target", "cleaner", "strict", "limit", "contexts")

Tell = Callable[[str], None]


def results_folder(root: Path) -> Path:
    """Where runs and tables of studies are kept; none of it is in git."""
    return root / "studies" / "results"


def run_study(
    study: Study,
    root: Path,
    tell: Tell,
    command: str = "dvc",
    *,
    kinds: Kinds = KINDS,
    rows: frozenset[str] = frozenset(),
) -> None:
    """Make every run of ``study`` that is not there yet.

    Parameter files, locks, metrics and outs are as before when this ends, by an error or an interrupt too; after a kill
    the next call puts them back first.

    Args:
        kinds: what each parameter file must be; that of the baselines is needed for rows with a target.
        rows: names of the rows to run; empty: all.

    Raises:
        PacerError: another study is running, a stage failed, or the study does not fit the parameters.
    """
    unknown = sorted(rows - {row.name for row in study.rows})
    if unknown:
        raise ConfigError(
            f"study {study.name} has no row {unknown[0]!r}; its rows are {', '.join(row.name for row in study.rows)}"
        )
    state = results_folder(root)
    pipelines = {target: Pipeline.read(root, target) for target in (None, *(row.target for row in study.rows))}
    workspace = Workspace(root, state, pipelines.values())
    with only_study(root, state):
        dvc = Dvc(root, state, command)
        if workspace.saved:
            tell("a study was killed here: putting the workspace back first")
            workspace.refuse_edited()
            _restore(workspace, dvc, state)
        texts = read_files(study, root, kinds)
        codes = {target: pipeline.code_hash() for target, pipeline in pipelines.items()}
        runs = plan(study, texts, codes, kinds)
        sources = pipelines[None].source_states(root / LOCK)
        _write_index(study, runs, state)
        planned = {study.rows[run.row].name for run in runs}
        for row in study.rows:
            if row.needs and row.name not in planned:
                tell(f"{study.name}: {row.name} is left out; it needs {', '.join(row.needs)}")
        wanted = [run for run in runs if not rows or run.name in rows]
        distinct = {run.key: run for run in reversed(wanted)}  # the first row of equal ones gives its name
        missing = [key for key in dict.fromkeys(run.key for run in wanted) if not finished(state, key, sources)]
        if not missing:
            tell(f"{study.name}: nothing to do, all {len(distinct)} runs are there")
            return
        tell(f"{study.name}: {len(missing)} of {len(distinct)} runs to make")
        workspace.save()
        try:
            for number, key in enumerate(missing, 1):
                run = distinct[key]
                tell(f"[{number}/{len(missing)}] {run.name}, seed {run.seed}")
                workspace.use(
                    {name: overridden(text, run.overrides.get(name, {}), name) for name, text in texts.items()}
                )
                _make(study, run, pipelines[run.target], codes[run.target], workspace, dvc, state, tell)
        finally:
            _restore(workspace, dvc, state)


def restore_workspace(root: Path, tell: Tell, command: str = "dvc") -> None:
    """Put back the workspace of a study that was killed, edits of ``params.yaml`` since then included."""
    state = results_folder(root)
    workspace = Workspace(root, state, [Pipeline.read(root)])
    with only_study(root, state):
        if workspace.saved:
            _restore(workspace, Dvc(root, state, command), state)
            tell("the workspace is as it was before the study")
        else:
            tell("nothing to restore: no study was killed")


def finished(state: Path, key: str, sources: dict[str, dict[str, Any]]) -> bool:
    """Is there a run with this key, from the same source data as far as ``dvc.lock`` knows them?"""
    record = state / "runs" / key / RECORD
    if not record.is_file():
        return False
    made_from = read_json(record)["sources"]
    return not any(
        made_from[name]["from"] == source["from"] and made_from[name]["made"] != source["made"]
        for name, source in sources.items()
        if name in made_from
    )


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


def _make(
    study: Study, run: Run, pipeline: Pipeline, code: str, workspace: Workspace, dvc: Dvc, state: Path, tell: Tell
) -> None:
    """Run the stages with the parameters in use, name the experiment, keep the scores.

    Args:
        code: hash of the code that the run's key stands for.
    """
    root, params, started = pipeline.root, run.params[PARAMS], time.monotonic()
    log = state / "logs" / f"{run.key}.txt"
    experiment = f"{_slug(study.name)}-{_slug(run.name)}-{run.seed}-{run.key[:6]}"

    def stage(name: str, outcome: str) -> None:
        if outcome != "unchanged":
            tell(f"  {name}: {'runs' if outcome == 'ran' else 'made before'}")

    # The stages run by `repro`, and `exp run` then finds them done and names the result. `exp run` alone would keep
    # HEAD detached for as long as the training takes, and a kill would leave it so.
    stages = dvc("repro", pipeline.target, log=log, tell=stage)
    _refuse_changed(run, root, code, workspace)
    _name_experiment(dvc, experiment, pipeline.target, log)
    _refuse_changed(run, root, code, workspace)
    revision, dirty = workspace.revision()
    record = {
        "study": study.name,
        "row": run.name,
        "seed": run.seed,
        "experiment": experiment,
        "revision": revision,
        "edited": dirty,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(time.monotonic() - started, 1),
        "stages": stages,
        "target": run.target,
        "overrides": run.overrides,
        "sources": pipeline.source_states(root / LOCK),
        "split": params["decode"]["split"],
        "limit": params["decode"]["limit"],
        "corpus": {name: params["corpus"][name] for name in DESCRIBED},
    }
    with whole_directory(state / "runs" / run.key) as folder:
        for name in KEPT:
            if not (root / pipeline.scores / name).is_file():
                raise DataError(f"the stage {pipeline.target} left no {pipeline.scores}/{name}; see {log}")
            shutil.copyfile(root / pipeline.scores / name, folder / name)
        for name in (*pipeline.locks, *pipeline.files):
            (folder / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(root / name, folder / name)
        write_json(folder / RECORD, record)
    tell(f"  done in {record['seconds']:.0f} s: experiment {experiment}")


def _refuse_changed(run: Run, root: Path, code: str, workspace: Workspace) -> None:
    """Make sure that what is in the workspace was made by the run's own code and parameters.

    Raises:
        DataError: someone has edited either since the study began.
    """
    changed = workspace.edited()
    if Pipeline.read(root, run.target).code_hash() != code:
        changed = "code of the stages"
    if changed is not None:
        raise DataError(f"{changed} was edited while {run.name} ran; nothing is recorded. Run the study again")


def _name_experiment(dvc: Dvc, name: str, target: str, log: Path) -> None:
    """Name the workspace's state; an experiment of that name (a kill came before its record) is replaced."""
    try:
        dvc("exp", "run", "--name", name, target, log=log)
    except PacerError as error:
        if "conflicts with existing experiment" not in str(error):
            raise
        dvc("exp", "remove", name, log=log)
        dvc("exp", "run", "--name", name, target, log=log)


def _restore(workspace: Workspace, dvc: Dvc, state: Path) -> None:
    # outs that a killed stage left half-made are in no cache; --force lets them go
    workspace.restore(lambda: dvc("checkout", "--force", "--allow-missing", log=state / "logs" / "restore.txt"))


def _write_index(study: Study, runs: list[Run], state: Path) -> None:
    rows = study.rows
    write_json(
        state / study.name / "runs.json",
        [{"group": rows[run.row].group, "row": run.name, "seed": run.seed, "key": run.key} for run in runs],
    )


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
