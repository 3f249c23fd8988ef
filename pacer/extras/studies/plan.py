"""The runs of a study: the parameters of every row and replicate, and the names of the experiments
that record them."""

import copy
import json
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from pacer.config import Params, Strict, validated
from pacer.config.baselines import BaselineParams
from pacer.config.strict import read_mapping
from pacer.core.errors import ConfigError, PacerError
from pacer.core.io import hash_json
from pacer.extras.studies.repository import Repository
from pacer.extras.studies.study import BASELINE_KEY, Overrides, Study

PARAMS, BASELINE_PARAMS = "params.yaml", BASELINE_KEY.removesuffix(":")
DEFINITION, BASELINE_DEFINITION = "dvc.yaml", "baselines/stages.yaml"
#: The last stage of a run of the pipeline; later stages do not affect scores.
TARGET = "score"
#: A baseline's stage NAME_score writes into the folder NAME here.
BASELINE_SCORES = "baselines/metrics/"
#: Parameter file -> its schema.
KINDS: dict[str, type[Strict]] = {PARAMS: Params, BASELINE_PARAMS: BaselineParams}


class Pipeline:
    """The stages, with those of a ``baseline`` whose target is named.

    ``definition``: the content of ``dvc.yaml`` with the ``target``, the stage that makes the
    scores, in the folder ``scores``. ``outs``: what is put back from DVC's cache after a run in the
    workspace. ``needed``: the stages of the target and of all that it depends on, by name.
    ``code``: the dependencies of these that no stage makes, each with its object in git.
    """

    def __init__(self, root: Path, baseline: str | None, objects: Mapping[str, str]):
        """``objects``: path -> object of every file and folder in the last commit. Raises a
        PacerError if a dependency is neither among them nor an output of a stage."""
        self.target, self.scores = TARGET, "metrics"
        self.definition = read_mapping(root / DEFINITION)
        stages = self.definition["stages"]
        # Of the user's own stages, as DVC then knows no others. Outs with options are in git, or
        # persistent: stages add to them.
        self.outs = [
            out
            for stage in stages.values()
            for out in stage.get("outs", [])
            if isinstance(out, str)
        ]
        if baseline is not None:
            # Not those of other baselines: `dvc exp apply` would miss their outputs.
            system = baseline.removesuffix("_score")
            added = read_mapping(root / BASELINE_DEFINITION)["stages"]
            stages |= {name: stage for name, stage in added.items() if name.startswith(system)}
            if baseline not in stages:
                raise ConfigError(f"{baseline} is not a stage of {BASELINE_DEFINITION}")
            self.target, self.scores = baseline, BASELINE_SCORES + system
        self.needed, self.code = _dependencies(stages, self.target, objects)


def _dependencies(
    stages: Mapping[str, Any], target: str, objects: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the stages that a target needs, and their code, as in :class:`Pipeline`."""
    outputs = {name: _paths(stage, "outs", "metrics", "plots") for name, stage in stages.items()}
    names, code = [target], {}
    for name in names:  # grows while it is read
        for path in _paths(stages[name], "deps"):
            makers = [
                maker for maker, outs in outputs.items() if any(_overlap(path, out) for out in outs)
            ]
            if makers:
                names += [maker for maker in makers if maker not in names]
            elif path in objects:
                code[path] = objects[path]
            else:
                raise PacerError(
                    f"the stage {name} depends on {path}, which is neither in git nor an output of "
                    "a stage; commit it, or correct the `deps` of the stage"
                )
    return {name: stages[name] for name in names}, code


def _paths(stage: Mapping[str, Any], *lists: str) -> list[str]:
    """Return the paths in these lists of a stage, without their options."""
    return [
        posixpath.normpath(path)
        for name in lists
        for entry in stage.get(name, [])
        for path in ([entry] if isinstance(entry, str) else entry)
    ]


def _overlap(path: str, other: str) -> bool:
    """Return whether paths are the same, or one contains the other."""
    return f"{path}/".startswith(f"{other}/") or f"{other}/".startswith(f"{path}/")


@dataclass(frozen=True)
class Run:
    """One row with one replicate, by their names.

    ``name``: of the experiment; it ends in ``key``, the hash of the parameters and of the stages
    that the target needs, with their code, so runs with the same key are the same. ``overrides``:
    changes to the current parameters. ``values``: the parameters with these changes, by file.
    """

    row: str
    replicate: str
    name: str
    key: str
    overrides: Overrides
    values: Mapping[str, Any]
    pipeline: Pipeline

    @property
    def options(self) -> list[str]:
        """The options of ``dvc exp run`` that make this run."""
        changes = [f"{key}={json.dumps(value)}" for key, value in self.overrides.items()]
        return ["--name", self.name, *(part for text in changes for part in ("-S", text))]


def plan(study: Study, repository: Repository) -> list[Run]:
    """Return every run of a study, replicate by replicate in row order, without rows that lack what
    they need. Raises a ConfigError if a file or a row's parameters are invalid, or a target is not
    a stage, and a PacerError if git lacks code that a row's stages depend on."""
    made = [row for row in study.rows if row.files is None]
    entries = repository.git("ls-tree", "-r", "-t", "-z", "HEAD").split("\0")
    objects = {path: found for found, _, path in (entry.partition("\t") for entry in entries)}
    pipelines = {row.target: Pipeline(repository.root, row.target, objects) for row in made}
    in_use = {file: read_mapping(repository.root / file) for file in KINDS}
    runs = []
    for label, replicate in zip(study.labels, study.replicates, strict=True):
        for row in made:
            origin = f"study {study.name}, row {row.name}"
            needed = (_place(in_use, key, origin) for key in row.needs)
            if any(group[key] is None for group, key in needed):
                continue
            values = copy.deepcopy(in_use if row.target else {PARAMS: in_use[PARAMS]})
            overrides = study.overrides(row, replicate)
            for path, value in overrides.items():
                group, key = _place(values, path, origin)
                group[key] = value
            for file, content in values.items():
                validated(content, origin, KINDS[file])
            pipeline = pipelines[row.target]
            key = hash_json([pipeline.target, pipeline.needed, pipeline.code, values])[:10]
            words = [
                re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
                for text in (study.name, row.name, label)
            ]
            name = "-".join([*words, key])
            runs.append(Run(row.name, label, name, key, overrides, values, pipeline))
    return runs


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
