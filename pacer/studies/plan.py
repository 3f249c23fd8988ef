"""The runs of a study: the parameters of every row and replicate, and the names of the experiments
that record them."""

import copy
import io
import json
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue
from ruamel.yaml import YAML

from pacer.config import Params, Strict, validated
from pacer.config.baselines import BaselineParams
from pacer.core.errors import ConfigError
from pacer.core.io import hash_json, parse_yaml
from pacer.studies.repository import Repository
from pacer.studies.study import BASELINE_KEY, Overrides, Study

PARAMS, BASELINE_PARAMS = "params.yaml", BASELINE_KEY.removesuffix(":")
DEFINITION, BASELINE_DEFINITION = "dvc.yaml", "baselines/stages.yaml"
#: The last stage of a run of the pipeline; later stages do not affect scores.
TARGET = "score"
SCORES = "scores.json"
#: What every run depends on.
CODE = ("pacer", "stages")
#: Parameter file -> its schema.
KINDS: dict[str, type[Strict]] = {PARAMS: Params, BASELINE_PARAMS: BaselineParams}


@dataclass(frozen=True)
class Run:
    """One row, by its index in the study, with one replicate.

    ``name``: of the experiment; it ends in ``key``, the hash of parameters, stages and code, so
    runs with the same key are the same. ``target``: the stage that makes the scores, in the folder
    ``scores``. ``overrides``: changes to the current parameters. ``values``: the parameters with
    these changes, by file. ``outs``: what is put back from DVC's cache after a run in the
    workspace. ``pipeline``: the text of ``dvc.yaml`` that has the target; None: as it is.
    """

    row: int
    replicate: str
    name: str
    key: str
    target: str
    scores: str
    overrides: Overrides
    values: Mapping[str, Any]
    outs: list[str]
    pipeline: str | None

    @property
    def options(self) -> list[str]:
        """The options of ``dvc exp run`` that make this run."""
        changes = [f"{key}={json.dumps(value)}" for key, value in self.overrides.items()]
        return ["--name", self.name, *(part for text in changes for part in ("-S", text))]


def plan(study: Study, repository: Repository) -> list[Run]:
    """Return every run of a study, replicate by replicate in row order, without rows that lack what
    they need. Raises a ConfigError if a file or a row's parameters are invalid, or a target is not
    a stage that scores."""
    has_baselines = any(row.target for row in study.rows)
    files = [PARAMS, BASELINE_PARAMS] if has_baselines else [PARAMS]
    in_use = {file: parse_yaml((repository.root / file).read_text("utf-8")) for file in files}
    pipelines = {
        row.target: _Pipeline(repository, row.target) for row in study.rows if row.files is None
    }
    code = repository.git("rev-parse", *(f"HEAD:{folder}" for folder in CODE))
    runs = []
    for label in study.labels:
        for place, row in enumerate(study.rows):
            origin = f"study {study.name}, row {row.name}"
            if row.files is not None or any(
                group[key] is None for group, key in (_place(in_use, k, origin) for k in row.needs)
            ):
                continue
            values = copy.deepcopy(in_use if row.target else {PARAMS: in_use[PARAMS]})
            overrides = study.overrides(place, label)
            for path, value in overrides.items():
                group, key = _place(values, path, origin)
                group[key] = value
            for file, content in values.items():
                validated(content, origin, KINDS[file])
            pipeline = pipelines[row.target]
            key = hash_json([pipeline.target, pipeline.stages, code, values])[:10]
            words = [
                re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
                for text in (study.name, row.name, label)
            ]
            run = Run(
                row=place,
                replicate=label,
                name="-".join([*words, key]),
                key=key,
                target=pipeline.target,
                scores=pipeline.scores,
                overrides=overrides,
                values=values,
                outs=pipeline.outs,
                pipeline=pipeline.text,
            )
            runs.append(run)
    return runs


class _Pipeline:
    """The stages, with those of a ``baseline``, the target of its row, if one is named."""

    def __init__(self, repository: Repository, baseline: str | None):
        self.target, self.text = baseline or TARGET, None
        definition = parse_yaml((repository.root / DEFINITION).read_text("utf-8"))
        own = {*definition["stages"]}
        if baseline:
            added = (repository.root / BASELINE_DEFINITION).read_text("utf-8")
            definition["stages"] |= parse_yaml(added)["stages"]
            written = io.StringIO()
            YAML(typ="safe", pure=True).dump(definition, written)
            self.text = written.getvalue()
        #: Stage that makes scores -> their folder.
        scored = {}
        #: What studies put back from DVC's cache: of the user's own stages, as DVC then knows no
        #: others. Persistent outs stay: stages add to them.
        self.outs: list[str] = []
        for name, stage in definition["stages"].items():
            for entry in [*stage.get("outs", []), *stage.get("metrics", [])]:
                path, options = (
                    next(iter(entry.items())) if isinstance(entry, dict) else (entry, {})
                )
                if name in own and options.get("cache", True) and not options.get("persist"):
                    self.outs.append(path)
                if posixpath.basename(path) == SCORES:
                    scored[name] = posixpath.dirname(path)
        if self.target not in scored:
            raise ConfigError(
                f"stage {self.target} does not write {SCORES}; these stages do: {', '.join(scored)}"
            )
        self.scores = scored[self.target]
        self.stages = definition["stages"]


def _place(values: Mapping[str, Any], path: str, origin: str) -> tuple[dict[str, JsonValue], str]:
    """Return the group of the parameters that a key names, and the key in it."""
    file = BASELINE_PARAMS if path.startswith(BASELINE_KEY) else PARAMS
    *parents, last = path.removeprefix(BASELINE_KEY).split(".")
    group = values[file]
    for parent in parents:
        group = group.get(parent) if isinstance(group, dict) else None
    if not isinstance(group, dict) or last not in group:
        raise ConfigError(f"{origin}: {path} is not a parameter")
    return group, last
