"""The runs that a study asks for: the parameters of every row and replicate, and the hash that a run is known by."""

from __future__ import annotations

import copy
import io
import posixpath
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydantic import JsonValue
from ruamel.yaml import YAML

from pacer.config import Params, Strict, validated
from pacer.config.baselines import BaselineParams
from pacer.core.errors import ConfigError
from pacer.core.io import hash_json
from pacer.studies.study import BASELINE_KEY, Overrides, Study

PARAMS, BASELINE_PARAMS = "params.yaml", BASELINE_KEY.removesuffix(":")
DEFINITION, BASELINE_DEFINITION = "dvc.yaml", "baselines/dvc.yaml"
#: The last stage of a run of the pipeline: what comes after it is no part of a score.
TARGET = "score"
SCORES = "scores.json"
#: Parameter file -> what it must be.
KINDS: dict[str, type[Strict]] = {PARAMS: Params, BASELINE_PARAMS: BaselineParams}


class Stage(NamedTuple):
    """A stage of a ``dvc.yaml``; all paths start at the root.

    ``params``: file -> keys that the stage reads. ``outs``: path -> DVC's options of it."""

    cmd: str
    deps: list[str]
    params: dict[str, list[str]]
    outs: dict[str, dict[str, Any]]

    @property
    def scores(self) -> str:
        """The folder of the scores that it makes; empty where it makes none."""
        return next((posixpath.dirname(out) for out in self.outs if posixpath.basename(out) == SCORES), "")


@dataclass(frozen=True)
class Run:
    """One row with one replicate.

    Attributes:
        row: its place in the study.
        name: of the experiment; it ends in the hash of what the run is made from.
        stages: those that it needs, by DVC's names for them, in an order in which they can run.
        keys: stage -> hash of its command, code and parameters and of all stages before it.
        overrides: parameters that differ from the files'. values: parameter file -> its content with these.
    """

    row: int
    replicate: str
    name: str
    stages: Mapping[str, Stage]
    keys: Mapping[str, str]
    overrides: Overrides
    values: Mapping[str, dict[str, Any]]

    @property
    def key(self) -> str:
        """The hash at the end of the experiment's name."""
        return hash_of(self.name)

    @property
    def scores(self) -> str:
        """The folder of its scores."""
        return list(self.stages.values())[-1].scores


def hash_of(experiment: str) -> str:
    """The end of an experiment's name; runs with the same one are the same."""
    return experiment.rpartition("-")[2]


def plan(study: Study, read: Callable[[str], str], code: Callable[[Collection[str]], Mapping[str, str]]) -> list[Run]:
    """Every run of a study, replicate by replicate in the order of the rows; rows that lack what they need have none.

    Args:
        read: text of a file of the repository. code: hashes of files and folders that no stage makes.

    Raises:
        ConfigError: a file or a row's parameters are not valid, or a target is no stage that scores.
    """
    files = [PARAMS] + [BASELINE_PARAMS] * any(row.target for row in study.rows)
    in_use = {file: YAML(typ="safe").load(read(file)) for file in files}
    pipelines = {row.target: read_stages(read, row.target) for row in study.rows if row.files is None}
    made = {out for stages in pipelines.values() for stage in stages.values() for out in stage.outs}
    deps = {dep for stages in pipelines.values() for stage in stages.values() for dep in stage.deps}
    hashes = code({dep for dep in deps if not any(is_within(dep, out) for out in made)})
    runs = []
    for label, replicate in zip(study.labels, study.replicates, strict=True):
        for place, row in enumerate(study.rows):
            origin = f"study {study.name}, row {row.name}"
            if row.files is not None or any(_value(in_use[_file(key)], key, origin) is None for key in row.needs):
                continue
            overrides = study.overrides(row, replicate)
            values: dict[str, dict[str, Any]] = {}
            for file in files if row.target else [PARAMS]:
                content = values[file] = copy.deepcopy(in_use[file])
                override(content, file, overrides, origin)
                validated(content, origin, KINDS[file])
            stages = pipelines[row.target]
            keys = stage_keys(stages, values, hashes)
            name = "-".join([*map(_slug, (study.name, row.name, label)), keys[list(stages)[-1]][:10]])
            runs.append(Run(place, label, name, stages, keys, overrides, values))
    return runs


def read_stages(read: Callable[[str], str], target: str | None = None) -> dict[str, Stage]:
    """The stages that a score comes from, in an order in which they can run.

    Args:
        read: text of a file. target: a stage of the baselines; None: :data:`TARGET` of the pipeline.

    Raises:
        ConfigError: there is no such stage, or it makes no scores.
    """
    known = all_stages(read)
    last = TARGET if target is None else f"{BASELINE_DEFINITION}:{target}"
    if last not in known or not known[last].scores:
        ends = ", ".join(name for name, stage in known.items() if stage.scores)
        raise ConfigError(f"{last} is no stage that makes {SCORES}; those are {ends}")
    order: dict[str, Stage] = {}

    def visit(name: str) -> None:
        for maker, stage in known.items():
            if maker not in order and any(is_within(dep, out) for dep in known[name].deps for out in stage.outs):
                visit(maker)
        order[name] = known[name]

    visit(last)
    return order


def all_stages(read: Callable[[str], str]) -> dict[str, Stage]:
    """Every stage of the pipeline and of the baselines (whose ``wdir`` is the root), by DVC's names for them."""
    known = {}
    for definition, prefix in ((DEFINITION, ""), (BASELINE_DEFINITION, f"{BASELINE_DEFINITION}:")):
        for name, stage in YAML(typ="safe").load(read(definition))["stages"].items():
            params: dict[str, list[str]] = {}
            for entry in stage.get("params", []):
                for file, keys in (entry if isinstance(entry, dict) else {PARAMS: [entry]}).items():
                    params.setdefault(file, []).extend(keys)
            outs: dict[str, dict[str, Any]] = {}
            for entry in (entry for kind in ("outs", "metrics", "plots") for entry in stage.get(kind, [])):
                outs |= entry if isinstance(entry, dict) else {entry: {}}
            known[prefix + name] = Stage(stage["cmd"], stage.get("deps", []), params, outs)
    return known


def is_within(path: str, folder: str) -> bool:
    """Whether a path is a folder, or lies in it."""
    return f"{path}/".startswith(f"{folder}/")


def stage_keys(
    stages: Mapping[str, Stage], values: Mapping[str, dict[str, Any]], hashes: Mapping[str, str]
) -> dict[str, str]:
    """Stage -> what it is made from; ``hashes`` are of the code."""
    keys: dict[str, str] = {}
    made: dict[str, str] = {}
    for name, stage in stages.items():
        params = [[file, key, _value(values[file], key, file)] for file, read in stage.params.items() for key in read]
        inputs = {
            dep: next((key for out, key in made.items() if is_within(dep, out)), None) or hashes[dep]
            for dep in stage.deps
        }
        keys[name] = hash_json([stage.cmd, params, inputs])
        made |= dict.fromkeys(stage.outs, keys[name])
    return keys


def override(params: Overrides, file: str, overrides: Overrides, origin: str) -> None:
    """Replace, in the content of a parameter file, the ``group.key`` values that are this file's.

    Raises:
        ConfigError: a key is not in the file.
    """
    for path, value in overrides.items():
        if _file(path) == file:
            group, key = _place(params, path, origin)
            group[key] = value


def overridden(text: str, file: str, overrides: Overrides) -> str:
    """The text of a parameter file with the values that are its own replaced; comments and order stay."""
    yaml, written = YAML(), io.StringIO()
    yaml.width, yaml.preserve_quotes = 4096, True
    values = yaml.load(text)
    override(values, file, overrides, file)
    yaml.dump(values, written)
    return written.getvalue()


def _place(params: Overrides, path: str, origin: str) -> tuple[Overrides, str]:
    """The group, and the key in it, that ``group.key`` names."""
    *parents, last = path.removeprefix(BASELINE_KEY).split(".")
    group: JsonValue = params
    for parent in parents:
        group = group.get(parent) if isinstance(group, dict) else None
    if not isinstance(group, dict) or last not in group:
        raise ConfigError(f"{origin}: {path} is no parameter")
    return group, last


def _value(params: Overrides, path: str, origin: str) -> JsonValue:
    group, key = _place(params, path, origin)
    return group[key]


def _file(key: str) -> str:
    return BASELINE_PARAMS if key.startswith(BASELINE_KEY) else PARAMS


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
