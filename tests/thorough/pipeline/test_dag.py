"""The real DAG through DVC on the micro profile: what takes minutes, and each family of models."""

import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from ruamel.yaml import YAML
from safetensors.torch import load_file

from pacer.config import load_params
from pacer.core.io import read_jsonl
from pacer.extras.llm_rg4.weights import interface_names
from pacer.serving.package import export_model
from pacer.serving.reporter import Reporter
from tests.support.families import BLOCKS, ENCODERS, LANGUAGES, write_encoder, write_language
from tests.support.repository import STAGES, Repository, ran


def use_models(folder: Path, encoder: str, language: str, **groups: dict[str, Any]) -> None:
    """Make models of these families beside the ``params.yaml`` of a repository, and let it name
    them.

    Args:
        groups: further settings.
    """
    path, yaml = folder / "params.yaml", YAML()
    params = yaml.load(path.read_text())
    makers = {"vision": write_encoder(encoder, folder / "own" / encoder)}
    makers["language"] = write_language(language, folder / "own" / language, window=512)
    for role, made in makers.items():
        params["backbones"][role] = {"provider": "local", "path": str(made)}
    changes: dict[str, dict[str, Any]] = {
        "features": {"depths": [1, BLOCKS]},
        "emphasis": {"source": "computed"},
        "lora": {"targets": None},
        "interface": {"num_heads": 2},
    }
    for name, values in (changes | groups).items():
        params[name].update(values)
    yaml.dump(params, path)


def check_baseline(repository: Repository, name: str) -> None:
    """Scored on the pipeline's records, with its numbers in the signature."""
    scores = repository.json("metrics/scores.json")
    theirs = repository.json(f"baselines/metrics/{name}/scores.json")
    assert all(theirs[c]["n"] == scores[c]["n"] for c in ("sn", "sw", "mn", "mw"))
    about = repository.json(f"baselines/metrics/{name}/signature.json")["predictions"]
    assert about["checkpoint"] == name and about["baseline"]["settings"]["updates"] == 4


def test_two_runs_on_one_machine_leave_equal_files(
    finished: Repository, forks: Path, tmp_path: Path
) -> None:
    """All that git tracks, `dvc.lock` with the hashes of all outputs among it: so anyone can check
    anyone's run."""
    other = Repository.make(tmp_path / "other", forks)
    other.run("dvc", "repro")
    other.commit()
    files, again = (
        set(made.run("git", "ls-tree", "-r", "HEAD").splitlines()) for made in (finished, other)
    )
    assert "dvc.lock" in {line.partition("\t")[2] for line in files}
    assert files ^ again == set()
    assert other.run("git", "status", "--porcelain") == ""


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
        assert (clone.folder / persisted).read_bytes() == (
            repository.folder / persisted
        ).read_bytes()


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
    assert (settings["num_beams"], settings["min_new_tokens"], settings["max_new_tokens"]) == (
        2,
        8,
        24,
    )
    check_baseline(repository, "ragpt")
    bank = pl.read_parquet(folder / "baselines/models/ragpt_bank/entries.parquet")
    held_out = pl.read_parquet(folder / "data/corpus/records.parquet").filter(
        pl.col("split") != "train"
    )
    assert len(bank) and not set(bank["subject_id"]) & set(held_out["subject_id"])
    (folder / "released.pth").unlink()
    repository.commit()


def test_an_edit_of_what_makes_things_ends_where_its_output_is_the_same(
    repository: Repository,
) -> None:
    """Hours of training are not repeated for another name in the phantom, the labelling client or a
    reader."""
    names = ("phantom/wording.py", "labels/labelling.py", "corpus/readers/rg4.py")
    edited = [repository.folder / "pacer" / name for name in names]
    for path in edited:
        path.write_text(f"{path.read_text()}\n# another comment\n")
    again = ran(repository.run("dvc", "repro"))
    assert {"source", "corpus", "standins", "anchor_llm"} <= set(again)
    assert not set(again) & {
        "backbones",
        "features",
        "warmup",
        "parent",
        "calibrate",
        "decode",
        "reference_labels",
        "score",
    }


BESIDE = """
title: A baseline as a row
layout: mean
metrics: [f1]
replicates: [{train.seed: 42}]
rows:
  - {name: SimMLM, target: simmlm_score, set: {"baselines/params.yaml:simmlm.alpha": 0.1}}
"""


def test_a_baseline_runs_when_asked_for_and_is_scored_beside(repository: Repository) -> None:
    """The fixture's plain `dvc repro` has run none of them; the table runs theirs alone."""
    (repository.folder / "studies" / "beside.yaml").write_text(BESIDE)
    study = (sys.executable, "-c", "from pacer.cli import main; main()", "study", "run", "beside")
    told = repository.run(*study)
    assert "beside: 1 of 1 runs are missing" in told
    steps = [line for line in told.splitlines() if line.startswith("Running stage")]
    assert [step.split("'")[1] for step in steps] == ["simmlm", "simmlm_decode", "simmlm_score"]
    assert "nothing to do" in repository.run(*study)
    [name] = repository.run("dvc", "exp", "list", "--name-only").split()
    assert name.startswith("beside-simmlm-42-")
    assert repository.run("git", "status", "--porcelain").strip() == "?? studies/beside.yaml"
    repository.run("dvc", "exp", "apply", name)
    check_baseline(repository, "simmlm")
    assert repository.json("baselines/metrics/simmlm/training/metrics.json")["step"] == 4
    assert ran(repository.run("dvc", "repro")) == ()
    repository.commit()


UP_TO_DECODE = STAGES[: STAGES.index("decode") + 1]
UPDATES = {"updates": 5}
#: Pairs, neither of the paper's families, that run the whole DAG.
WHOLE = [("dinov3_vit", "qwen3"), ("siglip_vision_model", "gemma3_text")]
PAIRS = [(encoder, "llama") for encoder in ENCODERS] + [
    ("dinov2", name) for name in LANGUAGES if name != "llama"
]
PAIRS += WHOLE


@pytest.mark.parametrize(("encoder", "language"), PAIRS)
def test_from_features_to_an_exported_model(encoder: str, language: str, tmp_path: Path) -> None:
    made, whole = Repository.make(tmp_path / "repository"), (encoder, language) in WHOLE
    use_models(
        made.folder,
        encoder,
        language,
        corpus={"contexts": ["sn", "mw"]},
        anchors={"sample_per_context": 4},
        decode={"limit": 3, "controls": []},
        warmup=UPDATES,
        parent=UPDATES,
        calibrate=UPDATES,
    )
    made.without_dvc(*(STAGES if whole else UP_TO_DECODE))
    for phase in ("warmup", "parent", "calibrate"):
        assert made.json(f"metrics/{phase}/metrics.json")["step"] == 5
    if whole:
        assert made.json("data/features/manifest.json")["processor"].endswith(
            "56 x 56, followed exactly"
        )
        assert all(
            0 <= made.json("metrics/scores.json")[context]["f1"] <= 1 for context in ("sn", "mw")
        )
        assert (made.folder / "reports" / "index.html").exists()
    params = load_params(made.folder / "params.yaml")
    models, data = made.folder / "models", made.folder / "data"
    inputs = {
        "model": models / "calibrate",
        "backbones": models / "backbones",
        "features": data / "features",
    }
    export_model(
        tmp_path / "exported", params.decode, **inputs, records=data / "corpus" / "records.parquet"
    )
    reporter = Reporter(tmp_path / "exported")
    images = sorted((data / "source" / "images").rglob("*.jpg"))
    result = reporter(images[0], view="PA")
    assert result.tokens >= 8 and result.frontal.weights.shape[:2] == (4, 4)
    for context in ("sn", "mw"):
        lines = read_jsonl(made.folder / "predictions" / f"{context}.jsonl")
        assert len(lines) == 3 and all(line["tokens"] >= 8 for line in lines)
