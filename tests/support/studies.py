"""A small repository whose ``dvc`` is a script: it writes scores that follow from the parameters and logs its calls."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pacer.config.profiles import profile_text

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
#: hold a gate at which the stage `score` never ends or fails; ``meet``: how many processes meet in the stage `score`.
FAKE_DVC = """\
#!{python}
import hashlib, json, os, sys, time
from pathlib import Path
from ruamel.yaml import YAML

yaml, fake, arguments = YAML(typ="safe"), Path("{fake}"), sys.argv[1:]
say = lambda text: print(text, flush=True)
with (fake / "calls").open("a") as calls:
    calls.write(" ".join(arguments) + "\\n")
params, lock = yaml.load(Path("params.yaml")), Path("dvc.lock")
gate = params["calibrate"]["gate_inputs"]
names = (fake / "experiments").read_text().split() if (fake / "experiments").exists() else []
definition = yaml.load(Path("dvc.yaml"))["stages"]


def write(path, text):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)


def repro(targets):
    stages = yaml.load(lock)["stages"] if lock.exists() else {{}}
    for stage, groups in (("source", ["corpus"]), ("train", ["commit", "refine", "train"]), ("score", None)):
        code = hashlib.md5(Path(f"code/{{stage}}.py").read_bytes()).hexdigest()
        given = stages["source"]["outs"] if stage != "source" else []
        state = json.dumps([code, given, [params[g] for g in groups] if groups else params], sort_keys=True)
        key = hashlib.md5(state.encode()).hexdigest()
        if stages.get(stage, {{}}).get("key") == key:
            say(f"Stage '{{stage}}' didn't change, skipping")
        else:
            if (fake / "cache" / stage / key).exists():
                say(f"Stage '{{stage}}' is cached - skipping run, checking out outputs")
            else:
                say(f"Running stage '{{stage}}':")
                with (fake / "runs").open("a") as runs:
                    runs.write(f"{{stage}} {{params['commit']['route']}} {{gate}} {{params['train']['seed']}}\\n")
                if stage == "train" and (fake / "meet").exists():
                    time.sleep(1)  # time enough for a second process to begin the same
                if stage == "score":
                    Path("models/weights").unlink(missing_ok=True)  # as a stage does that has begun to write
                    if (fake / "meet").exists():
                        write(fake / "met" / str(os.getpid()), "")
                        for _ in range(600):
                            if len(list((fake / "met").iterdir())) >= int((fake / "meet").read_text()):
                                break
                            time.sleep(0.1)
                        else:
                            sys.exit("nobody else came")
                    if (fake / "hang").exists() and (fake / "hang").read_text() == gate:
                        (fake / "hanging").write_text(str(os.getpid()))
                        time.sleep(600)
                    if (fake / "fail").exists() and (fake / "fail").read_text() == gate:
                        say("ERROR: failed to reproduce 'score'")
                        sys.exit(255)
                write(fake / "cache" / stage / key, "")
            made = (fake / "data").read_text() if (fake / "data").exists() else "first"
            stages[stage] = {{
                "cmd": definition[stage]["cmd"],
                "key": key,
                "deps": [{{"path": f"code/{{stage}}.py", "md5": code}}],
                "params": {{"params.yaml": {{group: params[group] for group in groups or []}}}},
                "outs": [{{"path": "data/source", "md5": made}}] if stage == "source" else [],
            }}
            write("models/weights", "trained " + params["commit"]["route"])
            stages["train"] = {{**stages.get("train", {{}}), "weights": "trained " + params["commit"]["route"]}}
            write("dvc.lock", json.dumps({{"stages": stages}}))
        if stage in targets and stage != "score":
            return
    f1 = {{"none": 0.5, "hze": 0.75}}[gate] - (0.25 if params["commit"]["route"] == "direct" else 0.0)
    write("metrics/train.json", json.dumps({{"loss": f1}}))
    write("metrics/scores.json", json.dumps({{"sn": {{"f1": f1}}, "mw": {{"f1": f1 + 0.1}}}}))
    write("metrics/signature.json", json.dumps({{"standin_labeller": True}}))
    write("metrics/cases.parquet", "cases")


if arguments[0] == "repro" and arguments[-1] == "baselines/dvc.yaml:simmlm_score":
    own = yaml.load(Path("baselines/params.yaml"))["simmlm"]
    with (fake / "runs").open("a") as runs:
        route, seed = params["commit"]["route"], params["train"]["seed"]
        runs.write(f"simmlm {{own['rank']}} {{route}} {{seed}} {{own['seed']}}\\n")
    say("Running stage 'baselines/dvc.yaml:simmlm':")
    if (fake / "edit").exists():
        user = fake.parent / "baselines/params.yaml"
        user.write_text(user.read_text().replace("alpha: 0.1 ", "alpha: 0.2 "))
    repro(["train"])
    write("baselines/dvc.lock", json.dumps({{"stages": {{}}}}))
    folder = "baselines/metrics/simmlm/"
    write(folder + "scores.json", json.dumps({{"sn": {{"f1": own["rank"] / 100}}, "mw": {{"f1": own["rank"] / 100}}}}))
    write(folder + "signature.json", json.dumps({{"standin_labeller": True}}))
    write(folder + "cases.parquet", "cases")
elif arguments[0] == "repro":
    repro(arguments[1:])
elif arguments[:3] == ["exp", "save", "--force"]:
    write(fake / "experiments", " ".join(dict.fromkeys([*names, arguments[4]])))
elif arguments[0] == "checkout":
    if lock.exists():
        write("models/weights", yaml.load(lock)["stages"].get("train", {{}}).get("weights", ""))
elif arguments == ["cache", "dir"]:
    say(".dvc/cache")
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
        dvc.write_text(FAKE_DVC.format(python=sys.executable, fake=self.fake))
        dvc.chmod(0o755)
        (folder / "params.yaml").write_text(profile_text(ROOT / "configs" / "micro.yaml"))
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
    """Run a study; what it reported, line by line."""
    from pacer.studies.run import run_study
    from pacer.studies.study import load_study

    def call(name: str = "tiny", *rows: str, jobs: int = 1) -> list[str]:
        reported: list[str] = []
        study = load_study(repository.folder / "studies", name)
        run_study(study, repository.folder, reported.append, rows=frozenset(rows), jobs=jobs)
        return reported

    return call
