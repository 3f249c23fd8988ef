"""The real DAG through DVC on the micro profile: what takes minutes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import torch
from safetensors.torch import load_file

from pacer.model.llm_rg4 import interface_names
from tests.support.repository import STAGES, Repository, check_baseline, ran


def test_another_run_leaves_the_same_bytes(repository: Repository, tmp_path: Path) -> None:
    """All outputs but speeds and memory, and the report, which shows them: so anyone can check anyone's `dvc.lock`."""
    other = Repository.make(tmp_path / "other")
    other.without_dvc(*STAGES)
    shutil.copy(repository.folder / "dvc.lock", other.folder)
    other.run("dvc", "config", "--local", "cache.dir", str(repository.folder / ".dvc" / "cache"))
    phases = ("warmup", "parent", "calibrate")
    status = json.loads(other.run("dvc", "status", "--json", *STAGES).strip().splitlines()[-1])
    causes = [cause for stage in status.values() for cause in stage]
    outs, deps = ({path for cause in causes for path in cause.get(f"changed {kind}", ())} for kind in ("outs", "deps"))
    speeds = {f"metrics/{phase}/{kind}" for phase in phases for kind in ("metrics.json", "plots")}
    assert "metrics/parent/metrics.json" in outs and outs <= {"reports", *speeds} and deps <= speeds
    for phase in phases:
        told, again = (made.json(f"metrics/{phase}/metrics.json") for made in (repository, other))
        assert {name for name in told if told[name] != again[name]} <= {"tokens_per_second", "loader_wait", "memory_gb"}


def test_a_clone_pulls_all_outputs_but_the_features_from_a_remote_and_runs_nothing(
    repository: Repository, tmp_path: Path
) -> None:
    remote = ("dvc", "remote", "add", "--default", "--local", "store", str(tmp_path / "store"))
    repository.run(*remote)
    repository.run("dvc", "push")
    clone = Repository(tmp_path / "clone")
    repository.run("git", "clone", "--quiet", str(repository.folder), str(clone.folder))
    clone.run(*remote)
    clone.run("dvc", "pull", "--allow-missing")
    assert not (clone.folder / "data/features").exists()
    assert ran(clone.run("dvc", "repro", "--allow-missing")) == ()
    for persisted in ("data/anchors/llm_cache.jsonl", "data/emphasis/attributions.jsonl"):
        assert (clone.folder / persisted).read_bytes() == (repository.folder / persisted).read_bytes()


def test_a_study_that_is_killed_three_times_ends_as_if_it_was_not(repository: Repository, orphans_stay: None) -> None:
    """The rows of Table 3; the workspace, with an edit of its own, is the same at every moment."""
    study = repository.folder / "studies" / "components.yaml"
    study.write_text(study.read_text().replace("decode.limit: null", "decode.limit: 4"))
    params = repository.folder / "params.yaml"
    params.write_text(params.read_text() + "# mine\n")
    command = (sys.executable, "-c", "from pacer.cli import main; main()", "study")
    results = repository.folder / "studies" / "results"
    before = repository.run("git", "status", "--porcelain")
    assert before.splitlines() == [" M params.yaml", " M studies/components.yaml"]

    def begun(stage: str) -> int:
        return sum(path.read_text().count(f"Running stage '{stage}'") for path in results.glob("logs/*.txt"))

    for stage in ("warmup", "parent", "decode"):
        known = begun(stage)
        process = subprocess.Popen(
            [*command, "run", "components", "--jobs", "2"],
            cwd=repository.folder,
            env=repository.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        while begun(stage) == known:
            assert process.poll() is None, process.communicate()[0]
            assert repository.run("git", "status", "--porcelain") == before
            time.sleep(0.2)
        process.kill()
        process.communicate()
        assert "half-made; if no study runs, resume: `pacer study run components`" in repository.run(*command, "list")
    told = repository.run(*command, "run", "components", "--jobs", "2")
    assert repository.run("git", "status", "--porcelain") == before and "experiment components-" in told
    assert ran(repository.run("dvc", "repro")) == ()
    assert "nothing to do" in repository.run(*command, "run", "components")
    table = (results / "components" / "table.md").read_text()

    names = repository.run("dvc", "exp", "list", "--name-only").split()
    assert len(names) == 5
    assert all(name in repository.run("dvc", "exp", "show", "--csv") for name in names)
    two = [name for name in names if name.startswith(("components-base-", "components-refine_only-"))]
    assert "refine.variant" in repository.run("dvc", "params", "diff", *two)
    repository.run("dvc", "exp", "remove", "--all-commits")
    shutil.rmtree(results)
    repository.run("git", "worktree", "prune")
    shutil.rmtree(repository.folder / ".dvc" / "cache" / "runs")  # so all is made once more, one row after another
    repository.run(*command, "run", "components")
    assert (results / "components" / "table.md").read_text() == table


def test_the_other_baselines_are_made_decoded_and_scored(repository: Repository) -> None:
    """Without DVC, so that they share one process."""
    folder = repository.folder
    weights = load_file(folder / "models" / "parent" / "model.safetensors")
    state = {theirs: weights[f"interface.{ours}"] for ours, theirs in interface_names().items()}
    state["APPA_visual_query_tokens"] = state["APPA_visual_query_tokens"][None]
    state |= {
        f"llama_model.base_model.model.{name.removeprefix('language.')}": tensor
        for name, tensor in weights.items()
        if ".lora_" in name
    }
    torch.save({"model": state, "config": {"llm_alpha": 8}, "step": 9}, folder / "released.pth")
    own = folder / "baselines" / "params.yaml"
    own.write_text(own.read_text().replace("weights: null", "weights: released.pth"))
    names = ("ragpt", "llm_rg4")
    commands = [
        "ragpt_bank.py",
        "baseline_train.py ragpt",
        "llm_rg4.py",
        *(f"{script}.py {name}" for script in ("baseline_decode", "score") for name in names),
    ]
    repository.run_in_one_process(*(f"stages/run.py stages/{command}" for command in commands))
    manifest = repository.json("baselines/predictions/llm_rg4/manifest.json")
    assert manifest["commit"] is False
    scores = repository.json("baselines/metrics/llm_rg4/scores.json")
    assert scores["mean"]["fallback_rate"] == 0.0 and {"sn", "sw", "mn", "mw"} <= set(scores)
    settings = manifest["settings"]
    assert (settings["num_beams"], settings["min_new_tokens"], settings["max_new_tokens"]) == (2, 8, 24)
    check_baseline(repository, "ragpt")
    bank = pl.read_parquet(folder / "baselines/models/ragpt_bank/entries.parquet")
    held_out = pl.read_parquet(folder / "data/corpus/records.parquet").filter(pl.col("split") != "train")
    assert len(bank) and not set(bank["subject_id"]) & set(held_out["subject_id"])
    (folder / "released.pth").unlink()
    repository.commit()
