"""The repository as a study found it, git worktrees in which its rows are made, and the experiments that they leave.

A worktree is a checkout in a folder of its own; it stays, one for each row that is made at a time. DVC records an
experiment as a commit below ``refs/exps/``. Here git makes that commit: `dvc exp run` and `dvc exp save` work through
references that all worktrees of a repository share, so two at a time, or one that is killed, would mix up experiments.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable, Iterator
from configparser import RawConfigParser
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import JsonValue
from ruamel.yaml import YAML

from pacer.core.errors import ConfigError
from pacer.core.io import read_json, write_json, write_text
from pacer.studies.dvc import output_of
from pacer.studies.plan import Run, all_stages, overridden

LOCK = "dvc.lock"


def git(folder: Path, *arguments: str) -> str:
    """What ``git ARGUMENTS`` prints in ``folder``; a PacerError says why it failed."""
    return output_of(folder, "git", *arguments)


class Repository:
    """The repository ``root`` with its edits; ``head`` is the commit that they are edits of."""

    def __init__(self, root: Path):
        self.root = root.resolve()
        self.head = git(root, "rev-parse", "HEAD").strip()

    @cached_property
    def commit(self) -> str:
        """Git's name for the files that it knows, as they were when this was first asked for."""
        git(self.root, "update-index", "-q", "--refresh")  # else the files of a copied repository look changed
        return git(self.root, "stash", "create").strip() or self.head

    @cached_property
    def cache(self) -> Path:
        """The folder of DVC's cache."""
        return (self.root / output_of(self.root, "dvc", "cache", "dir").strip()).resolve()

    def read(self, path: str, commit: str = "") -> str:
        """The text of a file, as it is now or in ``commit``."""
        return git(self.root, "show", f"{commit or self.commit}:{path}")

    def hashes(self, paths: Collection[str]) -> dict[str, str]:
        """Git's name for the content of files and folders.

        Raises:
            PacerError: git does not know one of them, or a file below one.
        """
        if not paths:
            return {}
        if unknown := git(self.root, "ls-files", "--others", "--exclude-standard", "--", *paths).splitlines():
            raise ConfigError(f"{unknown[0]}, which a row is made with, is not known to git; `git add` it")
        names = git(self.root, "rev-parse", *(f"{self.commit}:{path}" for path in paths)).split()
        return dict(zip(paths, names, strict=True))

    def experiments(self) -> dict[str, str]:
        """Name of an experiment (`dvc exp list --all-commits`) -> its reference."""
        references = git(self.root, "for-each-ref", "--format=%(refname)", "refs/exps").split()
        return {parts[4]: "/".join(parts) for ref in references if len(parts := ref.split("/")) == 5}


class Worktree:
    """A checkout of ``repository`` in ``folder``; DVC works in its ``tree``, with the user's cache.

    Args:
        stages: folder of what ``dvc.lock`` says of a stage, by the stage's key. The run cache gives back most stages,
            but none whose outs persist.
    """

    def __init__(self, repository: Repository, folder: Path, stages: Path):
        self._repository, self._folder, self._stages = repository, folder, stages
        self.tree = folder / "tree"
        #: Says which row is being made, and stays when that is stopped.
        self.marker = folder / "row.json"

    def prepare(self, run: Run) -> None:
        """Bring the files that git knows to what the study found, with the parameters of ``run``.

        What stages have left stays, half-trained state too.
        """
        root, commit = self._repository.root, self._repository.commit
        link = self.tree / ".git"
        worktrees = git(root, "rev-parse", "--path-format=absolute", "--git-common-dir").strip() + "/worktrees/"
        # else it is not there, or the repository was moved or copied
        if link.is_file() and link.read_text(encoding="utf-8").startswith(f"gitdir: {worktrees}"):
            Path(git(self.tree, "rev-parse", "--absolute-git-dir").strip(), "index.lock").unlink(missing_ok=True)
            git(self.tree, "reset", "--hard", "--quiet", commit)
            git(self.tree, "clean", "-d", "--force", "--quiet")
        else:
            shutil.rmtree(self._folder, ignore_errors=True)
            git(root, "worktree", "add", "-f", "-f", "--detach", str(self.tree), commit)
        for file in run.values:
            write_text(self.tree / file, overridden(self._repository.read(file), file, run.overrides))
        self._configure()
        self._link(run.values.values())

    def adopt(self, run: Run) -> list[str]:
        """Record in ``dvc.lock`` what is known of the stages of a run; the names of those that are new to it."""
        lock = self._lock()
        known = {stage: read_json(self._entry(run, stage)) for stage in run.keys if self.knows(run, [stage])}
        new = [stage for stage, entry in known.items() if lock.get(stage) != entry]
        if new:
            with (self.tree / LOCK).open("w", encoding="utf-8") as written:
                YAML(typ="safe").dump({"schema": "2.0", "stages": lock | known}, written)
        return new

    def knows(self, run: Run, stages: Iterable[str]) -> bool:
        """Whether all these stages of a run have been made, here or elsewhere."""
        return all(self._entry(run, stage).is_file() for stage in stages)

    def record(self, run: Run, stages: Iterable[str]) -> None:
        """Make these stages of a run, which have been made here, known to others."""
        lock = self._lock()
        for stage in stages:
            if stage in lock:
                write_json(self._entry(run, stage), lock[stage])

    def _entry(self, run: Run, stage: str) -> Path:
        return self._stages / f"{run.keys[stage]}.json"

    def _lock(self) -> dict[str, Any]:
        path = self.tree / LOCK
        return YAML(typ="safe").load(path.read_text(encoding="utf-8"))["stages"] if path.exists() else {}

    def _configure(self) -> None:
        config, folder = RawConfigParser(strict=False), self.tree / ".dvc"
        config.read(self._repository.root / ".dvc" / "config.local", encoding="utf-8")
        config.read_dict({"cache": {"dir": self._repository.cache}})
        with (folder / "config.local").open("w", encoding="utf-8") as written:
            config.write(written)
        (folder / "tmp" / "rwlock").unlink(missing_ok=True)  # of a DVC that was killed

    def _link(self, values: Iterable[JsonValue]) -> None:
        """Make the user's own files that parameters name by a relative path be found here.

        Raises:
            ConfigError: a path leads so far out of the repository that it cannot be given here, or DVC would write
                through it into the user's outputs.
        """
        root = self._repository.root
        outs = [(root / out).resolve() for stage in all_stages(self._repository.read).values() for out in stage.outs]
        for name in _texts(values):
            here, there = Path(os.path.normpath(self.tree / name)), root / name
            own = there.resolve()
            if name in ("", ".") or os.path.isabs(name) or not there.exists() or own in outs:
                continue
            if not here.is_relative_to(self._folder):
                raise ConfigError(f"rows are made elsewhere; write {name} in the parameters as {own}")
            if any(out.is_relative_to(own) or own.is_relative_to(out) for out in outs):
                raise ConfigError(f"{name} holds outputs of the pipeline; write it as an absolute path")
            if not os.path.lexists(here):
                here.parent.mkdir(parents=True, exist_ok=True)
                here.symlink_to(there)

    def save(self, run: Run) -> None:
        """Record the files that git knows, with scores and ``dvc.lock``, as the experiment of a run."""
        plain = [out for stage in run.stages.values() for out in stage.outs if not stage.outs[out].get("cache", True)]
        git(self.tree, "add", "--update")
        # nothing else that is new: cases have report texts
        made = [path for path in (LOCK, f"baselines/{LOCK}", *plain) if (self.tree / path).exists()]
        git(self.tree, "add", "--", *made)
        files, head = git(self.tree, "write-tree").strip(), self._repository.head
        author = ("-c", "user.name=pacer", "-c", "user.email=pacer@localhost")
        commit = git(self.tree, *author, "commit-tree", files, "-p", head, "-m", f"pacer study: {run.name}").strip()
        git(self.tree, "update-ref", f"refs/exps/{head[:2]}/{head[2:]}/{run.name}", commit)


def _texts(values: Iterable[JsonValue]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict | list):
            yield from _texts(value.values() if isinstance(value, dict) else value)
