"""A small repository whose ``dvc`` is a script: it writes scores that follow from the parameters and logs its calls."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PIPELINE = """\
stages:
  source: {cmd: python code/source.py, deps: [code/source.py], params: [corpus], outs: [data/source]}
  train:
    cmd: python code/train.py
    deps: [code/train.py, data/source]
    params: [commit, refine, train]
    outs: [models/weights]
    metrics: [metrics/train.json: {cache: false}]
  score:
    cmd: python code/score.py
    deps: [code/score.py, models/weights]
    params: [calibrate]
    metrics: [metrics/scores.json: {cache: false}]
    outs: [metrics/signature.json: {cache: false}, metrics/cases.parquet]
  report: {cmd: python code/report.py, deps: [code/report.py, metrics/scores.json], outs: [reports]}
"""
STUDY = """\
title: Tiny
layout: mean
metrics: [f1]
seeds: [1]
rows:
  - {name: no gate, set: {calibrate.gate_inputs: none}}
  - {name: direct, set: {commit.route: direct, calibrate.gate_inputs: none}}
  - {name: no gate again, set: {calibrate.gate_inputs: none}}
  - {name: gated, set: {calibrate.gate_inputs: hze}}
"""
BASELINES = """\
stages:
  simmlm:
    {wdir: .., cmd: python code/simmlm.py, deps: [code/simmlm.py, models/weights],
     params: [train, baselines/params.yaml: [simmlm]], outs: [baselines/models/simmlm]}
  simmlm_score:
    wdir: ..
    cmd: python code/score.py simmlm
    deps: [code/score.py, baselines/models/simmlm]
    outs: [baselines/metrics/simmlm/cases.parquet, baselines/metrics/simmlm/signature.json: {cache: false},
           baselines/metrics/simmlm/scores.json: {cache: false}]
"""
#: ``.fake/``: ``calls`` (one line a call), ``runs`` (one a stage), ``cache``, ``experiments``; ``hang`` and ``fail``
#: hold a gate at which the stage `score` never ends or fails.
FAKE_DVC = """\
#!{python}
import hashlib, json, os, sys, time
from pathlib import Path
from ruamel.yaml import YAML

yaml, fake, arguments = YAML(typ="safe"), Path(".fake"), sys.argv[1:]
say = lambda text: print(text, flush=True)
with (fake / "calls").open("a") as calls:
    calls.write(" ".join(arguments) + "\\n")
params, lock = yaml.load(Path("params.yaml")), Path("dvc.lock")
gate = params["calibrate"]["gate_inputs"]
names = (fake / "experiments").read_text().split() if (fake / "experiments").exists() else []


def write(path, text):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)


beside = arguments[-1] == "baselines/dvc.yaml:simmlm_score"
if arguments[0] == "repro" and beside:
    own = yaml.load(Path("baselines/params.yaml"))["simmlm"]
    with (fake / "runs").open("a") as runs:
        route, seed = params["commit"]["route"], params["train"]["seed"]
        runs.write(f"simmlm {{own['rank']}} {{route}} {{seed}} {{own['seed']}}\\n")
    say("Running stage 'baselines/dvc.yaml:simmlm':")
    if (fake / "edit").exists():
        Path("baselines/params.yaml").write_text("edited")
    write("baselines/dvc.lock", json.dumps({{"stages": {{}}}}))
    write("dvc.lock", lock.read_text() if lock.exists() else json.dumps({{"stages": {{"train": {{"weights": "w"}}}}}}))
    folder = "baselines/metrics/simmlm/"
    write(folder + "scores.json", json.dumps({{"sn": {{"f1": own["rank"] / 100}}, "mw": {{"f1": own["rank"] / 100}}}}))
    write(folder + "signature.json", json.dumps({{"standin_labeller": True}}))
    write(folder + "cases.parquet", "cases")
elif arguments[0] == "repro":
    stages = yaml.load(lock)["stages"] if lock.exists() else {{}}
    for stage, groups in (("source", ["corpus"]), ("train", ["commit", "refine", "train"]), ("score", None)):
        state = json.dumps([params[g] for g in groups] if groups else params, sort_keys=True)
        key = hashlib.md5(state.encode()).hexdigest()
        if stages.get(stage, {{}}).get("deps") == key:
            say(f"Stage '{{stage}}' didn't change, skipping")
            continue
        if (fake / "cache" / stage / key).exists():
            say(f"Stage '{{stage}}' is cached - skipping run, checking out outputs")
        else:
            say(f"Running stage '{{stage}}':")
            with (fake / "runs").open("a") as runs:
                runs.write(f"{{stage}} {{params['commit']['route']}} {{gate}} {{params['train']['seed']}}\\n")
            if stage == "score":
                Path("models/weights").unlink(missing_ok=True)  # as a stage does that has begun to write
                if (fake / "hang").exists() and (fake / "hang").read_text() == gate:
                    (fake / "hanging").write_text(str(os.getpid()))
                    time.sleep(600)
                if (fake / "fail").exists() and (fake / "fail").read_text() == gate:
                    say("ERROR: failed to reproduce 'score'")
                    sys.exit(255)
            write(fake / "cache" / stage / key, "")
        made = (fake / "data").read_text() if (fake / "data").exists() else "first"
        stages[stage] = {{"cmd": stage, "deps": key,
                          "outs": [{{"path": "data/source", "md5": made}}] if stage == "source" else []}}
        write("models/weights", "trained " + params["commit"]["route"])
        stages["train"] = {{**stages.get("train", {{}}), "weights": "trained " + params["commit"]["route"]}}
        write("dvc.lock", json.dumps({{"stages": stages}}))
    f1 = {{"none": 0.5, "hze": 0.75}}[gate] - (0.25 if params["commit"]["route"] == "direct" else 0.0)
    write("metrics/train.json", json.dumps({{"loss": f1}}))
    write("metrics/scores.json", json.dumps({{"sn": {{"f1": f1}}, "mw": {{"f1": f1 + 0.1}}}}))
    write("metrics/signature.json", json.dumps({{"standin_labeller": True}}))
    write("metrics/cases.parquet", "cases")
elif arguments[:2] == ["exp", "run"]:
    if arguments[3] in names:
        say(f"ERROR: Experiment conflicts with existing experiment '{{arguments[3]}}'.")
        sys.exit(255)
    write(fake / "experiments", " ".join([*names, arguments[3]]))
elif arguments[:2] == ["exp", "remove"]:
    write(fake / "experiments", " ".join(name for name in names if name != arguments[2]))
elif arguments[0] == "checkout":
    write("models/weights", yaml.load(lock)["stages"]["train"]["weights"])
    if not Path("baselines/dvc.lock").exists():
        Path("baselines/metrics/simmlm/cases.parquet").unlink(missing_ok=True)  # an out that no lock knows
else:
    sys.exit(f"unknown call {{arguments}}")
"""


class FakeRepository:
    def __init__(self, folder: Path):
        self.folder = folder
        self.fake = folder / ".fake"
        (folder / "studies").mkdir()
        (folder / "bin").mkdir()
        self.fake.mkdir()
        for name in ("source", "train", "score", "report", "simmlm"):
            self.write(f"code/{name}.py", f"# {name}\n")
        self.write("dvc.yaml", PIPELINE)
        self.write("baselines/dvc.yaml", BASELINES)
        self.write("studies/tiny.yaml", STUDY)
        ignored = (
            ".fake",
            "bin",
            "data",
            "models",
            "studies/results",
            "metrics/cases.parquet",
            "baselines/models",
            "baselines/metrics/*/cases.parquet",
        )
        self.write(".gitignore", "".join(f"/{name}\n" for name in ignored) + "*.scratch/\n")
        dvc = folder / "bin" / "dvc"
        dvc.write_text(FAKE_DVC.format(python=sys.executable))
        dvc.chmod(0o755)
        shutil.copy(ROOT / "configs" / "micro.yaml", folder / "params.yaml")
        shutil.copy(ROOT / "baselines" / "micro.yaml", folder / "baselines" / "params.yaml")
        self.git("init", "--quiet", "--initial-branch", "main")
        self.git("add", "--all")
        self.commit()

    def commit(self) -> None:
        self.git("-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "--quiet", "--all", "-m", "state")

    def git(self, *arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=self.folder, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def dvc(self, *arguments: str) -> None:
        subprocess.run([self.folder / "bin" / "dvc", *arguments], cwd=self.folder, check=True, capture_output=True)

    def write(self, path: str, text: str) -> None:
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text)

    def read(self, path: str) -> str:
        return (self.folder / path).read_text()

    def lines(self, name: str) -> list[str]:
        """``calls`` or ``runs`` so far."""
        path = self.fake / name
        return path.read_text().splitlines() if path.exists() else []

    def state(self) -> dict[str, bytes]:
        """Every file of the user's workspace, with its content."""
        skipped = {".git", ".fake", "bin", "results"}
        return {
            str(path.relative_to(self.folder)): path.read_bytes()
            for path in sorted(self.folder.rglob("*"))
            if path.is_file() and not skipped & set(path.relative_to(self.folder).parts)
        }


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeRepository:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return FakeRepository(tmp_path)


@pytest.fixture
def run(repository: FakeRepository) -> Callable[..., list[str]]:
    """Run a study; what it told, line by line."""
    from pacer.params.baselines import BaselineParams
    from pacer.studies.plan import KINDS
    from pacer.studies.run import run_study
    from pacer.studies.study import load_study

    def call(name: str = "tiny", *rows: str) -> list[str]:
        told: list[str] = []
        run_study(
            load_study(repository.folder / "studies", name),
            repository.folder,
            told.append,
            kinds={**KINDS, "baselines/params.yaml": BaselineParams},
            rows=frozenset(rows),
        )
        return told

    return call
