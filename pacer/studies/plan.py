"""The runs of a study: the parameters of every row and replicate, and the hash that identifies each
run."""

import copy
import io
import posixpath
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydantic import JsonValue
from ruamel.yaml import YAML

from pacer.config import Params, Strict, validated
from pacer.config.baselines import BaselineParams
from pacer.core.errors import ConfigError
from pacer.core.io import hash_json, parse_yaml
from pacer.studies.study import BASELINE_KEY, Overrides, Study

PARAMS, BASELINE_PARAMS = "params.yaml", BASELINE_KEY.removesuffix(":")
DEFINITION, BASELINE_DEFINITION = "dvc.yaml", "baselines/stages.yaml"
#: The last stage of a run of the pipeline; later stages do not affect scores.
TARGET = "score"
SCORES = "scores.json"
#: Parameter file -> its schema.
KINDS: dict[str, type[Strict]] = {PARAMS: Params, BASELINE_PARAMS: BaselineParams}


class Stage(NamedTuple):
    """A stage; all paths are relative to the root. ``deps``: path -> the stage that makes it, None
    for code. ``params``: file -> keys that the stage reads. ``outs``: path -> DVC's options of the
    out."""

    name: str
    cmd: str
    deps: dict[str, str | None]
    params: dict[str, list[str]]
    outs: dict[str, dict[str, Any]]

    @property
    def scores(self) -> str:
        """The folder of the scores that it makes; empty if it makes none."""
        return next(
            (posixpath.dirname(out) for out in self.outs if posixpath.basename(out) == SCORES), ""
        )


@dataclass(frozen=True)
class Run:
    """One row, by its index in the study, with one replicate. ``name``: of the experiment; it ends
    in the hash of the run's inputs. ``stages``: in an order in which they can run; the last makes
    the scores. ``overrides``: changes to the current parameter files. ``values``: the parameters
    with these changes. ``keys``: stage -> hash of its command, code and parameters and of all
    stages before it."""

    row: int
    replicate: str
    name: str
    stages: Sequence[Stage]
    overrides: Mapping[str, Overrides]
    values: Mapping[str, dict[str, Any]]
    keys: Mapping[str, str]

    @property
    def key(self) -> str:
        """The hash at the end of the experiment's name."""
        return hash_of(self.name)

    @property
    def outs(self) -> dict[str, dict[str, Any]]:
        """The outs of all its stages -> their options."""
        return {out: options for stage in self.stages for out, options in stage.outs.items()}


def hash_of(experiment: str) -> str:
    """Return the hash at the end of an experiment's name; runs with the same hash are the same."""
    return experiment.rpartition("-")[2]


def plan(
    study: Study, read: Callable[[str], str], code: Callable[[Collection[str]], Mapping[str, str]]
) -> list[Run]:
    """Return every run of a study, replicate by replicate in row order, without rows that lack what
    they need. ``read`` returns the text of a file of the repository, ``code`` hashes of files and
    folders that no stage makes. Raises a ConfigError if a file or a row's parameters are invalid,
    or a target is not a stage that scores."""
    files = [PARAMS] + [BASELINE_PARAMS] * any(row.target for row in study.rows)
    in_use = {file: parse_yaml(read(file)) for file in files}
    pipelines = {
        row.target: read_stages(read, row.target) for row in study.rows if row.files is None
    }
    hashes = code(
        {
            dep
            for stages in pipelines.values()
            for s in stages
            for dep, maker in s.deps.items()
            if not maker
        }
    )
    runs = []
    for label in study.labels:
        for place, row in enumerate(study.rows):
            origin = f"study {study.name}, row {row.name}"
            if row.files is not None or any(
                _value(in_use[_file(key)], key, origin) is None for key in row.needs
            ):
                continue
            overrides: dict[str, Overrides] = {
                file: {} for file in (PARAMS, *[BASELINE_PARAMS] * bool(row.target))
            }
            for key, value in study.overrides(place, label).items():
                overrides[_file(key)][key] = value
            values = {file: copy.deepcopy(in_use[file]) for file in overrides}
            for file, content in values.items():
                override(content, overrides[file], origin)
                validated(content, origin, KINDS[file])
            stages = pipelines[row.target]
            keys = stage_keys(stages, values, hashes)
            words = [
                re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
                for text in (study.name, row.name, label)
            ]
            name = "-".join([*words, keys[stages[-1].name][:10]])
            runs.append(Run(place, label, name, stages, overrides, values, keys))
    return runs


def read_stages(read: Callable[[str], str], target: str | None) -> list[Stage]:
    """Return the stages that a score depends on, in an order in which they can run. ``target``: a
    stage of the baselines; None: the pipeline's :data:`TARGET`. Raises a ConfigError if there is no
    such stage, or it makes no scores."""
    known, last = _stages(read(DEFINITION)), target or TARGET
    if target is not None:
        known |= _stages(read(BASELINE_DEFINITION))
    ends = [name for name, stage in known.items() if stage.scores]
    if last not in ends:
        raise ConfigError(
            f"stage {last} does not write {SCORES}; these stages do: {', '.join(ends)}"
        )
    makers = {out: stage.name for stage in known.values() for out in stage.outs}
    order: dict[str, Stage] = {}

    def visit(name: str) -> None:
        stage = known[name]
        for dep in stage.deps:
            stage.deps[dep] = maker = next(
                (maker for out, maker in makers.items() if is_within(dep, out)), None
            )
            if maker is not None and maker not in order:
                visit(maker)
        order[name] = stage

    visit(last)
    return list(order.values())


def is_within(path: str, folder: str) -> bool:
    """Return whether a path is ``folder`` or below it; both are relative to the root."""
    return f"{path}/".startswith(f"{folder}/")


def _stages(text: str) -> dict[str, Stage]:
    """Return the stages of a ``dvc.yaml`` by their names."""
    stages = {}
    for name, stage in parse_yaml(text)["stages"].items():
        params: dict[str, list[str]] = {}
        for entry in stage.get("params", []):
            for file, keys in (entry if isinstance(entry, dict) else {PARAMS: [entry]}).items():
                params.setdefault(file, []).extend(keys)
        outs = [entry for kind in ("outs", "metrics", "plots") for entry in stage.get(kind, [])]
        stages[name] = Stage(
            name, stage["cmd"], dict.fromkeys(_paths(stage.get("deps", []))), params, _paths(outs)
        )
    return stages


def _paths(entries: list) -> dict[str, dict[str, Any]]:
    """Return path from the root -> options; an entry may be a mapping of a path to its options."""
    pairs = (
        next(iter(entry.items())) if isinstance(entry, dict) else (entry, {}) for entry in entries
    )
    return {posixpath.normpath(path): options for path, options in pairs}


def with_baselines(pipeline: str, baselines: str, run: Run) -> str:
    """Return the text of a ``dvc.yaml`` with the stages of ``run`` that are a baseline's."""
    merged, written = parse_yaml(pipeline), io.StringIO()
    merged["stages"] |= {
        name: stage for name, stage in parse_yaml(baselines)["stages"].items() if name in run.keys
    }
    YAML(typ="safe", pure=True).dump(merged, written)
    return written.getvalue()


def stage_keys(
    stages: Collection[Stage], values: Mapping[str, Overrides], hashes: Mapping[str, str]
) -> dict[str, str]:
    """Return stage -> hash of its inputs; ``hashes`` are those of the code."""
    keys: dict[str, str] = {}
    for stage in stages:
        params = [
            [file, key, _value(values[file], key, file)]
            for file, read in stage.params.items()
            for key in read
        ]
        inputs = {dep: keys[maker] if maker else hashes[dep] for dep, maker in stage.deps.items()}
        keys[stage.name] = hash_json([stage.cmd, params, inputs])
    return keys


def override(params: Overrides, overrides: Overrides, origin: str) -> None:
    """Replace ``group.key`` values of a parameter file. Raises a ConfigError if a key is not in the
    file."""
    for path, value in overrides.items():
        group, key = _place(params, path, origin)
        group[key] = value


def overridden(text: str, overrides: Overrides, origin: str) -> str:
    """Return the text of a parameter file with ``group.key`` values replaced; comments and order
    are kept."""
    yaml, written = YAML(), io.StringIO()
    yaml.width, yaml.preserve_quotes = 4096, True
    values = yaml.load(text)
    override(values, overrides, origin)
    yaml.dump(values, written)
    return written.getvalue()


def _place(params: Overrides, path: str, origin: str) -> tuple[Overrides, str]:
    """Return the group that ``group.key`` names, and the key in it."""
    *parents, last = path.removeprefix(BASELINE_KEY).split(".")
    group: JsonValue = params
    for parent in parents:
        group = group.get(parent) if isinstance(group, dict) else None
    if not isinstance(group, dict) or last not in group:
        raise ConfigError(f"{origin}: {path} is not a parameter")
    return group, last


def _value(params: Overrides, path: str, origin: str) -> JsonValue:
    group, key = _place(params, path, origin)
    return group[key]


def _file(key: str) -> str:
    return BASELINE_PARAMS if key.startswith(BASELINE_KEY) else PARAMS
