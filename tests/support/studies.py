"""A small repository with three stages that take no time, under the real git and DVC."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from pacer.core.io import yaml_beside
from tests.support.profiles import yaml_of

ROOT = Path(__file__).parents[2]
PACER = (sys.executable, "-c", "from pacer.cli import main; main()")

FILES: dict[str, str] = yaml_beside(__file__, "studies.yaml")
STUDY = FILES["studies/tiny.yaml"]
#: ``.told/runs``: a line for each stage that ran; while ``.told/hang`` is there, the stage `score`
#: does not end.
STAGE = """\
import json, sys, time
from pathlib import Path
from ruamel.yaml import YAML

stage, told, yaml = sys.argv[1], Path("{told}"), YAML(typ="safe")
params = yaml.load(Path("params.yaml"))
gate, route = params["calibrate"]["gate_inputs"], params["commit"]["route"]
seed = params["train"]["seed"]
with (told / "runs").open("a") as runs:
    print(stage, route, gate, seed, file=runs)


def write(path, text):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)


def scores(folder, f1):
    write(folder + "/scores.json", json.dumps({{"sn": {{"f1": f1}}, "mw": {{"f1": f1 + 0.1}}}}))
    signature = {{"standin_labeller": True, "data": {{"records": "a"}}}}
    write(folder + "/signature.json", json.dumps(signature))
    write(folder + "/cases.parquet", f"cases of {{f1}}")


if stage == "source":
    write("data/source/records", Path(params["corpus"]["root"] or "stages/stage.py").read_text())
elif stage == "train":
    write("models/weights", f"trained {{route}} {{seed}}")
elif stage == "simmlm":
    rank = yaml.load(Path("baselines/params.yaml"))["simmlm"]["rank"]
    scores("baselines/metrics/simmlm", rank / 100)
else:
    write("models/score.scratch/state", "half-made")
    while (told / "hang").exists():
        (told / "hanging").touch()
        time.sleep(0.05)
    is_direct = "direct" in Path("models/weights").read_text()
    base = {{"none": 0.5, "hze": 0.75}}[gate] - (0.25 if is_direct else 0.0)
    scores("metrics", base + seed / 1000)
"""


class TinyRepository:
    """The repository; ``told`` is the folder in which its stages say what they do."""

    def __init__(self, folder: Path):
        self.folder, self.told = folder, folder / ".told"
        self.told.mkdir(parents=True)
        self.write("stages/stage.py", STAGE.format(told=self.told))
        for path, text in FILES.items():
            self.write(path, text)
        self.write("params.yaml", yaml_of("micro"))
        shutil.copy(ROOT / "baselines" / "micro.yaml", folder / "baselines" / "params.yaml")
        shutil.copytree(
            ROOT / ".dvc",
            folder / ".dvc",
            ignore=shutil.ignore_patterns("cache", "tmp", "config.local"),
        )
        self.git("init", "--quiet", "--initial-branch", "main")
        self.git("config", "user.name", "test")
        self.git("config", "user.email", "test@localhost")
        self.commit()

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "-m", "state")

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=self.folder, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def write(self, path: str, text: str) -> None:
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text)

    def read(self, path: str) -> str:
        return (self.folder / path).read_text()

    def ran(self, stage: str) -> list[str]:
        """Route, gate and seed of every time that a stage ran."""
        path = self.told / "runs"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line.removeprefix(f"{stage} ") for line in lines if line.startswith(stage)]

    def state(self) -> tuple[str, dict[str, bytes]]:
        """What `git status` says, and every file of the user's workspace with its content."""
        skipped = {".git", ".told", "results", "tmp", "__pycache__"}
        files = {
            str(path.relative_to(self.folder)): path.read_bytes()
            for path in sorted(self.folder.rglob("*"))
            if path.is_file() and not skipped & set(path.relative_to(self.folder).parts)
        }
        return self.git("status", "--porcelain"), {
            name: text for name, text in files.items() if "cache" not in name
        }

    def call(self, *arguments: str) -> str:
        """What `pacer ARGUMENTS` prints."""
        return subprocess.run(
            [*PACER, *arguments], cwd=self.folder, capture_output=True, text=True, check=True
        ).stdout

    def start(self, *arguments: str) -> subprocess.Popen:
        """`pacer study run tiny` as a process of its own."""
        return subprocess.Popen(
            [*PACER, "study", "run", "tiny", *arguments],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


def working(tiny: TinyRepository) -> list[int]:
    """Processes that work in the repository."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.cwd().startswith(str(tiny.folder)):
                found.append(process.pid)
        except psutil.Error:
            pass
    return found


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TinyRepository:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return TinyRepository(tmp_path / "repository")
