"""The real DAG through DVC on the micro profile, in a repository of its own and in processes like those of macOS."""

from __future__ import annotations

import json
import sys

import polars as pl
import pytest

from tests.support.repository import Repository, check_baseline, ran


def test_every_declared_output_is_there_and_no_scratch_is_left(finished: Repository) -> None:
    scores = finished.json("metrics/scores.json")
    assert set(scores) >= {"sn", "sw", "mn", "mw", "mean", "truth"}
    assert scores["mean"]["f1"] == pytest.approx(sum(scores[c]["f1"] for c in ("sn", "sw", "mn", "mw")) / 4)
    assert {"mean_f1", "another_patient_f1"} <= set(scores["truth"])
    cases = pl.read_parquet(finished.folder / "metrics" / "cases.parquet")
    assert cases["record_id"].n_unique() == len(cases) == sum(scores[c]["n"] for c in ("sn", "sw", "mn", "mw"))
    for phase in ("warmup", "parent", "calibrate"):
        assert finished.json(f"metrics/{phase}/metrics.json")["step"] == 4
        assert (finished.folder / "models" / phase / "model.safetensors").exists()
    page = (finished.folder / "reports" / "index.html").read_text()
    assert 'src="http' not in page and "<script" not in page and len(page) > 10_000
    assert not list(finished.folder.rglob("*.scratch"))


def test_the_processes_of_the_run_lacked_what_macos_lacks(finished: Repository) -> None:
    alike = "import os, torch; print(hasattr(os, 'sched_getaffinity'), torch.backends.mps.is_available())"
    assert finished.run(sys.executable, "-c", alike) == "False True\n"


def test_a_second_run_runs_nothing(finished: Repository) -> None:
    assert ran(finished.run("dvc", "repro")) == ()


def test_the_plots_show_every_context_and_phase(finished: Repository) -> None:
    drawn = json.loads(finished.run("dvc", "plots", "show", "--json").partition("\n")[0])["data"]
    assert set(drawn) == {
        "Training loss",
        "Parent, validation loss by context",
        "Calibrate, validation loss by context",
    }
    rows = {name: plot[0]["content"]["data"]["values"] for name, plot in drawn.items()}
    assert len({row["filename::field"] for row in rows["Parent, validation loss by context"]}) == 4
    assert len({row["filename"] for row in rows["Training loss"]}) == 3


def test_an_edit_of_what_makes_things_ends_where_its_output_is_the_same(repository: Repository) -> None:
    """Hours of training are not repeated for another name in the phantom, the labelling client or a reader."""
    names = ("phantom/wording.py", "commitments/labelling.py", "data/readers/rg4.py")
    edited = [repository.folder / "pacer" / name for name in names]
    for path in edited:
        path.write_text(f"{path.read_text()}\n# another comment\n")
    again = ran(repository.run("dvc", "repro"))
    assert {"source", "corpus", "backbones", "anchor_llm"} <= set(again)
    assert not set(again) & {"features", "warmup", "parent", "calibrate", "decode", "reference_labels", "score"}


BESIDE = """
title: A baseline as a row
layout: mean
metrics: [f1]
replicates: [{train.seed: 42}]
rows:
  - {name: SimMLM, target: simmlm_score, set: {"baselines/params.yaml:simmlm.alpha": 0.1}}
"""


def test_a_baseline_runs_when_asked_for_and_is_scored_beside(repository: Repository) -> None:
    """The fixture's plain `dvc repro` has run none of them; the study runs theirs alone."""
    (repository.folder / "studies" / "beside.yaml").write_text(BESIDE)
    study = (sys.executable, "-c", "from pacer.cli import main; main()", "study", "run", "beside")
    told = repository.run(*study)
    assert "beside: 1 of 1 runs are missing" in told
    steps = [line.split(": ")[-1] for line in told.splitlines() if line.endswith((" running", " restored"))]
    assert steps == ["simmlm running", "simmlm_decode running", "simmlm_score running"]
    assert "nothing to do" in repository.run(*study)
    [name] = repository.run("dvc", "exp", "list", "--name-only").split()
    assert name.startswith("beside-simmlm-42-")
    [reference] = repository.run("git", "for-each-ref", "--format=%(refname)", "refs/exps").split()
    assert repository.run("git", "show", f"{reference}:dvc.yaml") == (repository.folder / "dvc.yaml").read_text()
    assert repository.run("git", "status", "--porcelain").strip() == "?? studies/beside.yaml"
    assert "WARN" not in repository.run("dvc", "exp", "apply", name)
    check_baseline(repository, "simmlm")
    assert repository.json("baselines/metrics/simmlm/training/metrics.json")["step"] == 4
    assert ran(repository.run("dvc", "repro")) == ()
    repository.commit()


def test_an_experiment_runs_again_only_what_it_changes_and_shows_in_the_metrics(repository: Repository) -> None:
    output = repository.run("dvc", "exp", "run", "-S", "calibrate.lambda_cons=0.1")
    assert ran(output) == ("calibrate", "decode", "score", "report")
    changes = json.loads(repository.run("dvc", "metrics", "diff", "--json", "--all").partition("\n")[0])
    assert {"f1", "bleu4"} <= set(changes["metrics/scores.json"] and _leaves(changes["metrics/scores.json"]))
    calibrate = changes["metrics/calibrate/metrics.json"]
    assert any(entry.get("diff") for name, entry in calibrate.items() if "loss" in name)


def _leaves(changes: dict) -> set[str]:
    return {name.rsplit(".", 1)[-1] for name in changes}
