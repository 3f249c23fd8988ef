"""The runs that a study asks for: parameters of every row and seed, and the key that a run is known by."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import JsonValue
from ruamel.yaml import YAML

from pacer.config import Params, Strict, read_params, validated
from pacer.config.baselines import BaselineParams
from pacer.core.errors import ConfigError
from pacer.core.io import hash_json
from pacer.studies.pipeline import BASELINE_PARAMS, PARAMS, Lock, Pipeline, Stage
from pacer.studies.study import BASELINE_KEY, Row, Study

#: Content of a parameter file, or a group of it.
Values = dict[str, JsonValue]
#: Parameter file -> what it must be.
KINDS: dict[str, type[Strict]] = {PARAMS: Params, BASELINE_PARAMS: BaselineParams}


class Identity(NamedTuple):
    """What a run is made from.

    ``chain``: stage -> hash of its command, code, parameters and all before it; runs share stages that have the same.
    ``data``: what is recorded of the stages that prepare data. ``key``: hash of the other stages and of the data.
    """

    chain: dict[str, str]
    data: Lock
    key: str


@dataclass(frozen=True)
class Run:
    """One run of a row.

    Attributes:
        target: stage of the baselines, None: of the pipeline. overrides: of the parameters in use, by file.
        values: the whole of the parameters, by file. place: name of the folder that it is made in.
    """

    row: int
    name: str
    seed: int
    target: str | None
    overrides: dict[str, Values]
    values: dict[str, Values]
    params: Params
    place: str
    identity: Identity

    @property
    def key(self) -> str:
        return self.identity.key


def read_files(study: Study, root: Path) -> dict[str, str]:
    """Text of each parameter file that a study uses.

    Raises:
        ConfigError: one is missing or not valid.
    """
    files = [PARAMS] + [BASELINE_PARAMS] * any(row.target is not None for row in study.rows)
    for name in files:
        read_params(root / name, KINDS[name])
    return {name: (root / name).read_text(encoding="utf-8") for name in files}


def plan(
    study: Study,
    texts: Mapping[str, str],
    pipelines: Mapping[str | None, Pipeline],
    code: Callable[[str], str],
    locks: Sequence[Lock],
) -> list[Run]:
    """Every run of a study, seed by seed in the order of the rows; rows that lack what they need have none.

    Args:
        texts: parameter files in use. pipelines: target -> its stages. code, locks: as :func:`identify` takes them.

    Raises:
        ConfigError: an override is no parameter, or not one of its values.
    """
    in_use: dict[str, Values] = {name: YAML(typ="safe").load(text) for name, text in texts.items()}
    runs = []
    for seed in study.seeds:
        for index, row in enumerate(study.rows):
            if row.files is not None or lacking(row, in_use):
                continue
            origin, pipeline = f"study {study.name}, row {row.name}", pipelines[row.target]
            overrides = by_file(study.overrides(row, seed))
            baseline = (row.target or "").removesuffix("_score")
            own = in_use[BASELINE_PARAMS].get(baseline) if row.target is not None else None
            if isinstance(own, dict) and "seed" in own:
                overrides.setdefault(BASELINE_PARAMS, {})[f"{baseline}.seed"] = seed
            values = {name: copy.deepcopy(in_use[name]) for name in pipeline.files}
            for name in values:
                override(values[name], overrides.get(name, {}), origin, name)
            typed = {name: validated(content, origin, KINDS[name]) for name, content in values.items()}
            params = typed[PARAMS]
            assert isinstance(params, Params)
            place = hash_json([row.target, *(kind.model_dump(mode="json") for kind in typed.values())])[:16]
            identity = identify(pipeline, values, code, locks)
            runs.append(Run(index, row.name, seed, row.target, overrides, values, params, place, identity))
    return runs


def identify(
    pipeline: Pipeline, values: Mapping[str, Values], code: Callable[[str], str], locks: Iterable[Lock]
) -> Identity:
    """What a run with these parameters is made from.

    A stage that prepares data counts as what it made, as far as a lock knows: for the code as it is, else for the code
    when it last ran with these parameters. The other stages count as their command, code and parameters.

    Args:
        code: hash of a dependency that no stage makes. locks: the first that knows a stage is believed.
    """
    locks = list(locks)
    chain: dict[str, str] = {}
    data: Lock = {}
    made: dict[str, str] = {}
    content = []
    for stage in pipeline.stages:
        params = {file: {key: _value(values[file], key) for key in keys} for file, keys in stage.params.items()}
        outs = {dep: out for dep in stage.deps if (out := pipeline.out_of(dep))}
        read = {dep: code(dep) for dep in stage.deps if dep not in outs}
        before = sorted({chain[pipeline.makers[out]] for out in outs.values()})
        chain[stage.name] = hash_json([stage.cmd, params, read, before])
        if stage.name in pipeline.data and all(dep in made for dep in outs):
            inputs = {dep: made[dep] for dep in outs}
            if (entry := _recorded(stage, params, inputs, read, locks)) is not None:
                data[stage.name] = entry
                made |= {out["path"]: out["md5"] for out in entry["outs"]}
                continue
        content.append([stage.cmd, params, read, {dep: made.get(out) for dep, out in outs.items()}])
    return Identity(chain, data, hash_json([pipeline.target, content])[:16])


def _recorded(
    stage: Stage, params: dict[str, Values], inputs: dict[str, str], code: dict[str, str], locks: list[Lock]
) -> dict[str, Any] | None:
    """What a stage made of these inputs with these parameters; code that is as now is preferred."""
    older = None
    for entry in (lock[stage.name] for lock in locks if stage.name in lock):
        deps = {dep["path"]: dep["md5"] for dep in entry.get("deps", [])}
        same = entry["cmd"] == stage.cmd and entry.get("params", {}) == params and inputs.items() <= deps.items()
        if same and {out["path"] for out in entry.get("outs", [])} == set(stage.outs):
            if deps == inputs | code:
                return entry
            older = older or entry
    return older


def lacking(row: Row, values: Mapping[str, Values]) -> list[str]:
    """The parameters that a row needs and that are null.

    Raises:
        ConfigError: one of them is no parameter.
    """
    places = {path: _place(values[_file(path)], path.removeprefix(BASELINE_KEY)) for path in row.needs}
    for path, place in places.items():
        if place is None:
            raise ConfigError(f"row {row.name} needs {path}, which is no parameter")
    return [path for path, place in places.items() if place is not None and place[0][place[1]] is None]


def by_file(overrides: Mapping[str, JsonValue]) -> dict[str, Values]:
    """``baselines/params.yaml:group.key`` and ``group.key`` -> file -> ``group.key`` -> value."""
    found: dict[str, Values] = {}
    for path, value in overrides.items():
        found.setdefault(_file(path), {})[path.removeprefix(BASELINE_KEY)] = value
    return found


def _file(path: str) -> str:
    return BASELINE_PARAMS if path.startswith(BASELINE_KEY) else PARAMS


def override(params: Values, overrides: Mapping[str, JsonValue], origin: str, name: str = PARAMS) -> None:
    """Replace ``group.key`` values in the content of the parameter file ``name``.

    Raises:
        ConfigError: a key is not in the file.
    """
    for path, value in overrides.items():
        place = _place(params, path)
        if place is None:
            raise ConfigError(f"{origin}: {path} is no parameter of {name}")
        place[0][place[1]] = value


def overridden(params: str, overrides: Mapping[str, JsonValue], name: str = PARAMS) -> str:
    """The text of a parameter file with ``group.key`` values replaced; comments and order stay."""
    yaml = YAML()
    yaml.width = 4096
    yaml.preserve_quotes = True
    values = yaml.load(params)
    override(values, overrides, name, name)
    written = io.StringIO()
    yaml.dump(values, written)
    return written.getvalue()


def _place(params: Values, path: str) -> tuple[Values, str] | None:
    """The group and the key in it that ``group.key`` names; None where there is no such parameter."""
    *parents, last = path.split(".")
    group: JsonValue = params
    for parent in parents:
        group = group.get(parent) if isinstance(group, dict) else None
    return (group, last) if isinstance(group, dict) and last in group else None


def _value(params: Values, path: str) -> JsonValue:
    place = _place(params, path)
    return place[0][place[1]] if place is not None else None
