"""What ``dvc.yaml``, and that of the baselines, say about the stages that a score comes from: code, outs, roots."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from ruamel.yaml import YAML, YAMLError

from pacer.core.errors import ConfigError
from pacer.core.io import files_below, hash_file, hash_json

DEFINITION, LOCK, PARAMS = "dvc.yaml", "dvc.lock", "params.yaml"
#: The last stage of a run: what comes after it is no part of a score.
TARGET = "score"
#: Folder of the pipeline that a plain `dvc repro` leaves alone; it has a lock and parameters of its own.
BASELINES = "baselines"
BASELINE_DEFINITION, BASELINE_LOCK, BASELINE_PARAMS = (f"{BASELINES}/{name}" for name in (DEFINITION, LOCK, PARAMS))
#: What a stage leaves that is a score.
SCORES = "scores.json"


@dataclass(frozen=True)
class Pipeline:
    """The stages up to ``target``, as DVC names it: their commands, ``code`` (deps that no stage makes), ``plain``
    (outs that DVC does not cache) and ``roots`` (stages that read no other stage's outs). ``scores``: folder of the
    target's scores. ``files``: parameter files of the stages. ``locks``: where DVC records them."""

    root: Path
    target: str
    commands: dict[str, str]
    code: tuple[str, ...]
    plain: tuple[str, ...]
    roots: tuple[str, ...]
    scores: str
    files: tuple[str, ...] = (PARAMS,)
    locks: tuple[str, ...] = (LOCK,)

    @classmethod
    def read(cls, root: Path, target: str | None = None) -> Pipeline:
        """Read ``root/dvc.yaml``, and that of the baselines where ``target`` is one of their stages.

        Args:
            target: a stage of the baselines; None: :data:`TARGET` of the pipeline.

        Raises:
            ConfigError: a file is missing or has no such stage, or the stage leaves no scores.
        """
        stages = {name: _in_root(stage, "") for name, stage in _stages(root / DEFINITION).items()}
        last = TARGET
        if target is not None:
            others = _stages(root / BASELINE_DEFINITION)
            if target not in others:
                ends = ", ".join(name for name, stage in others.items() if _scores(_in_root(stage, BASELINES)))
                raise ConfigError(f"{target} is no stage of {BASELINE_DEFINITION}; stages that end in scores: {ends}")
            stages |= {f"{BASELINE_DEFINITION}:{name}": _in_root(stage, BASELINES) for name, stage in others.items()}
            last = f"{BASELINE_DEFINITION}:{target}"
        if last not in stages:
            raise ConfigError(f"{root / DEFINITION} has no stage {last}; run this from the root of the repository")
        makers = {path: name for name, stage in stages.items() for path in stage["outs"]}

        def maker(dependency: str) -> str | None:
            path = PurePosixPath(dependency)
            return next((makers[str(p)] for p in (path, *path.parents) if str(p) in makers), None)

        needed: dict[str, None] = {}
        todo = [last]
        while todo:
            name = todo.pop()
            needed[name] = None
            made_by = {maker(dependency) for dependency in stages[name]["deps"]}
            todo += [other for other in made_by if other is not None and other not in needed]
        code = {d for name in needed for d in stages[name]["deps"] if maker(d) is None}
        plain = [
            path for name in needed for path, options in stages[name]["outs"].items() if options.get("cache") is False
        ]
        roots = [name for name in needed if all(maker(d) is None for d in stages[name]["deps"])]
        scores = _scores(stages[last])
        if scores is None:
            raise ConfigError(f"the stage {last} makes no {SCORES}; a row needs a stage that scores")
        more = {} if target is None else {"files": (PARAMS, BASELINE_PARAMS), "locks": (LOCK, BASELINE_LOCK)}
        return cls(
            root,
            last,
            {name: stages[name]["cmd"] for name in sorted(needed)},
            tuple(sorted(code)),
            tuple(sorted(plain)),
            tuple(sorted(roots)),
            scores,
            **more,
        )

    def code_hash(self) -> str:
        """Content of all code that the stages use, and their commands."""
        contents: dict[str, str] = {}
        for dependency in self.code:
            path = self.root / dependency
            files = files_below(path) if path.is_dir() else [path]
            for file in files:
                if "__pycache__" not in file.parts and file.suffix != ".pyc":
                    contents[file.relative_to(self.root).as_posix()] = hash_file(file)
        return hash_json({"code": contents, "commands": self.commands})

    def source_states(self, lock: Path) -> dict[str, dict[str, Any]]:
        """What ``dvc.lock`` records of the roots: ``from`` (hash of command, code and parameters), ``made`` (hashes).

        The roots alone read files that DVC does not know, so the same ``from`` with another ``made`` says that the
        corpus itself has changed.
        """
        stages = _read_yaml(lock).get("stages", {}) if lock.exists() else {}
        return {
            name: {
                "from": hash_json({key: stages[name].get(key) for key in ("cmd", "deps", "params")}),
                "made": {out["path"]: out.get("md5") for out in stages[name].get("outs", [])},
            }
            for name in self.roots
            if name in stages
        }


def _in_root(stage: dict, folder: str) -> dict[str, Any]:
    """Command, deps, and outs with their options of a stage; paths start at the root."""
    start = posixpath.join(folder, stage.get("wdir", "."))

    def path(name: str) -> str:
        return posixpath.normpath(posixpath.join(start, name))

    outs: dict[str, dict] = {}
    for entry in [*stage.get("outs", []), *stage.get("metrics", []), *stage.get("plots", [])]:
        outs |= {entry: {}} if isinstance(entry, str) else entry
    return {
        "cmd": stage["cmd"],
        "deps": [path(name) for name in stage.get("deps", [])],
        "outs": {path(name): options for name, options in outs.items()},
    }


def _scores(stage: dict) -> str | None:
    """The folder of the scores that a stage makes."""
    return next((str(PurePosixPath(path).parent) for path in stage["outs"] if PurePosixPath(path).name == SCORES), None)


def _stages(path: Path) -> dict[str, dict]:
    return _read_yaml(path).get("stages", {})


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        return YAML(typ="safe").load(path.read_text(encoding="utf-8")) or {}
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist; run this from the root of the repository") from None
    except YAMLError as error:
        raise ConfigError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None
