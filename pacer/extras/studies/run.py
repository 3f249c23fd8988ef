"""The runs of a table of experiments, which DVC makes in folders of their own: the parameters and
outputs of the user stay as they are.

A run is made if git has an experiment of its name, so a table that was stopped goes on; DVC brings
back every stage that another run has finished.
"""

import copy
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import JsonValue
from ruamel.yaml import YAML

from pacer.config import Params, Strict, validated
from pacer.config.baselines import BaselineParams
from pacer.config.strict import read_mapping
from pacer.core.errors import ConfigError, PacerError
from pacer.core.io import atomic_directory, hash_json, write_text
from pacer.extras.studies.repository import Repository
from pacer.extras.studies.study import BASELINE_KEY, Overrides, Study, StudyRow
from pacer.metrics.result import CASES, SCORES_FILE, SIGNATURE_FILE

PARAMS, BASELINE_PARAMS = "params.yaml", BASELINE_KEY.removesuffix(":")
DEFINITION, BASELINE_DEFINITION = "dvc.yaml", "baselines/stages.yaml"
#: The last stage of a run of the pipeline; later stages do not affect scores.
TARGET = "score"
#: Parameter file -> its schema.
KINDS: dict[str, type[Strict]] = {PARAMS: Params, BASELINE_PARAMS: BaselineParams}


@dataclass(frozen=True)
class Run:
    """One row with one replicate, by their names.

    ``name``: of the experiment; it ends in a hash of the parameters, the stages and their code.
    ``overrides``: changes to the current parameters; ``values``: the parameters with them, by file.
    ``target``: the stage that makes the scores. ``stages``: those of the pipeline and of the row's
    baseline, as in ``dvc.yaml``.
    """

    row: str
    replicate: str
    name: str
    overrides: Overrides
    values: Mapping[str, Any]
    target: str
    stages: Mapping[str, Any]

    @property
    def scores(self) -> str:
        """The folder of the scores."""
        if self.target == TARGET:
            return "metrics"
        return f"baselines/metrics/{self.target.removesuffix('_score')}"

    @property
    def options(self) -> list[str]:
        """The options of ``dvc exp run`` that make this run."""
        changes = [f"{key}={json.dumps(value)}" for key, value in self.overrides.items()]
        return ["--name", self.name, *(part for text in changes for part in ("-S", text))]


def plan(study: Study, repository: Repository) -> list[Run]:
    """Return every run of a study, replicate by replicate in row order, without rows that lack what
    they need. Raises a ConfigError if a file or a row's parameters are invalid, or a target is not
    a stage."""
    objects = repository.objects()
    in_use = {file: read_mapping(repository.root / file) for file in KINDS}
    runs = []
    for label, replicate in zip(study.labels, study.replicates, strict=True):
        for row in study.rows:
            origin = f"study {study.name}, row {row.name}"
            needed = [_place(in_use, key, origin) for key in row.needs]
            if any(group[key] is None for group, key in needed):
                continue
            values = copy.deepcopy(in_use if row.target else {PARAMS: in_use[PARAMS]})
            overrides = study.overrides(row, replicate)
            for path, value in overrides.items():
                group, key = _place(values, path, origin)
                group[key] = value
            for file, content in values.items():
                validated(content, origin, KINDS[file])
            stages = _stages(repository.root, row)
            code = [objects.get(path) for path in _dependencies(stages)]  # None: a stage's output
            key = hash_json([row.target, stages, code, values])[:10]
            words = [
                re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
                for text in (study.name, row.name, label)
            ]
            name = "-".join([*words, key])
            target = row.target or TARGET
            runs.append(Run(row.name, label, name, overrides, values, target, stages))
    return runs


def _stages(root: Path, row: StudyRow) -> dict[str, Any]:
    """Return the stages of the pipeline up to the scores, and those of the row's baseline."""
    stages = read_mapping(root / DEFINITION)["stages"]
    names = list(stages)
    used = {name: stages[name] for name in names[: names.index(TARGET) + 1]}
    if row.target is not None:
        added = read_mapping(root / BASELINE_DEFINITION)["stages"]
        if row.target not in added:
            raise ConfigError(f"{row.target} is not a stage of {BASELINE_DEFINITION}")
        system = row.target.removesuffix("_score")
        used |= {name: stage for name, stage in added.items() if name.startswith(system)}
    return used


def _dependencies(stages: Mapping[str, Any]) -> list[str]:
    """Return the files and folders that stages depend on."""
    return sorted({str(path) for stage in stages.values() for path in stage.get("deps", [])})


def _place(values: Mapping[str, Any], path: str, origin: str) -> tuple[dict[str, JsonValue], str]:
    """Return the group of the parameters that a key names, and the key in it."""
    file = BASELINE_PARAMS if path.startswith(BASELINE_KEY) else PARAMS
    *parents, last = path.removeprefix(BASELINE_KEY).split(".")
    try:
        group = values[file]
        for parent in parents:
            group = group[parent]
        _ = group[last]
    except (KeyError, TypeError):
        raise ConfigError(
            f"{origin}: {path} is not a parameter (rows with a `target` also have those of "
            f"{BASELINE_PARAMS})"
        ) from None
    return group, last


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
    runs = [run for run in plan(study, repository) if run.row in (rows or names)]
    _check_committed(repository, runs)
    known = repository.experiments()
    missing = [run for run in runs if run.name not in known]
    if not missing:
        report(f"{study.name}: nothing to do: all {len(runs)} runs exist")
        return
    report(f"{study.name}: {len(missing)} of {len(runs)} runs are missing")
    for number, run in enumerate(missing, start=1):
        report(f"[{number}/{len(missing)}] {run.name}")
        _run(repository, run, "--queue" if queue else "--temp")


def _run(repository: Repository, run: Run, how: str) -> None:
    """Let DVC make a run, or queue it. Meanwhile ``dvc.yaml`` has the stages of the row's baseline:
    DVC would miss the outputs of baselines that were never run."""
    definition = repository.root / DEFINITION
    before = definition.read_bytes()
    try:
        if run.target != TARGET:
            whole = read_mapping(definition)
            whole["stages"] |= run.stages
            YAML(typ="safe", pure=True).dump(whole, definition)
        repository.dvc("exp", "run", how, *run.options, run.target)
    finally:
        definition.write_bytes(before)


def _check_committed(repository: Repository, runs: Iterable[Run]) -> None:
    """Raise a ConfigError unless git has all that a run depends on, as it is now."""
    paths = {"pacer", "stages", "baselines", "dvc.lock", PARAMS, DEFINITION}
    paths = paths.union(*(_dependencies(run.stages) for run in runs))
    if changed := repository.git("status", "--porcelain", "--", *sorted(paths)).splitlines():
        raise ConfigError(
            f"{changed[0][3:]} is not committed ({len(changed)} such files); commit what the rows "
            "are to use"
        )


class Finished(NamedTuple):
    """The experiment of a run; its name is the run's if it was made with the code and parameters of
    now."""

    run: Run
    name: str
    commit: str


def finished(runs: Iterable[Run], repository: Repository) -> Iterator[Finished]:
    """Yield the experiment of each run: the one with the code and parameters of now, else the
    newest of the same row and replicate."""
    experiments = repository.experiments()
    newest = {name.rpartition("-")[0]: name for name in experiments}
    for run in runs:
        name = run.name if run.name in experiments else newest.get(run.name.rpartition("-")[0])
        if name is not None:
            yield Finished(run, name, experiments[name])


def kept_files(repository: Repository, experiment: Finished) -> Path:
    """Return a folder with copies of the scores, signature and cases of an experiment, from git and
    from DVC's cache; without cases if the cache lacks them."""
    folder = repository.results / "cases" / experiment.name
    if not (folder / CASES).is_file():
        scores = experiment.run.scores
        with atomic_directory(folder) as restored:
            for name in (SCORES_FILE, SIGNATURE_FILE):
                text = repository.git("show", f"{experiment.commit}:{scores}/{name}")
                write_text(restored / name, text)
            source = (".", f"{scores}/{CASES}", "--rev", experiment.commit)
            with suppress(PacerError):  # DVC says what its cache lacks
                repository.dvc("get", "--quiet", *source, "--out", str(restored / CASES))
    return folder
