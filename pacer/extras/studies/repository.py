"""Git and DVC as tables of experiments call them."""

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from pacer.core.errors import ConfigError, PacerError


class Repository:
    """The git repository ``root`` in which the user works. ``results``: the folder of tables and of
    copies of cases; git ignores it."""

    def __init__(self, root: Path):
        self.root = root.resolve()
        self.results = self.root / "studies" / "results"

    def git(self, *arguments: str) -> str:
        """Return the output of ``git ARGUMENTS``. Raises a PacerError if it failed."""
        done = subprocess.run(
            ["git", *arguments], cwd=self.root, capture_output=True, check=False, text=True
        )
        if done.returncode:
            raise PacerError(
                f"git {arguments[0]} failed: {done.stderr.strip()}; run `pacer study` from the "
                "root of a git repository with a commit"
            )
        return done.stdout

    def objects(self) -> dict[str, str]:
        """Return the object of every file and folder in the last commit, by path."""
        entries = self.git("ls-tree", "-r", "-t", "-z", "HEAD").split("\0")
        return {path: found for found, _, path in (entry.partition("\t") for entry in entries)}

    def dvc(self, *arguments: str) -> None:
        """Run ``dvc ARGUMENTS``, which prints what it does. If this process is interrupted, DVC and
        its stages end. Raises a PacerError if DVC failed."""
        if shutil.which("dvc") is None:
            raise ConfigError(
                "the command `dvc` is not on the PATH; add the environment's bin folder to it"
            )
        process = subprocess.Popen(
            ["dvc", *arguments], cwd=self.root, stdin=subprocess.DEVNULL, process_group=0
        )
        try:
            process.wait()
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            process.wait()
            raise
        if process.returncode:
            raise PacerError(
                f"dvc {' '.join(arguments)} failed (exit code {process.returncode}); its output is "
                "above"
            )

    def experiments(self) -> dict[str, str]:
        """Return the name of each experiment, the oldest first -> its commit; `dvc exp list
        --all-commits` lists them."""
        options = ("--sort=committerdate", "--format=%(refname:lstrip=4) %(objectname)")
        lines = self.git("for-each-ref", *options, "refs/exps/*/*/*").splitlines()
        return dict(line.split() for line in lines)
