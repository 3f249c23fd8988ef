"""The runs that a study asks for: parameters of every row and seed, and the key that a run is known by."""

from __future__ import annotations

import copy
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from pacer.core.errors import ConfigError
from pacer.core.io import hash_json
from pacer.params import Params, Strict, read_params, validated
from pacer.studies.pipeline import BASELINE_PARAMS, PARAMS
from pacer.studies.study import BASELINE_KEY, Row, Study

#: Parameter file -> what it must be; the baselines' own is given by who knows the baselines.
Kinds = Mapping[str, type[Strict]]
KINDS: Kinds = {PARAMS: Params}


@dataclass(frozen=True)
class Run:
    """One run of a row.

    Attributes:
        target: stage of the baselines, None: of the pipeline. overrides: of the parameters in use, by file.
        params: the whole of the parameters, by file. key: what it is known by.
    """

    row: int
    name: str
    seed: int
    target: str | None
    overrides: dict[str, dict[str, Any]]
    params: dict[str, dict[str, Any]]
    key: str


def read_files(study: Study, root: Path, kinds: Kinds) -> dict[str, str]:
    """Text of each parameter file that a study uses.

    Raises:
        ConfigError: one is missing or not valid.
    """
    files = [PARAMS] + [BASELINE_PARAMS] * any(row.target is not None for row in study.rows)
    for name in files:
        read_params(root / name, kinds[name])
    return {name: (root / name).read_text(encoding="utf-8") for name in files}


def plan(study: Study, texts: Mapping[str, str], codes: Mapping[str | None, str], kinds: Kinds = KINDS) -> list[Run]:
    """Every run of a study, seed by seed in the order of the rows; rows that lack what they need have none.

    Args:
        texts: parameter files in use. codes: target -> hash of what its stages run.

    Raises:
        ConfigError: an override is no parameter, or not one of its values.
    """
    values = {name: YAML(typ="safe").load(text) for name, text in texts.items()}
    runs = []
    for seed in study.seeds:
        for index, row in enumerate(study.rows):
            if row.files is not None or lacking(row, values):
                continue
            origin = f"study {study.name}, row {row.name}"
            overrides = by_file(study.overrides(row, seed))
            own_seed = _seed_of(row.target, values)
            if own_seed is not None:
                overrides.setdefault(BASELINE_PARAMS, {})[own_seed] = seed
            used = [PARAMS] + [BASELINE_PARAMS] * (row.target is not None)
            effective = {}
            for name in used:
                changed = copy.deepcopy(values[name])
                override(changed, overrides.get(name, {}), origin, name)
                effective[name] = validated(changed, origin, kinds[name]).model_dump(mode="json")
            content = {"params": effective[PARAMS], "code": codes[row.target]}
            if row.target is not None:
                content |= {"target": row.target, "baseline": effective[BASELINE_PARAMS]}
            runs.append(Run(index, row.name, seed, row.target, overrides, effective, hash_json(content)[:16]))
    return runs


def lacking(row: Row, values: Mapping[str, dict[str, Any]]) -> list[str]:
    """The parameters that a row needs and that are null.

    Raises:
        ConfigError: one of them is no parameter.
    """
    missing = []
    for path in row.needs:
        [(file, keys)] = by_file({path: None}).items()
        place = _place(values[file], next(iter(keys)))
        if place is None:
            raise ConfigError(f"row {row.name} needs {path}, which is no parameter")
        if place[0][place[1]] is None:
            missing.append(path)
    return missing


def by_file(overrides: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """``baselines/params.yaml:group.key`` and ``group.key`` -> file -> ``group.key`` -> value."""
    found: dict[str, dict[str, Any]] = {}
    for path, value in overrides.items():
        name = BASELINE_PARAMS if path.startswith(BASELINE_KEY) else PARAMS
        found.setdefault(name, {})[path.removeprefix(BASELINE_KEY)] = value
    return found


def override(params: dict[str, Any], overrides: Mapping[str, Any], origin: str, name: str = PARAMS) -> None:
    """Replace ``group.key`` values in the content of the parameter file ``name``.

    Raises:
        ConfigError: a key is not in the file.
    """
    for path, value in overrides.items():
        place = _place(params, path)
        if place is None:
            raise ConfigError(f"{origin}: {path} is no parameter of {name}")
        place[0][place[1]] = value


def overridden(params: str, overrides: Mapping[str, Any], name: str = PARAMS) -> str:
    """The text of a parameter file with ``group.key`` values replaced; comments and order stay."""
    yaml = YAML()
    yaml.width = 4096
    yaml.preserve_quotes = True
    values = yaml.load(params)
    override(values, overrides, name, name)
    written = io.StringIO()
    yaml.dump(values, written)
    return written.getvalue()


def _place(params: dict[str, Any], path: str) -> tuple[dict[str, Any], str] | None:
    """The group and the key in it that ``group.key`` names; None where there is no such parameter."""
    *parents, last = path.split(".")
    group: Any = params
    for parent in parents:
        group = group.get(parent) if isinstance(group, dict) else None
    return (group, last) if isinstance(group, dict) and last in group else None


def _seed_of(target: str | None, values: Mapping[str, dict[str, Any]]) -> str | None:
    """The seed of a baseline's own training, which follows that of the study."""
    if target is None:
        return None
    name = target.removesuffix("_score")
    group = values[BASELINE_PARAMS].get(name)
    return f"{name}.seed" if isinstance(group, dict) and "seed" in group else None
