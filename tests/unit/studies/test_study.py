"""Definitions of studies, the runs that they plan, orders of several jobs, and the worktrees that
rows are made in."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pacer.config.params import names_in
from pacer.core.errors import ConfigError
from pacer.core.io import parse_yaml, read_json, yaml_beside
from pacer.studies.plan import Run, overridden, plan, read_stages
from pacer.studies.run import StudyRunner
from pacer.studies.study import Study, load_published, load_study
from pacer.studies.worktree import MachineShare, Repository, Worktree, shares
from tests.support.cli import REPOSITORY
from tests.support.profiles import yaml_of
from tests.support.studies import TinyRepository

STUDIES = REPOSITORY / "studies"
PAPER, MICRO = yaml_of("mimic_rg4"), yaml_of("micro")
GOOD = """
title: Two rows
layout: mean
metrics: [f1, bleu4]
replicates: [{train.seed: 1}, {train.seed: 2}]
rows:
  - {name: one, set: {calibrate.gate_inputs: none}}
  - {name: two}
"""


def read(folder: Path, text: str) -> Study:
    (folder / "mine.yaml").write_text(text)
    return load_study(folder, "mine")


def planned(
    study: Study, params: str, weights: str = "null", changed: tuple[str, ...] = ()
) -> list[Run]:
    """The runs with these parameters; ``changed``: code that is not as it was."""

    def text(path: str) -> str:
        own = (REPOSITORY / path).read_text()
        return (
            params if path == "params.yaml" else own.replace("weights: null", f"weights: {weights}")
        )

    return plan(
        study, text, lambda paths: {path: "new" if path in changed else "old" for path in paths}
    )


def test_every_row_is_valid_in_the_profile_that_it_is_for() -> None:
    assert "main" in names_in(STUDIES, "studies")
    for name in names_in(STUDIES, "studies"):
        study = load_study(STUDIES, name)
        params = yaml_of("openi") if name == "openi" else PAPER
        ours = [row.name for row in study.rows if row.files is None]
        runs = planned(study, params, "released.pth")
        assert [study.rows[run.row].name for run in runs] == ours * len(study.replicates), name
        if any(row.needs for row in study.rows):
            without = {study.rows[run.row].name for run in planned(study, params)}
            assert without == {*ours} - {"LLM-RG4"}, name
    with pytest.raises(
        ConfigError, match=r"parent\.contexts has mw, but corpus\.contexts does not"
    ):
        planned(load_study(STUDIES, "adaptation"), yaml_of("mimic_rg4_sn"))


def test_rows_and_columns_are_those_of_the_published_tables() -> None:
    for name in ("components", "conventional_sn", "main", "mechanisms", "transfer"):
        study, table = load_study(STUDIES, name), load_published()[name]
        added = ["contradiction_rate"] if name == "main" else []
        assert study.metrics == [*table.metrics, *added], name
        published = [(block.name, system) for block in table.blocks for system in block.rows]
        own = [(row.group or table.blocks[0].name, row.name) for row in study.rows]
        if name not in ("main", "conventional_sn"):
            assert own == published, name
    main, conventional = (load_study(STUDIES, name) for name in ("main", "conventional_sn"))
    rows = {row.name: row for row in main.rows}
    others = {system for block in load_published()["main"].blocks for system in block.rows} - {
        *rows
    }
    assert others == {"PACER (Ours)", "CXRMate", "RadFM"}
    assert [row.target for row in main.rows] == [
        None,
        None,
        "llm_rg4_score",
        "simmlm_score",
        "ragpt_score",
    ]
    assert rows["SimMLM"].set == rows["RAGPT"].set == rows["PACER"].set  # one parent
    assert rows["PACER, select: agreement"].set == rows["PACER"].set | {
        "decode.select": "agreement"
    }
    literature, common = load_published()["conventional_sn"].blocks
    names = {"PACER (Ours)": "PACER (Refine + Commit)"}
    assert [row.name for row in conventional.rows] == [
        names.get(system, system) for system in common.rows
    ]
    assert all(system in " ".join(conventional.notes) for system in literature.rows)


def test_studies_and_rows_that_are_made_from_the_same_share_a_run_or_its_first_stages() -> None:
    runs = {
        name: planned(load_study(STUDIES, name), PAPER)
        for name in ("components", "mechanisms", "main")
    }
    made = {name: {run.key for run in planned} for name, planned in runs.items()}
    assert (len(made["components"]), len(made["mechanisms"])) == (5, 9)
    assert (
        len(made["mechanisms"] - made["components"]) == 5
        and len(made["main"] - made["components"]) == 3
    )
    _, refine, _, both, pacer = runs["components"]
    assert [stage for stage in both.keys if both.keys[stage] != pacer.keys[stage]] == [
        "calibrate",
        "decode",
        "score",
    ]
    assert (
        refine.keys["warmup"] == both.keys["warmup"]
        and refine.keys["parent"] != both.keys["parent"]
    )


def test_the_conventional_study_is_the_papers_profile() -> None:
    """On mimic_rg4_sn the study changes nothing but the controls of decoding, which that profile
    does not run."""
    params = yaml_of("mimic_rg4_sn")
    [run] = planned(load_study(STUDIES, "conventional_sn"), params)
    assert run.values["params.yaml"] == parse_yaml(params)


def test_a_sweep_is_judged_on_validation_cases() -> None:
    study = load_study(STUDIES, "lambda_cons")
    values = [run.values["params.yaml"] for run in planned(study, yaml_of("phantom"))]
    assert {one["decode"]["split"] for one in values} == {"val"}
    assert [one["calibrate"]["lambda_cons"] for one in values] == [
        float(row.name) for row in study.rows
    ]


def test_a_rows_own_value_wins_over_the_studys_and_every_replicate_has_a_name(
    tmp_path: Path,
) -> None:
    study = read(tmp_path, GOOD + "set: {calibrate.gate_inputs: h, calibrate.rank: 2}\n")
    one, two = ({"calibrate.rank": 2, "calibrate.gate_inputs": gate} for gate in ("none", "h"))
    assert study.overrides(0, "2") == one | {"train.seed": 2}
    assert study.overrides(1, "1") == two | {"train.seed": 1}
    world = {"corpus.seed": 101, "backbones.seed": 202}
    text = GOOD.replace("{train.seed: 1}", str(world)).replace(
        "{train.seed: 2}", "{corpus.seed: 3, backbones.seed: 3}"
    )
    trained = ", ".join(
        f"backbones.{kind}.provider: standin" for kind in ("vision", "language", "text", "chexbert")
    )
    worlds = read(tmp_path, f"{text}set: {{{trained}}}\n")
    assert (study.labels, worlds.labels) == (["1", "2"], ["101-202", "3"])
    names = [run.name.rpartition("-")[0] for run in planned(worlds, MICRO)]
    assert names == ["mine-one-101_202", "mine-two-101_202", "mine-one-3", "mine-two-3"]
    swapped = GOOD.replace("{train.seed: 1}, {train.seed: 2}", "{a.x: 1, b.x: 2}, {b.x: 1, a.x: 2}")
    assert read(tmp_path, swapped).labels == ["1-2", "2-1"]


@pytest.mark.parametrize(("old", "new", "told"), yaml_beside(__file__, "wrong_studies.yaml"))
def test_a_wrong_study_says_what_is_wrong(tmp_path: Path, old: str, new: str, told: str) -> None:
    assert len(planned(read(tmp_path, GOOD), MICRO)) == 4 and old in GOOD
    with pytest.raises(ConfigError, match=re.escape(told)):
        planned(read(tmp_path, GOOD.replace(old, new)), MICRO)


def test_overrides_change_only_their_values_and_keep_the_comments() -> None:
    text = yaml_of("micro")
    changed = overridden(
        text,
        {
            "calibrate.lambda_cons": 0.1,
            "commit.route": "direct",
            "decode.controls": [],
            "corpus.contexts": ["sn"],
        },
        "here",
    )
    expected = parse_yaml(text)
    expected["calibrate"]["lambda_cons"], expected["commit"]["route"] = 0.1, "direct"
    expected["corpus"]["contexts"], expected["decode"]["controls"] = ["sn"], []
    assert parse_yaml(changed) == expected
    comments = [line.partition("# ")[2] for line in text.splitlines() if "# " in line]
    # the comment of a list whose length changes may go; all others stay
    assert (
        len([line for line in changed.splitlines() if line.partition("# ")[2] in comments])
        >= len(comments) - 2
    )


def test_a_run_is_known_by_its_values_commands_and_code_but_not_by_comments(tmp_path: Path) -> None:
    study, text = read(tmp_path, GOOD), MICRO
    keys = [run.key for run in planned(study, text)]
    assert len(set(keys)) == 4 and all(len(key) == 10 for key in keys)
    assert [run.key for run in planned(study, text + "# a comment\n")] == keys
    assert [
        run.key for run in planned(study, text, changed=("pacer/reporting", "stages/report.py"))
    ] == keys
    assert not set(keys) & {run.key for run in planned(study, text, changed=("pacer/training",))}


@pytest.mark.parametrize("target", [None, "simmlm_score", "ragpt_score", "llm_rg4_score"])
def test_the_stages_of_a_score_are_those_that_it_needs(target: str | None) -> None:
    stages = {
        stage.name: stage
        for stage in read_stages(lambda path: (REPOSITORY / path).read_text(), target)
    }
    last = list(stages)[-1]
    assert last == (target or "score")
    assert ("parent" in stages) is (target != "llm_rg4_score") and ("calibrate" in stages) is (
        target is None
    )
    assert "report" not in stages
    code = {dep for stage in stages.values() for dep, maker in stage.deps.items() if maker is None}
    assert {path.split("/")[0] for path in code} == {"pacer", "stages"}
    assert not {"pacer/reporting", "pacer/serving", "pacer/studies", "pacer/config"} & code
    assert (
        stages["score" if target is None else last].deps["data/labels/references.parquet"]
        == "reference_labels"
    )
    assert stages["reference_labels"].deps["models/backbones/chexbert"] == "backbones"


def test_jobs_share_out_the_devices_and_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shares("1,2", 1) == [MachineShare("1,2")] and shares(None, 1) == [MachineShare()]
    assert [share.devices for share in shares("", 2)] == [None, None]
    assert [share.devices for share in shares("0,1,2", 2)] == ["0,2", "1"]
    assert [share.devices for share in shares("0", 2)] == ["0", "0"]
    cores = os.sched_getaffinity(0)
    for jobs in range(2, 2 * len(cores) + 1):
        given = [core for share in shares("", jobs) for core in share.cores or ()]
        assert set(given) == cores and len(given) == max(len(cores), jobs)
    monkeypatch.setattr("pacer.studies.worktree.core_count", lambda: 1)  # by a container's quota
    assert {share.cores for share in shares("", 3)} == {(min(cores),)}


def runner(tmp_path: Path, *names: str) -> StudyRunner:
    """Rows a and b of every dataset share a training."""
    keys = [{"train": name[1], "score": name} for name in names]
    runs = [
        Run(0, name[1], f"study-{name}", [], {}, {}, key)
        for name, key in zip(names, keys, strict=True)
    ]
    repository: Any = SimpleNamespace(root=tmp_path)
    dvc: Any = SimpleNamespace(cache=lambda root: str(root))
    study: Any = None
    return StudyRunner(study, repository, tmp_path, dvc, runs, print)


@pytest.mark.parametrize(("jobs", "order"), [(1, "a1 b1 a2 b2"), (2, "a1 a2 b1 b2")])
def test_a_job_takes_the_first_run_that_shares_the_fewest_stages_with_those_in_progress(
    tmp_path: Path, jobs: int, order: str
) -> None:
    """Of two jobs the second would wait for the training of a1 if it took b1."""
    made, names = runner(tmp_path, "a1", "b1", "a2", "b2"), []
    while (following := made._take()) is not None:
        names.append(following[1].name.removeprefix("study-"))
        made._busy[:] = made._busy[-1:] if jobs == 2 else []
    assert " ".join(names) == order


#: In the place of Slurm's programs: each writes down its arguments, one by one between bars.
PROGRAM = '#!/bin/sh\n(printf "%s" "${0##*/}"; printf "|%s" "$@"; echo) >> calls\n'
ROWS = """\
pacer study run main --row PACER
pacer study run main --row 'PACER, select: agreement'  # after 1
pacer study run main --row '"R" (+ 1)'  # after 1, 2
"""


def start(
    folder: Path, script: str, *arguments: str, given: str = "", **endings: str
) -> tuple[int, list[str]]:
    """Run a script; its exit code, and the calls of the programs that have these ``endings``."""
    for name, ending in endings.items():
        (folder / name).write_text(f"{PROGRAM}{ending}\n")
        (folder / name).chmod(0o755)
    variables = os.environ | {"SLURM_CPUS_PER_TASK": "12", "SLURM_JOB_ID": "7"}
    variables["PATH"] = f"{folder}:{variables['PATH']}"
    command = ["bash", str(REPOSITORY / "docs/examples/slurm" / script), *arguments]
    code = subprocess.run(
        command, cwd=folder, env=variables, input=given, text=True, check=False
    ).returncode
    return code, (folder / "calls").read_text().splitlines()


def test_each_row_is_a_job_after_those_that_it_needs(tmp_path: Path) -> None:
    code, calls = start(
        tmp_path, "submit.sh", given=ROWS, sbatch="echo $((100 + $(wc -l < calls)))';here'"
    )
    row = f"{REPOSITORY}/docs/examples/slurm/row.sh|pacer|study|run|main|--row"
    assert code == 0 and calls == [
        f"sbatch|--parsable|{row}|PACER",
        f"sbatch|--parsable|--dependency=afterok:101|{row}|PACER, select: agreement",
        f'sbatch|--parsable|--dependency=afterok:101:102|{row}|"R" (+ 1)',
    ]
    code, refused = start(tmp_path, "submit.sh", given=ROWS, sbatch="exit 1")
    assert code == 1 and refused == [*calls, calls[0]], "the rest is not submitted"


@pytest.mark.parametrize(
    ("ending", "requeued"), [(0, False), (1, False), (130, True), (143, False)]
)
def test_a_job_that_was_stopped_at_its_limit_and_no_other_is_queued_again(
    tmp_path: Path, ending: int, requeued: bool
) -> None:
    code, calls = start(
        tmp_path, "row.sh", "pacer", "--row", "a b", srun=f"exit {ending}", scontrol=""
    )
    assert (
        calls == ["srun|--cpus-per-task=12|pacer|--row|a b", *["scontrol|requeue|7"] * requeued]
        and code == ending
    )


def first_run(tiny: TinyRepository) -> tuple[Worktree, Run]:
    """A slot as the repository is now, and the run that is to be made in it."""
    repository, state = Repository(tiny.folder), tiny.folder / "studies" / "results"
    run = plan(load_study(tiny.folder / "studies", "tiny"), repository.read, repository.hashes)[0]
    return Worktree(repository, state / "slots" / "0", "/the/cache", state / "stages"), run


def prepared(tiny: TinyRepository) -> tuple[Worktree, Run]:
    tree, run = first_run(tiny)
    tree.prepare("tiny", run)
    return tree, run


def test_a_worktree_is_as_the_study_found_it_but_for_what_git_ignores(tiny: TinyRepository) -> None:
    tiny.write(
        "params.yaml", tiny.read("params.yaml").replace("weight_decay: 0.01", "weight_decay: 0.02")
    )
    tiny.write(".dvc/config.local", "['remote \"store\"']\n    url = /store\n")
    before = tiny.state()
    tree, run = prepared(tiny)
    assert tiny.state() == before
    text = (tree.tree / "params.yaml").read_text()
    assert "weight_decay: 0.02" in text and "seed: 10 " in text and "gate_inputs: none" in text
    config = (tree.tree / ".dvc" / "config.local").read_text()
    assert "url = /store" in config and "dir = /the/cache" in config
    assert read_json(tree.marker) == {"study": "tiny", "experiment": run.name}

    for path in ("code/stage.py", "metrics/scores.json", "models/weights.scratch/step"):
        (tree.tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree.tree / path).write_text("of a row")
    tiny.write("code/report.py", "# edited\n")
    tree, run = prepared(tiny)
    assert (tree.tree / "code/stage.py").read_text() == tiny.read("code/stage.py")
    assert (tree.tree / "code/report.py").read_text() == "# edited\n"
    assert (
        not (tree.tree / "metrics").exists()
        and (tree.tree / "models/weights.scratch/step").exists()
    )

    (tree.tree / "metrics").mkdir()
    for name in ("scores.json", "other.parquet"):
        (tree.tree / "metrics" / name).write_text("{}")
    tree.save(run)
    repository = Repository(tiny.folder)
    [(name, reference)] = repository.experiments().items()
    assert name == run.name and repository.read("metrics/scores.json", reference) == "{}"
    assert tiny.git("rev-parse", f"{reference}^") == tiny.git("rev-parse", "HEAD")
    assert "models" not in tiny.git("ls-tree", "--name-only", reference)
    assert "other.parquet" not in tiny.git("ls-tree", "-r", "--name-only", reference)


def test_what_dvc_records_of_a_stage_is_known_to_other_worktrees(tiny: TinyRepository) -> None:
    """And a lock that a killed DVC left half-written is none."""
    tree, run = prepared(tiny)
    entry = {"cmd": "python code/stage.py source", "outs": [{"path": "data/source", "md5": "a"}]}
    (tree.tree / "dvc.lock").write_text(
        f"schema: '2.0'\nstages: {{source: {entry}, score: {entry}}}\n"
    )
    tree.record(run, ["source", "train"])
    (tree.tree / "dvc.lock").write_text("schema: '2.0'\nstages: {source: ")
    tree.prepare("tiny", run)
    assert (
        "md5: a" in (tree.tree / "dvc.lock").read_text()
        and "score" not in (tree.tree / "dvc.lock").read_text()
    )
    assert not tree.import_stages(run)


def test_the_users_own_data_are_found_by_their_relative_path(tiny: TinyRepository) -> None:
    text = tiny.read("params.yaml")
    for path in ("../beside", "own/files"):
        tiny.write(f"{path}/file", path)
    tiny.write(".gitignore", tiny.read(".gitignore") + "/own\n")
    text = text.replace("prompt_file: null", "prompt_file: own/files", 1)
    tiny.write("params.yaml", text.replace("root: null", "root: ../beside", 1))
    tree, _ = prepared(tiny)
    assert all(
        (tree.tree / path / "file").read_text() == path for path in ("../beside", "own/files")
    )


@pytest.mark.parametrize("name", ["../..", "data", "code/../data", "linked"])
def test_a_path_above_the_repository_or_with_outputs_in_it_has_to_be_absolute(
    tiny: TinyRepository, name: str
) -> None:
    """Through a link in the worktree DVC would delete the user's outputs."""
    tiny.write("data/source/records", "of the user")
    (tiny.folder / "linked").symlink_to("data")
    tiny.write("params.yaml", tiny.read("params.yaml").replace("root: null", f"root: {name}", 1))
    tree, run = first_run(tiny)
    with pytest.raises(ConfigError, match=f"{name} must be an absolute path: /"):
        tree.prepare("tiny", run)
    assert not (tree.tree / "data").exists() and not (tree.tree / "linked").exists()


def test_answers_of_a_stopped_stage_are_kept(tiny: TinyRepository) -> None:
    """DVC restores all other outs, and these too for another row or once the stage has ended."""
    tiny.write("dvc.yaml", tiny.read("dvc.yaml").replace("data/source", "data/answers"))
    tree, run = first_run(tiny)
    assert run.outs["data/answers"] == {"persist": True}
    tree.prepare("tiny", run)
    (tree.tree / "data").mkdir()
    (tree.tree / "data/answers").write_text("one\n")
    assert tree.outs_to_restore(run) == list(run.outs)
    tree.prepare("tiny", run)
    assert tree.outs_to_restore(run) == [out for out in run.outs if out != "data/answers"]
    assert (tree.tree / "data/answers").read_text() == "one\n"
    (tree.tree / "dvc.lock").write_text("schema: '2.0'\nstages: {source: {cmd: x}}\n")
    tree.record(run, ["source"])
    assert tree.outs_to_restore(run) == list(run.outs)


def test_a_copied_repository_makes_worktrees_of_its_own(tiny: TinyRepository) -> None:
    original, _ = prepared(tiny)
    (original.tree / "code/report.py").write_text("# of the original\n")
    copied = object.__new__(TinyRepository)
    copied.folder = tiny.folder.with_name("copy")
    shutil.copytree(tiny.folder, copied.folder, symlinks=True)
    tree, _ = prepared(copied)
    assert str(copied.folder) in (tree.tree / ".git").read_text()
    shutil.rmtree(tree.tree)  # by hand, so git still lists it
    assert prepared(copied)[0].tree.is_dir()
    (copied.folder / ".git/worktrees/tree/HEAD").unlink()  # killed while git made it
    assert prepared(copied)[0].tree.is_dir()
    assert (original.tree / "code/report.py").read_text() == "# of the original\n"


def test_a_study_of_others_scores_alone_runs_nothing(tiny: TinyRepository) -> None:
    tiny.write("mine.txt", "not known to git")
    assert Repository(tiny.folder).hashes([]) == {}
