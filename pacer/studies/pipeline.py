"""What ``dvc.yaml``, that of the baselines, and ``dvc.lock`` say about the stages that a score comes from."""

from __future__ import annotations

import hashlib
import json
import posixpath
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from ruamel.yaml import YAML, YAMLError

from pacer.core.errors import ConfigError
from pacer.core.io import files_below

DEFINITION, LOCK, PARAMS = "dvc.yaml", "dvc.lock", "params.yaml"
#: The last stage of a run: what comes after it is no part of a score.
TARGET = "score"
#: Folder of the pipeline that a plain `dvc repro` leaves alone; it has a lock and parameters of its own.
BASELINES = "baselines"
BASELINE_DEFINITION, BASELINE_LOCK, BASELINE_PARAMS = (f"{BASELINES}/{name}" for name in (DEFINITION, LOCK, PARAMS))
#: What a stage leaves that is a score.
SCORES = "scores.json"
#: Group that holds the seed of a run: stages before the first that reads it prepare data.
TRAINING = "train"


class Stage(NamedTuple):
    """A stage, as DVC names it; all paths start at the root. ``params``: file -> keys that the stage reads."""

    name: str
    cmd: str
    deps: tuple[str, ...]
    params: dict[str, list[str]]
    outs: tuple[str, ...]


#: What ``dvc.lock`` records of each stage: ``cmd``, ``params`` by file, ``deps`` and ``outs`` with their hashes.
Lock = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Pipeline:
    """The stages up to ``target``, in an order in which they can run.

    Attributes:
        makers: out -> stage. data: stages that prepare data; no seed of a study reaches them.
        scores: folder of the target's scores. files: parameter files. locks: where DVC records the stages.
    """

    target: str
    stages: tuple[Stage, ...]
    makers: dict[str, str]
    data: frozenset[str]
    scores: str
    files: tuple[str, ...]
    locks: tuple[str, ...]

    @classmethod
    def read(cls, root: Path, target: str | None = None) -> Pipeline:
        """Read ``root/dvc.yaml``, and that of the baselines where ``target`` is one of their stages.

        Args:
            target: a stage of the baselines; None: :data:`TARGET` of the pipeline.

        Raises:
            ConfigError: a file is missing or has no such stage, or the stage leaves no scores.
        """
        stages = _stages(root, DEFINITION)
        own, last = set(stages), TARGET
        if target is not None:
            others, last = _stages(root, BASELINE_DEFINITION), f"{BASELINE_DEFINITION}:{target}"
            if last not in others:
                ends = ", ".join(name.rpartition(":")[2] for name, stage in others.items() if _scores(stage))
                raise ConfigError(f"{target} is no stage of {BASELINE_DEFINITION}; stages that end in scores: {ends}")
            stages |= others
        if last not in stages:
            raise ConfigError(f"{root / DEFINITION} has no stage {last}; run this from the root of the repository")
        makers = {path: name for name, stage in stages.items() for path in stage.outs}
        before = {
            name: {makers[out] for dep in stage.deps if (out := _out_of(dep, makers))} for name, stage in stages.items()
        }
        needed, todo = {last}, [last]
        while todo:
            new = before[todo.pop()] - needed
            needed |= new
            todo += new
        order = [name for name in TopologicalSorter(before).static_order() if name in needed]
        data: set[str] = set()
        for name in order:
            trains = any(key.split(".")[0] == TRAINING for key in stages[name].params.get(PARAMS, []))
            if name in own and not trains and before[name] <= data:
                data.add(name)
        scores = _scores(stages[last])
        if scores is None:
            raise ConfigError(f"the stage {last} makes no {SCORES}; a row needs a stage that scores")
        files, locks = ((PARAMS,), (LOCK,)) if target is None else ((PARAMS, BASELINE_PARAMS), (LOCK, BASELINE_LOCK))
        return cls(last, tuple(stages[name] for name in order), makers, frozenset(data), scores, files, locks)

    def out_of(self, dependency: str) -> str | None:
        """The out that a dependency is, or lies in; None for code."""
        return _out_of(dependency, self.makers)

    @property
    def code(self) -> list[str]:
        """What the stages read and none of them makes."""
        return sorted({dep for stage in self.stages for dep in stage.deps if self.out_of(dep) is None})


def _out_of(dependency: str, outs: dict[str, str]) -> str | None:
    path = PurePosixPath(dependency)
    return next((str(parent) for parent in (path, *path.parents) if str(parent) in outs), None)


def _stages(root: Path, definition: str) -> dict[str, Stage]:
    folder = posixpath.dirname(definition)
    prefix = f"{definition}:" if folder else ""
    found = {}
    for name, stage in read_yaml(root / definition).get("stages", {}).items():

        def path(relative: str, start: str = posixpath.join(folder, stage.get("wdir", "."))) -> str:
            return posixpath.normpath(posixpath.join(start, relative))

        params: dict[str, list[str]] = {}
        for entry in stage.get("params", []):
            for file, keys in (entry if isinstance(entry, dict) else {PARAMS: [entry]}).items():
                params.setdefault(path(file), []).extend(keys)
        outs = [*stage.get("outs", []), *stage.get("metrics", []), *stage.get("plots", [])]
        found[prefix + name] = Stage(
            prefix + name,
            stage["cmd"],
            tuple(path(dep) for dep in stage.get("deps", [])),
            params,
            tuple(path(next(iter(out)) if isinstance(out, dict) else out) for out in outs),
        )
    return found


def _scores(stage: Stage) -> str | None:
    """The folder of the scores that a stage makes."""
    return next((posixpath.dirname(path) for path in stage.outs if posixpath.basename(path) == SCORES), None)


def read_lock(path: Path) -> Lock:
    """What a ``dvc.lock`` records; nothing where there is none."""
    return read_yaml(path).get("stages", {}) if path.exists() else {}


def read_yaml(path: Path) -> dict[str, Any]:
    """A mapping from a YAML file.

    Raises:
        ConfigError: the file is missing or not valid.
    """
    try:
        return YAML(typ="safe").load(path.read_text(encoding="utf-8")) or {}
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist; run this from the root of the repository") from None
    except YAMLError as error:
        raise ConfigError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None


def code_hash(root: Path, path: str) -> str:
    """The hash that DVC has for a file or a folder; byte-code, which `.dvcignore` names, is left out.

    Raises:
        ConfigError: there is no such file.
    """
    place = root / path
    if not place.is_dir():
        if not place.is_file():
            raise ConfigError(f"{place}, which a stage of {DEFINITION} needs, does not exist")
        return hashlib.md5(place.read_bytes(), usedforsecurity=False).hexdigest()
    entries = [
        {"md5": code_hash(place, name), "relpath": name}
        for name in sorted(file.relative_to(place).as_posix() for file in files_below(place))
        if "__pycache__" not in name and not name.endswith(".pyc")
    ]
    return hashlib.md5(json.dumps(entries, sort_keys=True).encode(), usedforsecurity=False).hexdigest() + ".dir"
