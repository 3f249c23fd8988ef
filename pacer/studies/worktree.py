"""Git and DVC as studies call them: worktrees in which rows are made, the command ``dvc`` in them,
and experiments.

A worktree is a checkout of the repository, with the user's edits, in a separate folder. It is kept;
there is one for each row made at the same time. DVC runs so that neither it nor its stages outlive
the study. It records an experiment as a commit below ``refs/exps/``. Here git makes that commit.
`dvc exp run` and `dvc exp save` use references shared by all worktrees, so parallel or killed
commands would mix up experiments.
"""

import os
import posixpath
import re
import shutil
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from configparser import RawConfigParser
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import psutil
from pydantic import JsonValue
from ruamel.yaml import YAML

from pacer.core.errors import ConfigError, PacerError
from pacer.core.io import awaited, parse_yaml, read_json, write_json, write_text
from pacer.core.machine import core_count
from pacer.studies import plan

#: DVC's output for a stage that it runs, or finds in its run cache.
_STAGE = re.compile(r"(Running stage|Stage) '(.+)'(?::| is cached - skipping run)")
#: Environment variable of every process that a study starts: its working folder.
MARK = "PACER_STUDY_FOLDER"
#: Import the checkout's own code, not the installed package.
_WITH_CHECKOUT = 'PYTHONPATH="$0${PYTHONPATH:+:$PYTHONPATH}" exec "$@"'
#: Seconds that a process has to terminate by itself.
_GRACE = 1.0
LOCK = "dvc.lock"


@dataclass(frozen=True)
class MachineShare:
    """A run's share of the machine: names of GPUs, comma-separated, and numbers of cores; None: no
    restriction."""

    devices: str | None = None
    cores: tuple[int, ...] | None = None


def shares(devices: str | None, jobs: int) -> list[MachineShare]:
    """Divide the machine among ``jobs``; if there are fewer GPUs or cores than jobs, some jobs
    share one. ``devices``: names of GPUs, comma-separated; None: all GPUs of this machine."""
    if jobs == 1:
        return [MachineShare(devices)]
    names = devices.split(",") if devices else []
    if devices is None:
        with suppress(OSError, subprocess.CalledProcessError):
            command = ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"]
            names = subprocess.run(
                command, capture_output=True, text=True, check=True
            ).stdout.split()
    cores = (
        sorted(os.sched_getaffinity(0))[: core_count()] if hasattr(os, "sched_getaffinity") else []
    )
    return [
        MachineShare(
            ",".join(_share_of(names, job, jobs)) or None,
            tuple(_share_of(cores, job, jobs)) or None,
        )
        for job in range(jobs)
    ]


def _share_of(things: list, job: int, jobs: int) -> list:
    return things[job % len(things) :: jobs] if things else []


class Dvc:
    """DVC in worktrees; may be used from any number of threads."""

    def __init__(self) -> None:
        command = shutil.which("dvc")
        if command is None:
            raise ConfigError(
                "the command `dvc` is not on the PATH; add the environment's bin folder to it"
            )
        self._command, self._folders = command, set[Path]()
        self._starting, self._stopped = threading.Lock(), False

    def cache(self, root: Path) -> str:
        """Return the folder of the cache that the repository ``root`` uses."""
        return str((root / output_of(root, "dvc", "cache", "dir").strip()).resolve())

    def __call__(
        self,
        *arguments: str,
        folder: Path,
        log: Path,
        share: MachineShare,
        report: Callable[[str, bool], None],
    ) -> None:
        """Run ``dvc ARGUMENTS`` in ``folder`` and wait for its end; its output is appended to
        ``log``. ``report`` is called with each stage, and whether DVC restored it from its cache.
        Raises a PacerError if DVC failed (the message includes the end of its output), or the study
        was stopped."""
        variables = [f"{MARK}={folder}"] + [f"CUDA_VISIBLE_DEVICES={share.devices}"] * (
            share.devices is not None
        )
        last = deque[str](maxlen=20)
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as written:
            with self._starting:
                self.check_stopped()
                self._folders.add(folder)
                process = subprocess.Popen(
                    [
                        "env",
                        *variables,
                        "sh",
                        "-c",
                        _WITH_CHECKOUT,
                        str(folder),
                        self._command,
                        *arguments,
                    ],
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    encoding="utf-8",
                    errors="replace",
                    process_group=0,
                )
                if (
                    share.cores is not None
                ):  # else busy-waiting threads of parallel runs take five times as long
                    os.sched_setaffinity(process.pid, share.cores)
            with process:
                for line in process.stdout or ():
                    written.write(line)
                    written.flush()
                    last.append(line)
                    if match := _STAGE.search(line):
                        report(match[2], match[1] == "Stage")
        if process.returncode:
            raise PacerError(
                f"dvc {' '.join(arguments)} failed (exit code {process.returncode}); its full "
                f"output is in {log} and ends with:\n{''.join(last).rstrip()}"
            )

    def check_stopped(self) -> None:
        """Raise a :class:`PacerError` if the study was stopped."""
        if self._stopped:
            raise PacerError("the study was stopped")

    def stop(self) -> None:
        """End all processes, and do not start any more."""
        with self._starting:
            self._stopped = True
        for folder in self._folders:
            end_processes(folder)


def output_of(folder: Path, *command: str, remedy: str = "") -> str:
    """Return the output of a command of git or DVC. Raises a PacerError, which ends in ``remedy``,
    if it failed."""
    done = subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8", check=False)
    if done.returncode:
        raise PacerError(f"{' '.join(command[:3])} failed: {done.stderr.strip()}{remedy}")
    return done.stdout


def end_processes(folder: Path) -> None:
    """Terminate DVC and its stages in the worktrees below ``folder``, and kill any that remain
    after a second. Raises a PacerError if a process does not end, for example because a disk does
    not respond."""
    began = time.monotonic()
    while running := _processes(folder):
        waited = time.monotonic() - began
        if waited > 30 * _GRACE:
            raise PacerError(
                f"processes {sorted(process.pid for process in running)} did not stop; kill them "
                "manually"
            )
        for process in running:
            with suppress(psutil.NoSuchProcess):
                process.terminate() if waited < _GRACE else process.kill()
        time.sleep(0.1)


def _processes(folder: Path) -> set[psutil.Process]:
    """Return the processes that a study started below ``folder`` and that still run; zombies have
    no environment."""
    running = set()
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if Path(process.environ().get(MARK, "/")).is_relative_to(folder):
                running.add(process)
    return running


def results_folder(root: Path) -> Path:
    """Return the folder of tables, worktrees and files kept from runs; none of it is in git."""
    return root.resolve() / "studies" / "results"


class Repository:
    """The repository ``root`` with its edits; ``head`` is the commit they are based on."""

    def __init__(self, root: Path):
        self.root = root.resolve()
        self.head = git(root, "rev-parse", "HEAD").strip()

    def exclusive(self) -> AbstractContextManager[None]:
        """Hold a lock for commands of git that fail while another runs: some write the index, and
        the one that adds a worktree reads all others, of which one may be half-made."""
        return awaited(results_folder(self.root) / "git.lock", lambda tries: None)

    @cached_property
    def commit(self) -> str:
        """Commit with the tracked files, as they were when this was first read."""
        with (
            self.exclusive()
        ):  # without the first command, all files of a copied repository look changed
            git(self.root, "update-index", "-q", "--refresh")
            return git(self.root, "stash", "create").strip() or self.head

    def read(self, path: str, commit: str = "") -> str:
        """Return the text of a file, as it is now or in ``commit``."""
        return git(self.root, "show", f"{commit or self.commit}:{path}")

    def hashes(self, paths: Collection[str]) -> dict[str, str]:
        """Return git's hashes of files and folders. Raises a PacerError if one of them, or a part,
        is untracked."""
        if not paths:
            return {}
        if unknown := git(
            self.root, "ls-files", "--others", "--exclude-standard", "--", *paths
        ).splitlines():
            raise ConfigError(
                f"{unknown[0]}, which a row depends on, is not tracked by git; `git add` it"
            )
        names = git(self.root, "rev-parse", *(f"{self.commit}:{path}" for path in paths)).split()
        return dict(zip(paths, names, strict=True))

    def experiments(self) -> dict[str, str]:
        """Return the name of each experiment (`dvc exp list --all-commits`) -> its reference."""
        references = git(self.root, "for-each-ref", "--format=%(refname)", "refs/exps").split()
        return {
            parts[4]: "/".join(parts) for ref in references if len(parts := ref.split("/")) == 5
        }


class Worktree:
    """A checkout of ``repository`` in ``folder``; DVC works in its ``tree``, with the user's
    ``cache``. ``stages`` has the ``dvc.lock`` entries of stages by key: the run cache restores most
    stages, but none whose outs persist."""

    def __init__(self, repository: Repository, folder: Path, cache: str, stages: Path):
        self._repository, self._folder, self._cache, self._stages = (
            repository,
            folder,
            cache,
            stages,
        )
        self.tree = folder / "tree"
        #: Names the row that is being made; it remains if that is interrupted.
        self.marker = folder / "row.json"
        self._resumed = False

    def prepare(self, study: str, run: plan.Run) -> None:
        """Reset the tracked files, with the parameters and known stages of ``run``; outputs and
        half-trained state stay."""
        commit = self._repository.commit
        self._resumed = self.marker.is_file()
        with self._repository.exclusive():
            if not self._is_ours():
                shutil.rmtree(self._folder, ignore_errors=True)
                git(
                    self._repository.root,
                    "worktree",
                    "add",
                    "-f",
                    "-f",
                    "--detach",
                    str(self.tree),
                    commit,
                )
        Path(git(self.tree, "rev-parse", "--absolute-git-dir").strip(), "index.lock").unlink(
            missing_ok=True
        )
        git(self.tree, "reset", "--hard", "--quiet", commit)
        git(self.tree, "clean", "-d", "--force", "--quiet")
        write_json(self.marker, {"study": study, "experiment": run.name})
        for file, overrides in run.overrides.items():
            write_text(
                self.tree / file, plan.overridden(self._repository.read(file), overrides, file)
            )
        if plan.BASELINE_PARAMS in run.overrides:
            pipeline, baselines = map(
                self._repository.read, (plan.DEFINITION, plan.BASELINE_DEFINITION)
            )
            write_text(self.tree / plan.DEFINITION, plan.with_baselines(pipeline, baselines, run))
        self._configure()
        self._link(run)
        self.import_stages(run)

    def _is_ours(self) -> bool:
        """Return whether ``tree`` is a worktree of this repository, not of one that this was copied
        or moved from."""
        known = git(self._repository.root, "worktree", "list", "--porcelain").splitlines()
        if f"worktree {self.tree.resolve()}" not in known or not (self.tree / ".git").is_file():
            return False
        try:  # a kill may have left it half-made
            return bool(git(self.tree, "rev-parse", "--absolute-git-dir"))
        except PacerError:
            return False

    def outs_to_restore(self, run: plan.Run) -> list[str]:
        """Return what DVC may check out: all but files that an interrupted stage was appending to
        (paid answers)."""
        unfinished = [
            stage
            for stage in run.stages
            if self._resumed and not self.has_stages(run, [stage.name])
        ]
        persistent = {
            out
            for stage in unfinished
            for out, options in stage.outs.items()
            if options.get("persist")
        }
        return [out for out in run.outs if out not in persistent or not (self.tree / out).is_file()]

    def import_stages(self, run: plan.Run) -> bool:
        """Record in ``dvc.lock`` the known stages of a run; return False if nothing is new."""
        lock = self._lock()
        known = {
            stage: read_json(self._entry(run, stage))
            for stage in run.keys
            if self.has_stages(run, [stage])
        }
        if lock | known == lock:
            return False
        with (self.tree / LOCK).open("w", encoding="utf-8") as written:
            YAML(typ="safe", pure=True).dump({"schema": "2.0", "stages": lock | known}, written)
        return True

    def has_stages(self, run: plan.Run, stages: Iterable[str]) -> bool:
        """Return whether all these stages of a run have been made, here or elsewhere."""
        return all(self._entry(run, stage).is_file() for stage in stages)

    def record(self, run: plan.Run, stages: Iterable[str]) -> None:
        """Make these stages of a run, which were made here, known to other worktrees."""
        lock = self._lock()
        for stage in stages:
            if stage in lock:
                write_json(self._entry(run, stage), lock[stage])

    def _entry(self, run: plan.Run, stage: str) -> Path:
        return self._stages / f"{run.keys[stage]}.json"

    def _lock(self) -> dict[str, Any]:
        path = self.tree / LOCK
        return parse_yaml(path.read_text(encoding="utf-8"))["stages"] if path.exists() else {}

    def _configure(self) -> None:
        config, folder = RawConfigParser(strict=False), self.tree / ".dvc"
        config.read(self._repository.root / ".dvc" / "config.local", encoding="utf-8")
        config.read_dict({"cache": {"dir": self._cache}})
        with (folder / "config.local").open("w", encoding="utf-8") as written:
            config.write(written)
        (folder / "tmp" / "rwlock").unlink(missing_ok=True)  # left by a killed DVC

    def _link(self, run: plan.Run) -> None:
        """Link the user's files that parameters name by a relative path. DVC must not write into
        outputs by a link."""
        root = self._repository.root
        outs = [(root / out).resolve() for out in run.outs]
        for name in _texts(list(run.values.values())):
            path = posixpath.normpath(name)
            link, target = Path(posixpath.normpath(self.tree / path)), (root / path).resolve()
            is_output = any(plan.is_within(path, out) for out in run.outs)
            if path == "." or os.path.isabs(path) or is_output or not os.path.exists(target):
                continue
            holds_outs = any(
                out.is_relative_to(target) or target.is_relative_to(out) for out in outs
            )
            if holds_outs or not link.is_relative_to(self._folder):
                raise ConfigError(
                    f"rows run in a different folder, so {name} must be an absolute path: {target}"
                )
            if not os.path.lexists(link):
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(root / path)

    def save(self, run: plan.Run) -> None:
        """Record the tracked files, with scores and ``dvc.lock``, as the experiment of a run."""
        # without the stages of baselines
        git(self.tree, "checkout", "--quiet", self._repository.commit, "--", plan.DEFINITION)
        name, new = (
            run.name,
            git(self.tree, "ls-files", "--others", "--exclude-standard").splitlines(),
        )
        git(self.tree, "add", "--update")
        # no other new files: cases contain report texts
        known = [
            LOCK,
            *(out for out, options in run.outs.items() if not options.get("cache", True)),
        ]
        git(
            self.tree,
            "add",
            "--",
            *(path for path in new if any(plan.is_within(path, out) for out in known)),
        )
        files, head = git(self.tree, "write-tree").strip(), self._repository.head
        author = ("-c", "user.name=pacer", "-c", "user.email=pacer@localhost")
        commit = git(
            self.tree, *author, "commit-tree", files, "-p", head, "-m", f"pacer study: {name}"
        ).strip()
        git(self.tree, "update-ref", f"refs/exps/{head[:2]}/{head[2:]}/{name}", commit)


def _texts(value: JsonValue) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)


def git(folder: Path, *arguments: str) -> str:
    """Return the output of ``git ARGUMENTS`` in ``folder``. Raises a PacerError if it failed."""
    # the hooks of `dvc install` need a cache, which a new worktree does not have yet
    command = "git", "-c", f"core.hooksPath={os.devnull}", *arguments
    return output_of(
        folder, *command, remedy="; run studies from the root of a git repository with a commit"
    )
