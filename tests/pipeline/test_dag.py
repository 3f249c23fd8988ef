"""The real DAG through DVC on the micro profile, in a repository of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

ROOT = Path(__file__).parents[2]
STAGES = ("source", "corpus", "backbones", "features", "anchor_sample", "anchor_llm", "anchors", "warmup", "parent",
          "calibrate", "decode", "reference_labels", "score", "report")


class Repository:
    """A copy of the project in a fresh git repository, with the micro profile."""

    def __init__(self, folder: Path):
        self.folder = folder
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = {**os.environ, "PATH": path, "PYTHONPATH": str(folder), "HF_HUB_OFFLINE": "1",
                            "GIT_CONFIG_GLOBAL": os.devnull, "PYTHONWARNINGS": "default"}
        for name in ("pacer", "stages", "configs", ".dvc"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "cache", "tmp"))
        for name in ("dvc.yaml", ".dvcignore", ".gitignore"):
            shutil.copy(ROOT / name, folder)
        shutil.copy(ROOT / "configs" / "micro.yaml", folder / "params.yaml")
        self.run("git", "init", "--quiet")
        self.commit()

    def commit(self) -> None:
        self.run("git", "add", "--all")
        self.run("git", "-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "--quiet", "-m", "state")

    def run(self, *command: str) -> str:
        result = subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True, text=True,
                                check=False)
        assert result.returncode == 0, f"{' '.join(command)}\n{result.stdout[-3000:]}\n{result.stderr[-3000:]}"
        return result.stdout + result.stderr

    def json(self, path: str) -> dict:
        return json.loads((self.folder / path).read_text())


def ran(output: str) -> tuple[str, ...]:
    """Stages that DVC ran, in its order."""
    return tuple(line.split("'")[1] for line in output.splitlines() if line.startswith("Running stage '"))


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    made = Repository(tmp_path_factory.mktemp("micro"))
    assert set(ran(made.run("dvc", "repro"))) == set(STAGES)
    made.commit()
    return made


def test_every_declared_output_is_there_and_no_scratch_is_left(repository: Repository) -> None:
    scores = repository.json("metrics/scores.json")
    assert set(scores) >= {"sn", "sw", "mn", "mw", "mean", "truth"}
    assert scores["mean"]["f1"] == pytest.approx(sum(scores[c]["f1"] for c in ("sn", "sw", "mn", "mw")) / 4)
    assert {"mean_f1", "another_patient_f1", "constant_f1"} <= set(scores["truth"])
    cases = pl.read_parquet(repository.folder / "metrics" / "cases.parquet")
    assert cases["record_id"].n_unique() == len(cases) == sum(scores[c]["n"] for c in ("sn", "sw", "mn", "mw"))
    for phase in ("warmup", "parent", "calibrate"):
        assert repository.json(f"metrics/{phase}/metrics.json")["step"] == 4
        assert (repository.folder / "models" / phase / "model.safetensors").exists()
    page = (repository.folder / "reports" / "index.html").read_text()
    assert "src=\"http" not in page and "<script" not in page and len(page) > 10_000
    assert not list(repository.folder.rglob("*.scratch"))


def test_a_second_run_runs_nothing(repository: Repository) -> None:
    assert ran(repository.run("dvc", "repro")) == ()


def test_the_calibrator_alone_is_in_its_checkpoint(repository: Repository) -> None:
    from safetensors import safe_open

    with safe_open(repository.folder / "models/calibrate/model.safetensors", "pt") as file:
        assert all(name.startswith("calibrator.") for name in file.keys())  # noqa: SIM118
    with safe_open(repository.folder / "models/parent/model.safetensors", "pt") as file:
        names = list(file.keys())
    assert any("lora_A" in n for n in names)
    assert all(n.startswith(("router.", "interface.")) or "lora_" in n for n in names)


def test_an_experiment_runs_again_only_what_it_changes_and_shows_in_the_metrics(repository: Repository) -> None:
    output = repository.run("dvc", "exp", "run", "-S", "calibrate.lambda_cons=0.1")
    assert ran(output) == ("calibrate", "decode", "score", "report")
    changes = json.loads(repository.run("dvc", "metrics", "diff", "--json", "--all").partition("\n")[0])
    assert {"f1", "bleu4"} <= set(changes["metrics/scores.json"] and _leaves(changes["metrics/scores.json"]))
    calibrate = changes["metrics/calibrate/metrics.json"]
    assert any(entry.get("diff") for name, entry in calibrate.items() if "loss" in name)


def test_pixels_train_the_model_that_states_train(repository: Repository) -> None:
    before = {phase: repository.json(f"metrics/{phase}/metrics.json") for phase in ("warmup", "parent")}
    output = repository.run("dvc", "exp", "run", "-S", "features.mode=pixels")
    assert ran(output)[:5] == ("features", "warmup", "parent", "calibrate", "decode")  # equal reports end it here
    assert repository.json("data/features/manifest.json")["encoding"]["mode"] == "pixels"
    for phase, expected in before.items():
        found = repository.json(f"metrics/{phase}/metrics.json")
        losses = [name for name in _numbers(expected) if "loss" in name]
        assert losses
        for name in losses:
            assert _numbers(found)[name] == pytest.approx(_numbers(expected)[name], rel=2e-3), (phase, name)


def _numbers(values: dict, prefix: str = "") -> dict[str, float]:
    """Nested metrics by their paths."""
    found = {}
    for name, value in values.items():
        found |= _numbers(value, f"{prefix}{name}/") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return found


def _leaves(changes: dict) -> set[str]:
    return {name.rsplit(".", 1)[-1] for name in changes}
