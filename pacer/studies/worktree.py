"""Checkouts that rows are made in: the user's code as it was when the study began, and DVC's cache of the user's own.

A checkout is a git worktree in a folder of its own. It stays until its row is done, so that a phase that was
interrupted goes on where its half-trained state lies.
"""

from __future__ import annotations

import os
import posixpath
import shutil
import subprocess
from collections.abc import Collection, Iterable, Iterator, Mapping
from configparser import RawConfigParser
from pathlib import Path
from typing import NamedTuple

from pydantic import JsonValue
from ruamel.yaml import YAML

from pacer.core.errors import ConfigError, DataError, PacerError
from pacer.core.io import write_text
from pacer.studies.pipeline import LOCK, Lock, code_hash, read_lock


class Snapshot(NamedTuple):
    """The commit of a working tree, git's name of all its files as they are, and those that differ from the commit."""

    commit: str
    files: str
    changed: tuple[str, ...]

    @classmethod
    def take(cls, root: Path, state: Path, paths: Iterable[str]) -> Snapshot:
        """Record the tracked files of ``root``, and what is new below ``paths``; nothing that git ignores."""
        index = {"GIT_INDEX_FILE": str(state / "index")}
        _git(root, "read-tree", "HEAD", **index)
        _git(root, "add", "--update", ".", **index)
        _git(root, "add", "--all", *(path for path in paths if (root / path).exists()), **index)
        commit, files = _git(root, "rev-parse", "HEAD"), _git(root, "write-tree", **index)
        changed = _git(root, "diff-tree", "-r", "--name-only", "--relative", commit, files)
        return cls(commit, files, tuple(changed.splitlines()))


class Worktree:
    """The checkout called ``name`` that stands for the repository ``repository``."""

    def __init__(self, repository: Path, state: Path, name: str):
        self._repository, self._folder = repository, state / "worktrees" / name
        self._tree = self._folder / "tree"
        self.root = self._tree / _git(repository, "rev-parse", "--show-prefix")

    def prepare(self, snapshot: Snapshot, cache: str, files: Mapping[str, str]) -> None:
        """Bring the checkout to ``snapshot`` with a row's parameter files; what stages have left in it stays.

        Args:
            cache: folder of DVC's cache.
        """
        if not self._refreshed(snapshot):
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder.mkdir(parents=True)
            arguments = ("--force", "--detach", "--no-checkout", str(self._tree), snapshot.commit)
            _git(self._repository, "worktree", "add", *arguments)
            self._refreshed(snapshot)
        own = self.root / ".dvc"
        shutil.rmtree(own / "tmp", ignore_errors=True)  # locks of a DVC that was killed
        own.mkdir(exist_ok=True)
        config = RawConfigParser(strict=False)
        config.read(self._repository / ".dvc" / "config.local", encoding="utf-8")
        config.read_dict({"cache": {"dir": cache}, "core": {"site_cache_dir": str(self._folder / "site")}})
        with (own / "config.local").open("w", encoding="utf-8") as written:
            config.write(written)
        for name, text in files.items():
            write_text(self.root / name, text)

    def adopt(self, data: Lock) -> bool:
        """Record in ``dvc.lock`` what others have made of the same data; False where it is there already."""
        path = self.root / LOCK
        lock = read_lock(path)
        if lock | data == lock:
            return False
        with path.open("w", encoding="utf-8") as written:
            YAML(typ="safe").dump({"schema": "2.0", "stages": lock | data}, written)
        return True

    def link(self, values: Iterable[JsonValue], outs: Collection[str]) -> None:
        """Make the user's own files that parameters name by a relative path be found in the checkout.

        Raises:
            ConfigError: a path leads so far out of the repository that it cannot be given here.
        """
        for name in _texts(values):
            here, there = posixpath.normpath(self.root / name), self._repository / name
            inside = any(Path(posixpath.normpath(name)).is_relative_to(out) for out in outs)
            if not name or os.path.isabs(name) or inside or len(name) > 1000 or not there.exists():
                continue
            if not Path(here).is_relative_to(self._folder):
                raise ConfigError(
                    f"studies run their rows elsewhere; write {name} in the parameters as {there.resolve()}"
                )
            if not os.path.lexists(here):
                Path(here).parent.mkdir(parents=True, exist_ok=True)
                os.symlink(there.absolute(), here)

    def refuse_other_code(self, hashes: Mapping[str, str]) -> None:
        """Make sure that the checkout has the code that the keys stand for.

        Raises:
            DataError: git does not know a file, or it was edited just now.
        """
        for path, known in hashes.items():
            if code_hash(self.root, path) != known:
                raise DataError(
                    f"{path} holds files that git ignores, or it was edited just now; commit them or call again"
                )

    def remove(self) -> None:
        """Delete the checkout and its folder."""
        _git(self._repository, "worktree", "remove", "--force", str(self._tree))
        shutil.rmtree(self._folder)

    def _refreshed(self, snapshot: Snapshot) -> bool:
        """Bring the files that git knows to ``snapshot``; False where there is no checkout, or a broken one."""
        if not (self._tree / ".git").is_file():  # git would take the user's own working tree for it
            return False
        try:
            Path(_git(self._tree, "rev-parse", "--absolute-git-dir"), "index.lock").unlink(missing_ok=True)
            _git(self._tree, "update-ref", "--no-deref", "HEAD", snapshot.commit)
            _git(self._tree, "read-tree", "-u", "--reset", snapshot.files)
        except PacerError:
            return False
        return True


def checkouts(repository: Path, state: Path) -> list[Path]:
    """The roots of all checkouts that are there."""
    prefix = _git(repository, "rev-parse", "--show-prefix")
    return [tree / prefix for tree in state.glob("worktrees/*/tree")]


def _texts(values: Iterable[JsonValue]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict | list):
            yield from _texts(value.values() if isinstance(value, dict) else value)


def _git(folder: Path, *arguments: str, **variables: str) -> str:
    foreign = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")  # of a hook that called
    given = [f"{name}={value}" for name, value in variables.items()]
    command = ["env", *(f"--unset={name}" for name in foreign), *given, "git", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PacerError(
            f"git {arguments[0]} failed: {done.stderr.strip()}; studies need a git repository with a commit"
        )
    return done.stdout.strip()
