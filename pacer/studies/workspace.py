"""The user's workspace, put back as it was before a study, however the study ended.

A run writes its parameters into ``params.yaml`` (and the baselines' own), and DVC writes locks, metrics and outs.
Before the first run, what DVC cannot give back is copied to a folder on disk; afterwards those files are put back and
``dvc checkout`` brings the outs. A study that was killed leaves the folder, and the next command puts it back first.

While DVC names an experiment (under a second per run) it stashes all changes of tracked files and detaches HEAD. The
copy therefore holds changed files of the user too, and the branch.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from pacer.core.errors import ConfigError, PacerError
from pacer.core.io import read_json, whole_directory, write_json, write_text
from pacer.studies.pipeline import LOCK, Pipeline

#: In the backup: the copies, what they are, and the parameters of the last run.
_FILES, _NOTE, _ROW = "files", "note.json", "row"


class Workspace:
    """The files of ``root`` that a study writes by running ``pipelines``, with their copy in ``state/backup``."""

    def __init__(self, root: Path, state: Path, pipelines: Iterable[Pipeline]):
        self._root, self._backup = root, state / "backup"
        pipelines = list(pipelines)
        self._parameters = list(dict.fromkeys(name for pipeline in pipelines for name in pipeline.files))
        self._written = tuple(
            dict.fromkeys(
                name for pipeline in pipelines for name in (*pipeline.files, *pipeline.locks, *pipeline.plain)
            )
        )

    @property
    def saved(self) -> bool:
        """Is there a copy that was not put back?"""
        return self._backup.is_dir()

    def save(self) -> None:
        """Copy what a study writes and what the user has changed since the last commit."""
        changed = self._git("diff", "--relative", "--name-only", "--diff-filter=AM", "HEAD").splitlines()
        mine = [name for name in changed if not any(Path(name).is_relative_to(path) for path in self._written)]
        with whole_directory(self._backup) as folder:
            for name in (*self._written, *mine):
                _copy(self._root / name, folder / _FILES / name)
            write_json(
                folder / _NOTE,
                {
                    "branch": self._branch(),
                    "written": list(self._written),
                    "parameters": self._parameters,
                    "changed": mine,
                },
            )

    def use(self, files: Mapping[str, str]) -> None:
        """Put the parameter files of a run in use."""
        for name, text in files.items():
            write_text(self._backup / _ROW / name, text)
            write_text(self._root / name, text)

    def edited(self) -> str | None:
        """A parameter file that is not as :meth:`use` left it."""
        rows = self._backup / _ROW
        return next(
            (name for name in self._parameters if (self._root / name).read_bytes() != (rows / name).read_bytes()), None
        )

    def refuse_edited(self) -> None:
        """Make sure that nobody has edited a parameter file since the study was killed.

        Raises:
            ConfigError: it is neither the study's, nor what it was before, nor the last commit's.
        """
        for name in read_json(self._backup / _NOTE)["parameters"]:
            if not (self._root / name).exists():
                continue
            current = (self._root / name).read_bytes()
            known = [
                path.read_bytes()
                for path in (self._backup / _FILES / name, self._backup / _ROW / name)
                if path.exists()
            ]
            if current not in known and current != self._committed(name):
                raise ConfigError(
                    f"{name} was edited after a study was killed. `pacer study restore` brings back the workspace from "
                    f"before the study, your edit excepted: copy it elsewhere first"
                )

    def restore(self, checkout: Callable[[], object]) -> None:
        """Put everything back and remove the copy.

        Args:
            checkout: makes DVC bring the outs of ``dvc.lock``.
        """
        note = read_json(self._backup / _NOTE)
        self._reattach(note["branch"])
        for name in note["written"]:
            _replace(self._backup / _FILES / name, self._root / name)
        for name in note["changed"]:
            path = self._root / name
            if path.is_file() and path.read_bytes() == self._committed(name):  # lost by the stash, not edited since
                _replace(self._backup / _FILES / name, path)
        if (self._root / LOCK).exists():  # without it nothing had ever been run: there is nothing to bring back
            checkout()
        removed = self._backup.with_name("backup.removed")
        shutil.rmtree(removed, ignore_errors=True)
        os.replace(self._backup, removed)
        shutil.rmtree(removed)

    def revision(self) -> tuple[str, bool]:
        """The commit, and whether tracked files other than those a study writes differ from it."""
        changed = self._git("diff", "--relative", "--name-only", "HEAD").splitlines()
        dirty = any(not any(Path(name).is_relative_to(path) for path in self._written) for name in changed)
        return self._git("rev-parse", "HEAD"), dirty

    def _branch(self) -> str | None:
        return self._git("symbolic-ref", "--quiet", "HEAD", check=False) or None

    def _reattach(self, branch: str | None) -> None:
        """A killed DVC may have left HEAD detached at the branch's own commit."""
        if branch is None or self._branch() is not None:
            return
        if self._git("rev-parse", "HEAD") == self._git("rev-parse", "--verify", branch, check=False):
            self._git("symbolic-ref", "HEAD", branch)
            self._git("reset", "--quiet")

    def _committed(self, name: str) -> bytes | None:
        shown = subprocess.run(["git", "show", f"HEAD:./{name}"], cwd=self._root, capture_output=True, check=False)
        return shown.stdout if shown.returncode == 0 else None

    def _git(self, *arguments: str, check: bool = True) -> str:
        done = subprocess.run(["git", *arguments], cwd=self._root, capture_output=True, text=True, check=False)
        if check and done.returncode:
            raise PacerError(
                f"git {' '.join(arguments)} failed: {done.stderr.strip()}; studies need a git repository with a commit"
            )
        return done.stdout.strip()


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    elif source.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)


def _replace(source: Path, target: Path) -> None:
    """Make ``target`` what ``source`` is, absent included."""
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    else:
        target.unlink(missing_ok=True)
    _copy(source, target)
