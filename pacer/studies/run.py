"""Run a study: one DVC experiment for each different run, one after another, in the workspace.

A run is known by its key, the hash of its parameters and of the code that its stages use. What it gives is kept in
``results/runs/KEY/``, so a study goes on where it stopped, studies share runs, and rows of one study with the same
parameters are one run. DVC's run cache gives back every stage that another run has made already: rows that differ
after a phase share it.
"""

from __future__ import annotations

import copy
import io
import re
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from pacer.core.config import load_params, parse_params
from pacer.core.errors import ConfigError, DataError, PacerError
from pacer.core.io import hash_json, read_json, whole_directory, write_json
from pacer.studies.dvc import Dvc, only_study
from pacer.studies.pipeline import LOCK, PARAMS, TARGET, Pipeline
from pacer.studies.study import Study
from pacer.studies.workspace import Workspace

#: What is kept of a run, from ``metrics/``.
KEPT = ("scores.json", "signature.json", "cases.parquet")
RECORD = "run.json"

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Run:
    """One run of a row: ``overrides`` of the parameters in use, the whole of its ``params``, ``key`` that it is known
    by."""

    row: int
    name: str
    seed: int
    overrides: dict[str, Any]
    params: dict[str, Any]
    key: str


def results_folder(root: Path) -> Path:
    """Where runs and tables of studies are kept; none of it is in git."""
    return root / "studies" / "results"


def plan(study: Study, params: str, code: str) -> list[Run]:
    """Every run of a study, seed by seed in the order of the rows.

    Args:
        params: text of the parameter file in use. code: hash of what the stages run.

    Raises:
        ConfigError: an override is no parameter, or not one of its values.
    """
    values = YAML(typ="safe").load(params)
    runs = []
    for seed in study.seeds:
        for index, row in enumerate(study.rows):
            if row.files is None:
                origin, changed = f"study {study.name}, row {row.name}", copy.deepcopy(values)
                overrides = study.overrides(row, seed)
                override(changed, overrides, origin)
                effective = parse_params(changed, origin).model_dump(mode="json")
                key = hash_json({"params": effective, "code": code})[:16]
                runs.append(Run(index, row.name, seed, overrides, effective, key))
    return runs


def override(params: dict[str, Any], overrides: dict[str, Any], origin: str) -> None:
    """Replace ``group.key`` values in a parameter file's content.

    Raises:
        ConfigError: a key is not in the file.
    """
    for path, value in overrides.items():
        *parents, last = path.split(".")
        group: Any = params
        for parent in parents:
            group = group.get(parent) if isinstance(group, dict) else None
        if not isinstance(group, dict) or last not in group:
            raise ConfigError(f"{origin}: {path} is no parameter of {PARAMS}")
        group[last] = value


def overridden(params: str, overrides: dict[str, Any]) -> str:
    """The text of a parameter file with ``group.key`` values replaced; comments and order stay."""
    yaml = YAML()
    yaml.width = 4096
    yaml.preserve_quotes = True
    values = yaml.load(params)
    override(values, overrides, PARAMS)
    written = io.StringIO()
    yaml.dump(values, written)
    return written.getvalue()


def run_study(study: Study, root: Path, tell: Tell, command: str = "dvc") -> None:
    """Make every run of ``study`` that is not there yet.

    ``params.yaml``, ``dvc.lock``, metrics and outs are as before when this ends, by an error or an interrupt too; after
    a kill the next call puts them back first.

    Raises:
        PacerError: another study is running, a stage failed, or the study does not fit ``params.yaml``.
    """
    state = results_folder(root)
    pipeline = Pipeline.read(root)
    workspace = Workspace(pipeline, state)
    with only_study(root, state):
        dvc = Dvc(root, state, command)
        if workspace.saved:
            tell("a study was killed here: putting the workspace back first")
            workspace.refuse_edited()
            _restore(workspace, dvc, state)
        load_params(root / PARAMS)
        params = (root / PARAMS).read_text(encoding="utf-8")
        runs = plan(study, params, pipeline.code_hash())
        sources = pipeline.source_states(root / LOCK)
        distinct = {run.key: run for run in reversed(runs)}  # the first row of equal ones gives its name
        missing = [key for key in dict.fromkeys(run.key for run in runs) if not finished(state, key, sources)]
        _write_index(study, runs, state)
        if not missing:
            tell(f"{study.name}: nothing to do, all {len(distinct)} runs are there")
            return
        tell(f"{study.name}: {len(missing)} of {len(distinct)} runs to make")
        workspace.save()
        try:
            for number, key in enumerate(missing, 1):
                run = distinct[key]
                tell(f"[{number}/{len(missing)}] {run.name}, seed {run.seed}")
                workspace.use(overridden(params, run.overrides))
                _make(study, run, pipeline, workspace, dvc, state, tell)
        finally:
            _restore(workspace, dvc, state)


def restore_workspace(root: Path, tell: Tell, command: str = "dvc") -> None:
    """Put back the workspace of a study that was killed, edits of ``params.yaml`` since then included."""
    state = results_folder(root)
    workspace = Workspace(Pipeline.read(root), state)
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


def _make(study: Study, run: Run, pipeline: Pipeline, workspace: Workspace, dvc: Dvc, state: Path, tell: Tell) -> None:
    """Run the stages with the parameters in use, name the experiment, keep the scores."""
    root, started = pipeline.root, time.monotonic()
    log = state / "logs" / f"{run.key}.txt"
    before = pipeline.code_hash()
    experiment = f"{_slug(study.name)}-{_slug(run.name)}-{run.seed}-{run.key[:6]}"

    def stage(name: str, outcome: str) -> None:
        if outcome != "unchanged":
            tell(f"  {name}: {'runs' if outcome == 'ran' else 'made before'}")

    # The stages run by `repro`, and `exp run` then finds them done and names the result. `exp run` alone would keep
    # HEAD detached for as long as the training takes, and a kill would leave it so.
    stages = dvc("repro", TARGET, log=log, tell=stage)
    if pipeline.code_hash() != before:
        raise DataError(f"code of the stages was edited while {run.name} ran; nothing is recorded. Run the study again")
    _name_experiment(dvc, experiment, state, log)
    revision, dirty = workspace.revision()
    record = {
        "study": study.name, "row": run.name, "seed": run.seed, "experiment": experiment, "revision": revision,
        "edited": dirty, "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(time.monotonic() - started, 1), "stages": stages,
        "overrides": run.overrides,
        "sources": pipeline.source_states(root / LOCK), "split": run.params["decode"]["split"],
        "corpus": {name: run.params["corpus"][name] for name in ("source", "format", "target")},
    }  # fmt: skip
    with whole_directory(state / "runs" / run.key) as folder:
        for name in KEPT:
            if not (root / "metrics" / name).is_file():
                raise DataError(f"the stage {TARGET} left no metrics/{name}; see {log}")
            shutil.copyfile(root / "metrics" / name, folder / name)
        shutil.copyfile(root / LOCK, folder / LOCK)
        shutil.copyfile(root / PARAMS, folder / PARAMS)
        write_json(folder / RECORD, record)
    tell(f"  done in {record['seconds']:.0f} s: experiment {experiment}")


def _name_experiment(dvc: Dvc, name: str, state: Path, log: Path) -> None:
    """Name the workspace's state; an experiment of that name (a kill came before its record) is replaced."""
    try:
        dvc("exp", "run", "--name", name, TARGET, log=log)
    except PacerError as error:
        if "conflicts with existing experiment" not in str(error):
            raise
        dvc("exp", "remove", name, log=log)
        dvc("exp", "run", "--name", name, TARGET, log=log)


def _restore(workspace: Workspace, dvc: Dvc, state: Path) -> None:
    # outs that a killed stage left half-made are in no cache; --force lets them go
    workspace.restore(lambda: dvc("checkout", "--force", "--allow-missing", log=state / "logs" / "restore.txt"))


def _write_index(study: Study, runs: list[Run], state: Path) -> None:
    rows = study.rows
    write_json(state / study.name / "runs.json", [
        {"group": rows[run.row].group, "row": run.name, "seed": run.seed, "key": run.key} for run in runs])  # fmt: skip


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
