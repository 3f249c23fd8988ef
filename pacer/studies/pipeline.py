"""What ``dvc.yaml`` says about the stages that a score comes from: code, outs, roots."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from ruamel.yaml import YAML, YAMLError

from pacer.core.errors import ConfigError
from pacer.core.io import files_below, hash_file, hash_json

DEFINITION, LOCK, PARAMS = "dvc.yaml", "dvc.lock", "params.yaml"
#: The last stage of a run: what comes after it is no part of a score.
TARGET = "score"


@dataclass(frozen=True)
class Pipeline:
    """The stages up to :data:`TARGET`: their commands, ``code`` (deps that no stage makes), ``plain`` (outs that DVC
    does not cache) and ``roots`` (stages that read no other stage's outs)."""

    root: Path
    commands: dict[str, str]
    code: tuple[str, ...]
    plain: tuple[str, ...]
    roots: tuple[str, ...]

    @classmethod
    def read(cls, root: Path) -> Pipeline:
        """Read ``root/dvc.yaml``.

        Raises:
            ConfigError: the file is missing or has no stage :data:`TARGET`.
        """
        stages = _read_yaml(root / DEFINITION).get("stages", {})
        if TARGET not in stages:
            raise ConfigError(f"{root / DEFINITION} has no stage {TARGET}; run this from the root of the repository")
        makers = {path: name for name, stage in stages.items() for path in _outs(stage)}

        def maker(dependency: str) -> str | None:
            path = PurePosixPath(dependency)
            return next((makers[str(p)] for p in (path, *path.parents) if str(p) in makers), None)

        needed: dict[str, None] = {}
        todo = [TARGET]
        while todo:
            name = todo.pop()
            needed[name] = None
            made_by = {maker(dependency) for dependency in stages[name].get("deps", [])}
            todo += [other for other in made_by if other is not None and other not in needed]
        code = {d for name in needed for d in stages[name].get("deps", []) if maker(d) is None}
        plain = [path for name in needed for path, options in _outs(stages[name]).items()
                 if options.get("cache") is False]  # fmt: skip
        roots = [name for name in needed if all(maker(d) is None for d in stages[name].get("deps", []))]
        return cls(root, {name: stages[name]["cmd"] for name in sorted(needed)}, tuple(sorted(code)),
                   tuple(sorted(plain)), tuple(sorted(roots)))  # fmt: skip

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
            name: {"from": hash_json({key: stages[name].get(key) for key in ("cmd", "deps", "params")}),
                   "made": {out["path"]: out.get("md5") for out in stages[name].get("outs", [])}}
            for name in self.roots if name in stages
        }  # fmt: skip


def _outs(stage: dict) -> dict[str, dict]:
    """Path -> options of everything that a stage makes."""
    found: dict[str, dict] = {}
    for entry in [*stage.get("outs", []), *stage.get("metrics", []), *stage.get("plots", [])]:
        found |= {entry: {}} if isinstance(entry, str) else entry
    return found


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        return YAML(typ="safe").load(path.read_text(encoding="utf-8")) or {}
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist; run this from the root of the repository") from None
    except YAMLError as error:
        raise ConfigError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None
