"""The real DAG through DVC on the micro profile, in a repository of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
import torch
from ruamel.yaml import YAML
from safetensors.torch import load_file

from pacer.model.upstream import interface_names
from pacer.params.profiles import profile_text

ROOT = Path(__file__).parents[3]
STAGES = (
    "source",
    "corpus",
    "backbones",
    "features",
    "anchor_sample",
    "anchor_llm",
    "anchors",
    "emphasis",
    "warmup",
    "parent",
    "calibrate",
    "decode",
    "reference_labels",
    "score",
    "report",
)


#: Stages one after another in one process: importing takes longer than they do in miniature.
SCRIPTS = """
import runpy, sys
sys.path.insert(0, "stages")
for command in {commands!r}:
    sys.argv = command.split()
    runpy.run_path(sys.argv[0], run_name="__main__")
"""


class Repository:
    """A copy of the project in a fresh git repository, with the micro profile."""

    def __init__(self, folder: Path):
        self.folder = folder
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = {
            **os.environ,
            "PATH": path,
            "PYTHONPATH": str(folder),
            "HF_HUB_OFFLINE": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "PYTHONWARNINGS": "default",
        }
        left = shutil.ignore_patterns("__pycache__", "cache", "tmp", "results")
        for name in ("pacer", "stages", "configs", "studies", ".dvc"):
            shutil.copytree(ROOT / name, folder / name, ignore=left)
        made = shutil.ignore_patterns("__pycache__", "cache", "tmp", "dvc.lock", "models", "predictions", "metrics")
        shutil.copytree(ROOT / "baselines", folder / "baselines", ignore=made)
        for name in ("dvc.yaml", ".dvcignore", ".gitignore"):
            shutil.copy(ROOT / name, folder)
        (folder / "params.yaml").write_text(profile_text(ROOT / "configs" / "micro.yaml"))
        shutil.copy(ROOT / "baselines" / "micro.yaml", folder / "baselines" / "params.yaml")
        self.run("git", "init", "--quiet")
        self.commit()

    def commit(self) -> None:
        self.run("git", "add", "--all")
        self.run("git", "-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "--quiet", "-m", "state")

    def run(self, *command: str) -> str:
        result = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, f"{' '.join(command)}\n{result.stdout[-3000:]}\n{result.stderr[-3000:]}"
        return result.stdout + result.stderr

    def json(self, path: str) -> dict:
        return json.loads((self.folder / path).read_text())

    def run_in_one_process(self, *commands: str) -> None:
        self.run(sys.executable, "-c", SCRIPTS.format(commands=commands))

    def without_dvc(self, *names: str) -> None:
        """Run these stages of the pipeline."""
        stages = YAML(typ="safe").load((self.folder / "dvc.yaml").read_text())["stages"]
        commands = (stages[name]["cmd"].removeprefix("python ").removeprefix("stages/launch.py ") for name in names)
        self.run_in_one_process(*commands)


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
    assert {"mean_f1", "another_patient_f1"} <= set(scores["truth"])
    cases = pl.read_parquet(repository.folder / "metrics" / "cases.parquet")
    assert cases["record_id"].n_unique() == len(cases) == sum(scores[c]["n"] for c in ("sn", "sw", "mn", "mw"))
    for phase in ("warmup", "parent", "calibrate"):
        assert repository.json(f"metrics/{phase}/metrics.json")["step"] == 4
        assert (repository.folder / "models" / phase / "model.safetensors").exists()
    page = (repository.folder / "reports" / "index.html").read_text()
    assert 'src="http' not in page and "<script" not in page and len(page) > 10_000
    assert not list(repository.folder.rglob("*.scratch"))


def test_another_run_leaves_the_same_bytes(repository: Repository, tmp_path: Path) -> None:
    """All outputs but speeds and memory, and the report, which shows them: so anyone can check anyone's `dvc.lock`."""
    other = Repository(tmp_path)
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


def test_a_second_run_runs_nothing(repository: Repository) -> None:
    assert ran(repository.run("dvc", "repro")) == ()


def test_the_plots_show_every_context_and_phase(repository: Repository) -> None:
    drawn = json.loads(repository.run("dvc", "plots", "show", "--json").partition("\n")[0])["data"]
    assert set(drawn) == {
        "Training loss",
        "Parent, validation loss by context",
        "Calibrate, validation loss by context",
        "F1 by context",
        "BLEU-4 by context",
    }
    rows = {name: plot[0]["content"]["data"]["values"] for name, plot in drawn.items()}
    assert {row["context"] for row in rows["F1 by context"]} == {"sn", "sw", "mn", "mw"}
    assert len({row["filename::field"] for row in rows["Parent, validation loss by context"]}) == 4
    assert len({row["filename"] for row in rows["Training loss"]}) == 3


def test_a_clone_pulls_all_outputs_from_a_remote_and_runs_nothing(repository: Repository, tmp_path: Path) -> None:
    remote = ("dvc", "remote", "add", "--default", "--local", "store", str(tmp_path / "store"))
    repository.run(*remote)
    repository.run("dvc", "push")
    clone = Repository.__new__(Repository)
    clone.folder = tmp_path / "clone"
    clone.environment = repository.environment | {"PYTHONPATH": str(clone.folder)}
    repository.run("git", "clone", "--quiet", str(repository.folder), str(clone.folder))
    clone.run(*remote)
    clone.run("dvc", "pull", "dvc.yaml")
    assert ran(clone.run("dvc", "repro")) == ()
    for persisted in (
        "data/features/manifest.json",
        "data/anchors/llm_cache.jsonl",
        "data/emphasis/attributions.jsonl",
    ):
        assert (clone.folder / persisted).read_bytes() == (repository.folder / persisted).read_bytes()
    (repository.folder / ".dvc" / "config.local").unlink()


def test_an_edit_of_what_makes_things_ends_where_its_output_is_the_same(repository: Repository) -> None:
    """Hours of training are not repeated for another name in the phantom, the labelling client or a reader."""
    rooms = ("phantom", "labelling/client", "corpus")
    edited = [max((repository.folder / "pacer" / room).glob("[a-z]*.py")) for room in rooms]
    texts = [path.read_text() for path in edited]
    for path, text in zip(edited, texts, strict=True):
        path.write_text(f"{text}\n# another comment\n")
    again = ran(repository.run("dvc", "repro"))
    assert {"source", "corpus", "backbones", "anchor_llm"} <= set(again)
    assert not set(again) & {"features", "warmup", "parent", "calibrate", "decode", "reference_labels", "score"}
    for path, text in zip(edited, texts, strict=True):
        path.write_text(text)
    repository.run("dvc", "repro")
    assert not repository.run("git", "status", "--porcelain")


PAIR = """
title: Two rows of Table 3
layout: mean
metrics: [f1, bleu1]
seeds: [42]
set: {decode.controls: [], decode.limit: 4}
rows:
  - {name: Refine + Commit, set: {calibrate.gate_inputs: none}}
  - {name: PACER, set: {calibrate.lambda_cons: 0.2}}
"""


BESIDE = """
title: A baseline as a row
layout: mean
metrics: [f1]
seeds: [42]
rows:
  - {name: SimMLM, target: simmlm_score, set: {"baselines/params.yaml:simmlm.alpha": 0.1}}
"""


def test_a_study_that_is_killed_continues_shares_the_parent_and_leaves_the_workspace(
    repository: Repository, orphans_stay: None
) -> None:
    (repository.folder / "studies" / "pair.yaml").write_text(PAIR)
    command = (sys.executable, "-c", "from pacer.cli import main; main()", "study")
    logs = repository.folder / "studies" / "results" / "logs"
    before = (repository.folder / "params.yaml").read_bytes(), repository.run("git", "status", "--porcelain")
    process = subprocess.Popen(
        [*command, "run", "pair"],
        cwd=repository.folder,
        env=repository.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    while not any("Running stage 'decode'" in path.read_text() for path in logs.glob("*.txt")):
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.2)
    process.kill()
    process.communicate()

    assert "pair: 2 of 2 runs to make" in repository.run(*command, "run", "pair")
    runs = {
        name: repository.json(f"studies/results/runs/{entry['key']}/run.json")
        for entry in repository.json("studies/results/pair/runs.json")
        for name in [entry["row"]]
    }
    assert all(run["stages"]["parent"] in ("unchanged", "restored") for run in runs.values())
    assert runs["Refine + Commit"]["stages"]["calibrate"] in ("unchanged", "restored")  # made before the kill
    assert runs["PACER"]["stages"] | {"calibrate": "ran", "decode": "ran", "score": "ran"} == runs["PACER"]["stages"]

    after = (repository.folder / "params.yaml").read_bytes(), repository.run("git", "status", "--porcelain")
    assert after == before and after[1].strip() == "?? studies/pair.yaml"
    assert ran(repository.run("dvc", "repro")) == ()

    keys = {entry["row"]: entry["key"] for entry in repository.json("studies/results/pair/runs.json")}
    for name, key in keys.items():
        scores = repository.json(f"studies/results/runs/{key}/scores.json")
        means = [sum(scores[c][metric] for c in ("sn", "sw", "mn", "mw")) / 4 for metric in ("f1", "bleu1")]
        [line] = [
            row
            for row in (repository.folder / "studies/results/pair/table.md").read_text().splitlines()
            if row.startswith(f"| {name} |")
        ]
        assert [float(cell) for cell in re.findall(r"\d\.\d{3}", line)] == pytest.approx(means, abs=5.0001e-4)

    names = [run["experiment"] for run in runs.values()]
    assert set(names) <= set(repository.run("dvc", "exp", "list", "--name-only").split())
    shown = repository.run("dvc", "exp", "show", "--csv")
    assert all(name in shown for name in names)
    assert "lambda_cons" in repository.run("dvc", "params", "diff", *names)
    assert "metrics/scores.json" in repository.run("dvc", "metrics", "diff", "--all", *names)

    assert "nothing to do" in repository.run(*command, "run", "pair")


def test_the_calibrator_alone_is_in_its_checkpoint(repository: Repository) -> None:
    from safetensors import safe_open

    with safe_open(repository.folder / "models/calibrate/model.safetensors", "pt") as file:
        assert all(name.startswith("calibrator.") for name in file.keys())  # noqa: SIM118
    with safe_open(repository.folder / "models/parent/model.safetensors", "pt") as file:
        names = list(file.keys())
    assert any("lora_A" in n for n in names)
    assert all(n.startswith(("router.", "interface.")) or "lora_" in n for n in names)


def test_a_baseline_runs_when_asked_for_and_is_scored_beside(repository: Repository) -> None:
    """The fixture's plain `dvc repro` has run none of them."""
    asked = "baselines/dvc.yaml:simmlm_score"
    assert ran(repository.run("dvc", "repro", asked)) == tuple(
        f"baselines/dvc.yaml:{name}" for name in ("simmlm", "simmlm_decode", "simmlm_score")
    )
    assert ran(repository.run("dvc", "repro", asked)) == ()
    _check_baseline(repository, "simmlm")
    assert repository.json("baselines/metrics/simmlm/training/metrics.json")["step"] == 4
    assert "failed" not in repository.run("dvc", "metrics", "show")
    repository.commit()
    (repository.folder / "studies" / "beside.yaml").write_text(BESIDE)
    told = repository.run(sys.executable, "-c", "from pacer.cli import main; main()", "study", "run", "beside")
    assert "beside: 1 of 1 runs to make" in told
    [entry] = repository.json("studies/results/beside/runs.json")
    folder = f"studies/results/runs/{entry['key']}"
    assert repository.json(f"{folder}/scores.json") == repository.json("baselines/metrics/simmlm/scores.json")
    assert (repository.folder / folder / "baselines" / "dvc.lock").exists()
    record = repository.json(f"{folder}/run.json")
    assert set(record["stages"].values()) == {"unchanged"}
    assert {"parent", "baselines/dvc.yaml:simmlm_score"} <= set(record["stages"])
    assert record["experiment"] in repository.run("dvc", "exp", "list", "--name-only").split()
    assert repository.run("git", "status", "--porcelain").strip() == "?? studies/beside.yaml"
    repository.commit()


def _check_baseline(repository: Repository, name: str) -> None:
    """Scored on the pipeline's records, with its numbers in the signature."""
    scores = repository.json("metrics/scores.json")
    theirs = repository.json(f"baselines/metrics/{name}/scores.json")
    assert all(theirs[c]["n"] == scores[c]["n"] for c in ("sn", "sw", "mn", "mw"))
    about = repository.json(f"baselines/metrics/{name}/signature.json")["predictions"]
    assert about["checkpoint"] == name and about["baseline"]["updates"] == 4


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
        "stages/ragpt_bank.py",
        "stages/baseline_train.py ragpt",
        "stages/llm_rg4.py",
        *(f"stages/{script}.py {name}" for script in ("baseline_decode", "score") for name in names),
    ]
    repository.run_in_one_process(*commands)
    manifest = repository.json("baselines/predictions/llm_rg4/manifest.json")
    assert manifest["commit"] is False
    scores = repository.json("baselines/metrics/llm_rg4/scores.json")
    assert scores["mean"]["fallback_rate"] == 0.0 and {"sn", "sw", "mn", "mw"} <= set(scores)
    settings = manifest["settings"]
    assert (settings["num_beams"], settings["min_new_tokens"], settings["max_new_tokens"]) == (2, 8, 24)
    _check_baseline(repository, "ragpt")
    bank = pl.read_parquet(folder / "baselines/models/ragpt_bank/entries.parquet")
    held_out = pl.read_parquet(folder / "data/corpus/records.parquet").filter(pl.col("split") != "train")
    assert len(bank) and not set(bank["subject_id"]) & set(held_out["subject_id"])
    (folder / "released.pth").unlink()
    repository.commit()


def test_an_experiment_runs_again_only_what_it_changes_and_shows_in_the_metrics(repository: Repository) -> None:
    output = repository.run("dvc", "exp", "run", "-S", "calibrate.lambda_cons=0.1")
    assert ran(output) == ("calibrate", "decode", "score", "report")
    changes = json.loads(repository.run("dvc", "metrics", "diff", "--json", "--all").partition("\n")[0])
    assert {"f1", "bleu4"} <= set(changes["metrics/scores.json"] and _leaves(changes["metrics/scores.json"]))
    calibrate = changes["metrics/calibrate/metrics.json"]
    assert any(entry.get("diff") for name, entry in calibrate.items() if "loss" in name)


def test_pixels_train_the_model_that_states_train(repository: Repository, tmp_path: Path) -> None:
    other = Repository(tmp_path)
    for made in ("data/source", "data/corpus", "data/anchors", "data/emphasis", "models/backbones"):
        shutil.copytree(repository.folder / made, other.folder / made)
    own = other.folder / "params.yaml"
    own.write_text(re.sub("mode: (states|full)", "mode: pixels", own.read_text()))
    other.without_dvc("features", "warmup", "parent", "calibrate", "decode")
    assert other.json("data/features/manifest.json")["encoding"]["mode"] == "pixels"
    for phase in ("warmup", "parent"):
        expected, found = (_numbers(made.json(f"metrics/{phase}/metrics.json")) for made in (repository, other))
        losses = [name for name in expected if "loss" in name]
        assert losses
        for name in losses:
            assert found[name] == pytest.approx(expected[name], rel=2e-3), (phase, name)


def _numbers(values: dict, prefix: str = "") -> dict[str, float]:
    """Nested metrics by their paths."""
    found = {}
    for name, value in values.items():
        found |= _numbers(value, f"{prefix}{name}/") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return found


def _leaves(changes: dict) -> set[str]:
    return {name.rsplit(".", 1)[-1] for name in changes}
