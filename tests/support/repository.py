"""The project in a git repository of its own, with the micro profile; one finished run, which all
tests share."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest
from filelock import FileLock

from pacer.core.io import parse_yaml
from tests.support.forks import forking_python
from tests.support.profiles import yaml_of

ROOT = Path(__file__).parents[2]
#: Its `sitecustomize.py` takes from every process what macOS lacks.
MACOS = Path(__file__).with_name("macos")
STAGES = tuple(parse_yaml((ROOT / "dvc.yaml").read_text())["stages"])
#: Stages one after another in one process: importing takes longer than they do in miniature. Each
#: has as many threads as in a process of its own: results depend on the number, and the launcher
#: uses all cores.
SCRIPTS = """
import runpy, sys, torch
from pacer.core.devices import share_cores
sys.path.insert(0, "stages")
threads = torch.get_num_threads()
for command in {commands!r}:
    launcher, *sys.argv = command.split()
    torch.set_num_threads(threads)
    if launcher.endswith("launch.py"):
        share_cores(1)
    runpy.run_path(sys.argv[0])["main"]()
"""


class Repository:
    """The project with the micro profile, in a git repository below ``folder``."""

    def __init__(self, folder: Path, *programs: Path):
        """``programs``: folders in which commands are looked for first."""
        self.folder, self.programs = folder, programs
        self.environment = {
            **os.environ,
            "PATH": os.pathsep.join(
                [*map(str, programs), str(Path(sys.executable).parent), os.environ["PATH"]]
            ),
            "PYTHONPATH": f"{MACOS}{os.pathsep}{folder}",
            "HF_HUB_OFFLINE": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "PYTHONWARNINGS": "default",
        }
        # compiled modules are kept, as on most machines: twenty processes import the same
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)

    @classmethod
    def make(cls, folder: Path, *programs: Path) -> Self:
        """Copy the project, without anything that a run wrote, and commit it."""
        written = shutil.ignore_patterns(
            "__pycache__", "cache", "tmp", "results", "dvc.lock", "models", "predictions", "metrics"
        )
        for name in ("stages", "configs", "studies", ".dvc", "baselines"):
            shutil.copytree(ROOT / name, folder / name, ignore=written)
        shutil.copytree(
            ROOT / "pacer", folder / "pacer", ignore=shutil.ignore_patterns("__pycache__")
        )
        for name in ("dvc.yaml", ".dvcignore", ".gitignore"):
            shutil.copy(ROOT / name, folder)
        (folder / "params.yaml").write_text(yaml_of("micro"))
        shutil.copy(ROOT / "baselines" / "micro.yaml", folder / "baselines" / "params.yaml")
        made = cls(folder, *programs)
        made.run("git", "init", "--quiet")
        made.commit()
        return made

    def commit(self) -> None:
        self.run("git", "add", "--all")
        self.run(
            "git",
            "-c",
            "user.name=test",
            "-c",
            "user.email=test@localhost",
            "commit",
            "--quiet",
            "-m",
            "state",
        )

    def run(self, *command: str) -> str:
        result = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, (
            f"{' '.join(command)}\n{result.stdout[-3000:]}\n{result.stderr[-3000:]}"
        )
        return result.stdout + result.stderr

    def json(self, path: str) -> dict:
        return json.loads((self.folder / path).read_text())

    def run_in_one_process(self, *commands: str) -> None:
        self.run(sys.executable, "-c", SCRIPTS.format(commands=commands))

    def without_dvc(self, *names: str) -> None:
        """Run these stages of the pipeline."""
        stages = parse_yaml((self.folder / "dvc.yaml").read_text())["stages"]
        self.run_in_one_process(
            *(stages[name]["cmd"].removeprefix("exec python ") for name in names)
        )


def ran(output: str) -> tuple[str, ...]:
    """Stages that DVC ran, in its order."""
    return tuple(
        line.split("'")[1] for line in output.splitlines() if line.startswith("Running stage '")
    )


@pytest.fixture(scope="session")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a ``python`` that does not import torch again for each stage."""
    folder = tmp_path_factory.mktemp("forks")
    with forking_python(folder, Repository(folder).environment):
        yield folder


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory, forks: Path) -> Self:
    """A repository after `dvc repro`, made by the first worker that asks for it; tests leave it as
    it is."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "micro"
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            made = Repository.make(folder.with_name("micro.making"), forks)
            assert set(ran(made.run("dvc", "repro"))) == set(STAGES)
            made.commit()
            made.folder.rename(folder)
    return Repository(folder, forks)


@pytest.fixture
def repository(finished: Repository, tmp_path: Path) -> Self:
    """A copy of the finished repository, for a test that changes it."""
    shutil.copytree(finished.folder, tmp_path / "repository", symlinks=True)
    return Repository(tmp_path / "repository", *finished.programs)
