"""Definitions of tables of experiments, and the runs that they plan."""

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from pacer.config.params import names_in
from pacer.core.errors import ConfigError
from pacer.core.io import parse_yaml, yaml_beside
from pacer.extras.studies.repository import Repository
from pacer.extras.studies.run import Run, plan
from pacer.extras.studies.study import Study, load_published, load_study
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


class Workspace:
    """The files of this repository that a plan reads, with these parameters and an ``edited`` file,
    without git."""

    def __init__(self, folder: Path, params: str, weights: str, edited: str):
        self.root, self.edited = folder, edited
        (folder / "baselines").mkdir()
        for path in ("dvc.yaml", "baselines/stages.yaml"):
            shutil.copy(REPOSITORY / path, folder / path)
        own = (REPOSITORY / "baselines/params.yaml").read_text()
        (folder / "baselines/params.yaml").write_text(
            own.replace("weights: null", f"weights: {weights}")
        )
        (folder / "params.yaml").write_text(params)

    def objects(self) -> dict[str, str]:
        """List the code as git does: an edit changes the objects of the file and its folders."""
        return {
            path: "new" if f"{self.edited}/".startswith(f"{path}/") else "old"
            for path in committed()
        }


@cache
def committed() -> list[str]:
    folders = [REPOSITORY / name for name in ("pacer", "stages", "configs")]
    paths = [path for folder in folders for path in (folder, *folder.rglob("*"))]
    return [str(path.relative_to(REPOSITORY)) for path in paths]


def planned(study: Study, params: str, weights: str = "null", edited: str = "") -> list[Run]:
    """The runs with these parameters, after a commit that edits this file."""
    with TemporaryDirectory() as folder:
        workspace: Any = Workspace(Path(folder), params, weights, edited)
        return plan(study, workspace)


def test_every_row_is_valid_in_the_profile_that_it_is_for() -> None:
    assert "main" in names_in(STUDIES, "studies")
    for name in names_in(STUDIES, "studies"):
        study = load_study(STUDIES, name)
        params = yaml_of("openi") if name == "openi" else PAPER
        ours = [row.name for row in study.rows]
        runs = planned(study, params, "released.pth")
        assert [run.row for run in runs] == ours * len(study.replicates), name
        if any(row.needs for row in study.rows):
            without = {run.row for run in planned(study, params)}
            assert without == {*ours} - {"LLM-RG4"}, name
    with pytest.raises(
        ConfigError, match=r"parent\.contexts has mw, but corpus\.contexts does not"
    ):
        planned(load_study(STUDIES, "adaptation"), yaml_of("mimic_rg4_sn"))


def test_rows_and_columns_are_those_of_the_published_tables() -> None:
    for name in ("components", "conventional_sn", "main", "mechanisms"):
        study, table = load_study(STUDIES, name), load_published()[name]
        added = ["contradiction_rate"] if name == "main" else []
        assert study.metrics == [*table["metrics"], *added], name
        published = [
            (block["name"], system) for block in table["blocks"] for system in block["rows"]
        ]
        own = [(row.group or table["blocks"][0]["name"], row.name) for row in study.rows]
        if name not in ("main", "conventional_sn"):
            assert own == published, name
    main, conventional = (load_study(STUDIES, name) for name in ("main", "conventional_sn"))
    rows = {row.name: row for row in main.rows}
    blocks = load_published()["main"]["blocks"]
    others = {system for block in blocks for system in block["rows"]} - {*rows}
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
    assert [row.name for row in conventional.rows] == ["LLM-RG4", "PACER (Refine + Commit)"]


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
    first, second = study.replicates
    assert study.overrides(study.rows[0], second) == one | {"train.seed": 2}
    assert study.overrides(study.rows[1], first) == two | {"train.seed": 1}
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


def test_a_run_is_known_by_its_values_but_not_by_comments(tmp_path: Path) -> None:
    study, text = read(tmp_path, GOOD), MICRO
    names = [run.name for run in planned(study, text)]
    assert len(set(names)) == 4 and all(len(name.rpartition("-")[2]) == 10 for name in names)
    assert [run.name for run in planned(study, text + "# a comment\n")] == names
    other = planned(study, text.replace("window: 32", "window: 8"))
    assert "window: 32" in text and not {run.name for run in other} & {*names}


@pytest.mark.parametrize(
    ("edited", "changed"),
    [
        ("pacer/reporting/pages.py", []),
        ("pacer/statistics/halves.py", []),
        ("pacer/extras/studies/run.py", []),
        ("pacer/config/params.py", []),
        ("stages/report.py", []),
        ("pacer/extras/baselines/simmlm.py", ["SimMLM"]),
        ("stages/score.py", ["PACER", "SimMLM"]),
        ("pacer/core/io.py", ["PACER", "SimMLM"]),
        ("pacer/corpus/build_corpus.py", ["PACER", "SimMLM"]),
        ("pacer/metrics/scores.py", ["PACER", "SimMLM"]),
        ("configs/micro.yaml", ["PACER", "SimMLM"]),
    ],
)
def test_an_edit_renames_only_runs_whose_stages_depend_on_it(
    tmp_path: Path, edited: str, changed: list[str]
) -> None:
    """By the real definitions."""
    assert edited in committed()
    study = read(
        tmp_path, GOOD.replace("two}", "SimMLM, target: simmlm_score}").replace(" one,", " PACER,")
    )
    before, after = planned(study, MICRO), planned(study, MICRO, edited=edited)
    renamed = {old.row for old, new in zip(before, after, strict=True) if old.name != new.name}
    assert sorted(renamed) == changed


@pytest.mark.parametrize(
    ("file", "old", "new", "changed"),
    [
        ("pacer/reporting/page.txt", "", "edited", []),
        ("pacer/core/words.txt", "", "edited", ["SimMLM", "gated"]),
        ("pacer/extras/baselines/gate.txt", "", "edited", ["SimMLM"]),
        ("dvc.yaml", "mkdir reports", "mkdir -p reports", []),
        ("dvc.yaml", "stage.py train", "stage.py train --fast", ["SimMLM", "gated"]),
        ("dvc.yaml", "stage.py score", "stage.py score --fast", ["SimMLM", "gated"]),
        ("baselines/stages.yaml", "stage.py simmlm", "stage.py simmlm --fast", ["SimMLM"]),
    ],
)
def test_a_commit_renames_only_runs_whose_stages_depend_on_it(
    tiny: TinyRepository, file: str, old: str, new: str, changed: list[str]
) -> None:
    def names() -> dict[str, str]:
        runs = plan(load_study(tiny.folder / "studies", "tiny"), Repository(tiny.folder))
        return {run.row: run.name for run in runs if run.row in ("gated", "SimMLM")}

    before, text = names(), tiny.read(file)
    tiny.write(file, text.replace(old, new) if old else new)
    tiny.commit()
    assert tiny.read(file) != text
    after = names()
    assert sorted(row for row, name in before.items() if after[row] != name) == changed


def test_the_options_of_a_run_are_what_dvc_reads(tmp_path: Path) -> None:
    """Hydra, with which DVC reads them, takes JSON."""
    text = GOOD.replace(
        "{name: two}", "{name: two, set: {decode.controls: [], decode.limit: null}}"
    )
    run = planned(read(tmp_path, text), MICRO)[1]
    assert run.options == [
        *("--name", run.name),
        *("-S", "train.seed=1"),
        *("-S", "decode.controls=[]"),
        *("-S", "decode.limit=null"),
    ]


@pytest.mark.parametrize("target", [None, "simmlm_score", "ragpt_score", "llm_rg4_score"])
def test_a_row_has_the_stages_of_its_baseline_and_the_folder_of_its_scores(
    tmp_path: Path, target: str | None
) -> None:
    text = GOOD.replace("{name: two}", f"{{name: two, target: {target or 'null'}}}")
    run = planned(read(tmp_path, text), MICRO)[1]
    assert run.target == (target or "score")
    assert run.scores == ("metrics" if target is None else f"baselines/metrics/{target[:-6]}")
    assert {run.target, "score", "parent"} <= run.stages.keys() and "report" not in run.stages
    stage = run.stages[run.target]
    written = str([*stage["outs"], *stage.get("metrics", [])])
    assert f"'{run.scores}/scores.json'" in written
    own = parse_yaml((REPOSITORY / "dvc.yaml").read_text())["stages"]
    # DVC would miss the outputs of baselines that were never run
    assert all(name.startswith(f"{target}"[:-6]) for name in run.stages.keys() - own.keys())


#: In the place of Slurm's programs: each writes down its arguments, one by one between bars.
PROGRAM = '#!/bin/sh\n(printf "%s" "${0##*/}"; printf "|%s" "$@"; echo) >> calls\n'


def start(folder: Path, script: str, *arguments: str, **endings: str) -> tuple[int, list[str]]:
    """Run a script; its exit code, and the calls of the programs that have these ``endings``."""
    for name, ending in endings.items():
        (folder / name).write_text(f"{PROGRAM}{ending}\n")
        (folder / name).chmod(0o755)
    variables = os.environ | {"SLURM_CPUS_PER_TASK": "12", "SLURM_JOB_ID": "7"}
    variables["PATH"] = f"{folder}:{variables['PATH']}"
    command = ["bash", str(REPOSITORY / "docs/examples/slurm" / script), *arguments]
    code = subprocess.run(command, cwd=folder, env=variables, check=False).returncode
    return code, (folder / "calls").read_text().splitlines()


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
