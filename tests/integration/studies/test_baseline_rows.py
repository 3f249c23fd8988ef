"""Rows that run a baseline of ``baselines/dvc.yaml``, beside rows of the pipeline."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from pacer.cli import app
from pacer.core.errors import ConfigError
from pacer.core.io import read_json
from pacer.studies.pipeline import Pipeline
from pacer.studies.run import results_folder
from pacer.studies.study import load_study
from pacer.studies.table import build_table, collect
from tests.support.studies import FakeRepository

BESIDE = """\
title: Beside
layout: mean
metrics: [f1]
seeds: [1]
rows:
  - {name: ours, set: {calibrate.gate_inputs: none}}
  - {name: SimMLM, target: simmlm_score, set: {baselines/params.yaml:simmlm.rank: 8}}
  - {name: released, target: simmlm_score, needs: ["baselines/params.yaml:llm_rg4.weights"]}
"""


@pytest.fixture(autouse=True)
def beside(repository: FakeRepository) -> None:
    repository.write("studies/beside.yaml", BESIDE)


def baseline_runs(repository: FakeRepository) -> list[str]:
    """Rank, route, seed of train and own seed of every time that the baseline was trained."""
    return [line.removeprefix("simmlm ") for line in repository.lines("runs") if line.startswith("simmlm")]


def table(repository: FakeRepository):
    study = load_study(repository.folder / "studies", "beside")
    return build_table(study, collect(study, repository.folder, results_folder(repository.folder)))


def test_a_baseline_is_run_scored_and_kept_beside_our_rows(repository: FakeRepository, run) -> None:
    repository.dvc("repro", "score")
    before = repository.state()
    told = run("beside")
    assert "beside: released is left out; it needs baselines/params.yaml:llm_rg4.weights" in told
    assert baseline_runs(repository) == ["8 stochastic 1 1"]  # its own seed is the study's too
    assert [line.split()[:2] for line in repository.lines("calls") if "simmlm" in line] == [
        ["repro", "baselines/dvc.yaml:simmlm_score"],
        ["exp", "save"],
    ]
    assert repository.state() == before
    found = table(repository)
    assert {row[0]: row[1] for row in found.scores.rows[:3]} == {"ours": "0.550", "SimMLM": "0.080", "released": "–"}
    assert any("released: not run" in note and "llm_rg4.weights" in note for note in found.scores.notes)
    [record] = [
        r
        for path in (results_folder(repository.folder) / "runs").glob("*/run.json")
        if (r := read_json(path))["target"]
    ]
    assert record["overrides"]["baselines/params.yaml"] == {"simmlm.rank": 8, "simmlm.seed": 1}
    assert run("beside")[-1] == "beside: nothing to do, all 2 runs exist"


def test_its_parameters_and_code_decide_its_key_and_nobody_elses(repository: FakeRepository, run) -> None:
    run("beside")
    repository.write("code/simmlm.py", "# other\n")
    assert "beside: 1 of 2 runs to make" in run("beside")
    text = repository.read("baselines/params.yaml")
    assert text.count("alpha: 0.1 ") == 1
    repository.write("baselines/params.yaml", text.replace("alpha: 0.1 ", "alpha: 0.2 "))
    assert "beside: 1 of 2 runs to make" in run("beside")
    repository.write("code/train.py", "# other\n")
    assert "beside: 2 of 2 runs to make" in run("beside")


def test_the_baselines_files_are_put_back(repository: FakeRepository, run) -> None:
    """The second study finds a lock, scores and edited parameters of the user's own."""
    repository.dvc("repro", "score")
    repository.dvc("repro", "baselines/dvc.yaml:simmlm_score")
    repository.write("baselines/params.yaml", repository.read("baselines/params.yaml") + "# mine\n")
    before = repository.state()
    run("beside")
    assert repository.state() == before


def test_one_row_can_be_asked_for(repository: FakeRepository, run) -> None:
    assert run("beside", "ours")[1:3] == ["beside: 1 of 1 runs to make", "[1/1] ours, seed 1"]
    assert baseline_runs(repository) == []
    with pytest.raises(ConfigError, match="no row 'theirs'; its rows are ours, SimMLM, released"):
        run("beside", "theirs")


def test_the_command_runs_a_row_and_writes_the_table(repository: FakeRepository, monkeypatch) -> None:
    monkeypatch.chdir(repository.folder)
    monkeypatch.setattr("signal.signal", lambda *arguments: None)
    result = CliRunner().invoke(app, ["study", "run", "beside", "--row", "SimMLM"])
    assert result.exit_code == 0, result.output
    assert baseline_runs(repository) == ["8 stochastic 1 1"] and "[1/1] SimMLM, seed 1" in result.output
    text = (results_folder(repository.folder) / "beside" / "table.md").read_text()
    assert "| SimMLM | 0.080 |" in text and "- ours: not run yet with seed 1." in text


def test_parameters_that_change_under_a_run_are_those_of_the_next(repository: FakeRepository, run) -> None:
    (repository.fake / "edit").touch()
    run("beside", "SimMLM")
    [folder] = (results_folder(repository.folder) / "runs").iterdir()
    assert "alpha: 0.1 " in (folder / "baselines" / "params.yaml").read_text()
    (repository.fake / "edit").unlink()
    assert "alpha: 0.2 " in repository.read("baselines/params.yaml")
    assert "beside: 1 of 1 runs to make" in run("beside", "SimMLM")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "target: simmlm_score, set",
            "target: simmlm_scores, set",
            "no stage of baselines/dvc.yaml; stages that end in scores: simmlm_score",
        ),
        ("target: simmlm_score, set", "target: simmlm, set", "makes no scores.json"),
        ("simmlm.rank: 8", "simmlm.ranks: 8", "simmlm.ranks is no parameter of baselines/params.yaml"),
        ("simmlm.rank: 8", "simmlm.rank: 0", "row SimMLM: simmlm.rank = 0"),
        ("simmlm.rank: 8", "simmlm.seed: 8", "simmlm.seed is set by seeds"),
        ("llm_rg4.weights", "llm_rg4.weight", "needs baselines/params.yaml:llm_rg4.weight, which is no parameter"),
        ("calibrate.gate_inputs: none", "baselines/params.yaml:simmlm.rank: 8", "read by rows with a target alone"),
        ("rows:", "set: {baselines/params.yaml:simmlm.rank: 8}\nrows:", "belongs in the rows with a target"),
    ],
)
def test_what_cannot_be_run_is_refused_before_any_work(repository: FakeRepository, run, old, new, said) -> None:
    assert BESIDE.count(old) == 1
    repository.write("studies/beside.yaml", BESIDE.replace(old, new))
    with pytest.raises(ConfigError) as error:
        run("beside")
    assert said in str(error.value)
    assert repository.lines("calls") == []


def test_the_repositorys_baselines_stand_on_the_pipelines_parent() -> None:
    from tests.integration.studies.test_study import ROOT

    for name in ("simmlm", "ragpt", "llm_rg4"):
        found = Pipeline.read(ROOT, f"{name}_score")
        stages = [stage.name for stage in found.stages]
        assert found.scores == f"baselines/metrics/{name}" and found.target == f"baselines/dvc.yaml:{name}_score"
        assert ("parent" in stages) is (name in ("simmlm", "ragpt")) and "calibrate" not in stages
        assert stages[-1] == found.target and "pacer/baselines" in found.code
        assert found.data <= Pipeline.read(ROOT).data  # its own stages count as their code
