"""Definitions of studies: those of the repository fit every profile, and a wrong one says what is wrong."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from dvc.fs import localfs
from dvc.ignore import DvcIgnoreFilter
from dvc_data.hashfile.build import build
from dvc_data.hashfile.db import HashFileDB
from ruamel.yaml import YAML

from pacer.config import parse_params, validated
from pacer.config.profiles import profile_text
from pacer.core.errors import ConfigError
from pacer.studies.pipeline import Lock, Pipeline, code_hash
from pacer.studies.plan import Run, identify, overridden, plan
from pacer.studies.study import Study, load_study, study_names

ROOT = Path(__file__).parents[3]
STUDIES = ROOT / "studies"
GOOD = """
title: Two rows
layout: mean
metrics: [f1, bleu4]
seeds: [1, 2]
rows:
  - {name: one, set: {calibrate.gate_inputs: none}}
  - {name: two}
"""


def read(folder: Path, text: str) -> Study:
    (folder / "mine.yaml").write_text(text)
    return load_study(folder, "mine")


BASELINES = ROOT / "baselines" / "params.yaml"


@cache
def pipeline_of(target: str | None) -> Pipeline:
    return Pipeline.read(ROOT, target)


def planned(study: Study, params: str, code: str = "code", weights: str = "null") -> list[Run]:
    baselines = BASELINES.read_text().replace("weights: null", f"weights: {weights}")
    texts = {"params.yaml": params, "baselines/params.yaml": baselines}
    pipelines = {target: pipeline_of(target) for target in {None} | {row.target for row in study.rows}}
    return plan(study, texts, pipelines, lambda path: code, [])


def text_of(profile: str) -> str:
    """The parameter file of a profile."""
    return profile_text(ROOT / "configs" / f"{profile}.yaml")


def effective(study: Study, profile: str) -> list[dict]:
    """Parameters of every run of a study on a profile."""
    runs = planned(study, text_of(profile))
    return [run.params.model_dump(mode="json") for run in runs]


def test_every_row_is_valid_in_the_profile_that_it_is_for() -> None:
    for name in study_names(STUDIES):
        study = load_study(STUDIES, name)
        params = text_of("openi" if name.startswith("openi") else "mimic_rg4")
        ours = [row.name for row in study.rows if row.files is None]
        for weights, expected in (("released.pth", ours), ("null", [row for row in ours if row != "LLM-RG4"])):
            runs = planned(study, params, weights=weights)
            assert [run.name for run in runs] == expected * len(study.seeds), name
    with pytest.raises(ConfigError, match=r"parent\.contexts has mw, but corpus\.contexts does not"):
        planned(load_study(STUDIES, "adaptation"), text_of("mimic_rg4_sn"))


def test_the_rows_of_table_1_are_the_papers_and_what_they_can_be_of_ours() -> None:
    from pacer.reporting.published import load_published

    rows = {row.name: row for row in load_study(STUDIES, "main").rows}
    assert [one.systems for one in load_study(STUDIES, "main").absent] == [["CXRMate", "RadFM"]]
    published = {system for block in load_published()["main"].blocks for system in block.rows}
    assert published - {name if name != "PACER" else "PACER (Ours)" for name in rows} == {"CXRMate", "RadFM"}
    assert {name: row.target for name, row in rows.items()} == {
        "PACER": None,
        "LLM-RG4": "llm_rg4_score",
        "SimMLM": "simmlm_score",
        "RAGPT": "ragpt_score",
    }
    assert rows["SimMLM"].set == rows["RAGPT"].set == rows["PACER"].set  # one parent


def test_the_rows_of_table_2_are_those_that_have_a_runner_or_reports() -> None:
    from pacer.reporting.published import load_published

    study = load_study(STUDIES, "conventional_sn")
    literature, common = load_published()["conventional_sn"].blocks
    assert [system for one in study.absent for system in one.systems if system not in literature.rows] == []
    assert {system for one in study.absent for system in one.systems} == set(literature.rows)
    names = {"PACER (Ours)": "PACER (Refine + Commit)"}
    assert [row.name for row in study.rows] == [names.get(system, system) for system in common.rows]
    assert all(row.how for row in study.rows if row.files is not None)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"absent": [{"systems": ["Nobody"], "why": "x"}]}, "Nobody must be a system of the published table"),
        ({"absent": [{"systems": ["LLM-RG4"], "why": "x"}]}, "that is none of the rows"),
        ({"rows": [{"name": "a", "how": "x"}]}, "how says what makes the reports of a row with files"),
    ],
)
def test_reasons_belong_to_rows_that_are_missing(change: dict, said: str) -> None:
    study = load_study(STUDIES, "main").model_dump()
    with pytest.raises(ConfigError, match=said):
        validated(study | {"against": None} | change, "s", Study)


def test_a_baselines_own_seed_follows_the_studys() -> None:
    study = load_study(STUDIES, "main").model_copy(update={"seeds": [42, 43]})
    runs = planned(study, text_of("phantom"))
    assert len({run.key for run in runs}) == len(runs) == 6
    for run in runs:
        assert run.params.train.seed == run.seed
        if run.target is not None:
            own = run.values["baselines/params.yaml"][run.target.removesuffix("_score")]
            assert (own["seed"], own["updates"]) == (run.seed, 20_000)


def test_rows_and_columns_are_those_of_the_published_table() -> None:
    from pacer.reporting.published import load_published

    for name in ("components", "conventional_sn", "main", "mechanisms", "transfer", "transfer_mean"):
        study = load_study(STUDIES, name)
        table = load_published()[str(study.published)]
        assert tuple(study.metrics) == table.metrics, name
        if name not in ("main", "conventional_sn"):
            published = [(block.name, system) for block in table.blocks for system in block.rows]
            own = [(row.group or table.blocks[0].name, row.name) for row in study.rows]
            assert own == published, name


def test_mechanisms_differ_in_one_mechanism_and_share_their_control() -> None:
    study = load_study(STUDIES, "mechanisms")
    switches = {(row.group, row.name): tuple(row.set.values()) for row in study.rows}
    assert {tuple(row.set) for row in study.rows} == {("refine.variant", "commit.route", "calibrate.gate_inputs")}
    control = ("patchwise", "stochastic", "none")
    for column, group in enumerate(("Refine", "Commit", "Calibrate")):
        values = [found for (own, _), found in switches.items() if own == group]
        assert control in values and len(set(values)) == len(values)
        for found in values:
            others = [value for index, value in enumerate(found) if index != column]
            assert others == [value for index, value in enumerate(control) if index != column]


def test_mechanisms_need_five_runs_more_than_components() -> None:
    made = {
        name: {repr(found) for found in effective(load_study(STUDIES, name), "mimic_rg4")}
        for name in ("components", "mechanisms", "main")
    }
    assert (len(made["components"]), len(made["mechanisms"])) == (5, 9)
    assert len(made["mechanisms"] - made["components"]) == 5 and made["main"] <= made["components"]


def test_the_conventional_study_is_the_papers_profile() -> None:
    """On mimic_rg4_sn the study changes nothing but the controls of decoding, which that profile does not run."""
    profile = YAML(typ="safe").load(text_of("mimic_rg4_sn"))
    [found] = effective(load_study(STUDIES, "conventional_sn"), "mimic_rg4_sn")
    assert found == parse_params(profile).model_dump(mode="json")


def test_a_sweep_is_judged_on_validation_cases() -> None:
    study = load_study(STUDIES, "lambda_cons")
    assert {found["decode"]["split"] for found in effective(study, "phantom")} == {"val"}
    weights = [found["calibrate"]["lambda_cons"] for found in effective(study, "phantom")]
    assert weights == [float(row.name) for row in study.rows] and 0.05 in weights


def test_a_rows_own_value_wins_over_the_studys(tmp_path: Path) -> None:
    study = read(tmp_path, GOOD + "set: {calibrate.gate_inputs: h, calibrate.rank: 2}\n")
    assert study.overrides(study.rows[0], 2) == {"calibrate.gate_inputs": "none", "calibrate.rank": 2, "train.seed": 2}
    assert study.overrides(study.rows[1], 1)["calibrate.gate_inputs"] == "h"


def test_seeds_of_worlds_leave_the_training_alone(tmp_path: Path) -> None:
    study = read(tmp_path, GOOD + "seeds_of: world\nset: {train.seed: 3}\n")
    assert study.overrides(study.rows[1], 2).items() >= {"corpus.seed": 2, "backbones.seed": 2, "train.seed": 3}.items()
    with pytest.raises(ConfigError, match=r"corpus\.seed is set by seeds"):
        read(tmp_path, GOOD + "seeds_of: world\nset: {corpus.seed: 3}\n")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("title: Two rows", "titel: Two rows", "unknown key titel"),
        ("[f1, bleu4]", "[f1, bleu5]", "metrics.1 = 'bleu5'"),
        ("[f1, bleu4]", "[f1, f1]", "metrics holds a value twice"),
        ("[1, 2]", "[1, 1]", "seeds holds a value twice"),
        ("[1, 2]", "[]", "seeds = []"),
        ("name: two", "name: one", "the same name"),
        ("name: two", "name: two, files: there, set: {a.b: 1}", "not both"),
        ("calibrate.gate_inputs: none", "train.seed: 3", "train.seed is set by seeds"),
        ("rows:", "against: three\nrows:", "against: three is not one of the rows"),
        ("rows:", "compared: [[two, three]]\nrows:", "compared: three must be the name of one row"),
        ("rows:", "compared: [[two, two]]\nrows:", "compared: two cannot be tested against itself"),
        ("rows:", "published: nowhere\nrows:", "published: nowhere is not one of main, conventional_sn"),
        ("rows:", "name: other\nrows:", "named by its file"),
        ("layout: mean", "layout: [", "not valid YAML"),
    ],
)
def test_a_wrong_study_says_what_is_wrong(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert read(tmp_path, GOOD).seeds == [1, 2]
    assert old in GOOD
    with pytest.raises(ConfigError, match=r"mine\.yaml") as error:
        read(tmp_path, GOOD.replace(old, new))
    assert said in str(error.value)


def test_a_pair_that_is_named_twice_is_tested_once(tmp_path: Path) -> None:
    study = read(tmp_path, GOOD.replace("rows:", "against: one\ncompared: [[two, one]]\nrows:"))
    assert study.tested() == [(1, 0)]


def test_a_study_that_is_not_there_names_those_that_are(tmp_path: Path) -> None:
    read(tmp_path, GOOD)
    with pytest.raises(ConfigError, match=r"unknown study 'yours'.*mine"):
        load_study(tmp_path, "yours")
    with pytest.raises(ConfigError, match="root of the repository"):
        study_names(tmp_path / "elsewhere")


def test_overrides_change_their_values_alone_and_keep_the_comments() -> None:
    yaml = YAML(typ="safe")
    text = text_of("micro")
    changed = overridden(
        text, {"calibrate.lambda_cons": 0.1, "commit.route": "direct", "decode.controls": [], "corpus.contexts": ["sn"]}
    )
    expected = yaml.load(text)
    expected["calibrate"]["lambda_cons"], expected["commit"]["route"] = 0.1, "direct"
    expected["corpus"]["contexts"], expected["decode"]["controls"] = ["sn"], []
    assert yaml.load(changed) == expected
    comments = [line.partition("# ")[2] for line in text.splitlines() if "# " in line]
    # the comment of a list whose length changes may go; all others stay
    assert len([line for line in changed.splitlines() if line.partition("# ")[2] in comments]) >= len(comments) - 2


@pytest.mark.parametrize("key", ["calibrate.lambda", "nothing.at_all", "train.workers.more", "calibrat"])
def test_an_override_that_is_no_parameter_is_refused(tmp_path: Path, key: str) -> None:
    study = read(tmp_path, GOOD.replace("calibrate.gate_inputs: none", f"{key}: 1"))
    with pytest.raises(ConfigError, match=f"study mine, row one: {key} is no parameter"):
        planned(study, text_of("micro"))


def test_a_key_depends_on_values_and_code_but_not_on_comments(tmp_path: Path) -> None:
    study = read(tmp_path, GOOD)
    text = text_of("micro")
    keys = [run.key for run in planned(study, text)]
    assert len(set(keys)) == 4
    assert [run.key for run in planned(study, text + "# a comment\n")] == keys
    assert not set(keys) & {run.key for run in planned(study, text, "other code")}


def test_stages_before_the_training_prepare_data() -> None:
    pipeline = PIPELINE
    assert {stage.name for stage in pipeline.stages} - pipeline.data == {
        "warmup",
        "parent",
        "calibrate",
        "decode",
        "score",
    }


def test_code_has_the_hash_that_dvc_has_for_it(tmp_path: Path) -> None:
    """As `dvc.lock` has it of these files: a hash that differs would take every stage for one that has changed."""
    for name, text in (("a.py", "1\n"), ("b/c.py", "x\n"), ("b/__pycache__/c.cpython-311.pyc", "byte-code")):
        (tmp_path / "code" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "code" / name).write_text(text)
    (tmp_path / ".dvcignore").write_text((ROOT / ".dvcignore").read_text())
    ignored = DvcIgnoreFilter(localfs, str(tmp_path))
    _, _, built = build(HashFileDB(localfs, str(tmp_path)), str(tmp_path / "code"), localfs, "md5", ignore=ignored)
    assert code_hash(tmp_path, "code") == built.hash_info.value
    assert code_hash(tmp_path, "code/a.py") == "b026324c6904b2a9cb4b88d6d61c81d1"


def recorded(pipeline: Pipeline, values: dict, code) -> Lock:
    """What `dvc.lock` is after the stages that prepare data have run with this code and these parameters."""
    lock: Lock = {}
    for stage in pipeline.stages:
        if stage.name in pipeline.data:
            params = {file: {key: get(values[file], key) for key in keys} for file, keys in stage.params.items()}
            deps = [
                {"path": path, "md5": f"{path} made" if pipeline.out_of(path) else code(path)} for path in stage.deps
            ]
            outs = [{"path": path, "md5": f"{path} made"} for path in stage.outs]
            lock[stage.name] = {"cmd": stage.cmd, "deps": deps, "params": params, "outs": outs}
    return lock


def get(values: dict, key: str):
    for part in key.split("."):
        values = values[part]
    return values


PIPELINE = pipeline_of(None)


@pytest.mark.parametrize("target", [None, "simmlm_score", "llm_rg4_score"])
def test_code_of_readers_phantom_and_labelling_is_in_no_key(target: str | None) -> None:
    """What prepares data counts as the data that it made; a room that a model or its scores need, as its code."""
    pipeline = pipeline_of(target)
    values = {file: YAML(typ="safe").load((ROOT / file).read_text()) for file in pipeline.files}

    def before(path: str) -> str:
        return f"{path} as it was"

    locks = [recorded(pipeline, values, before)]
    key = identify(pipeline, values, before, locks).key
    readers = [
        stage for stage in pipeline.stages if stage.name not in {*pipeline.data} or stage.name == "reference_labels"
    ]
    for path in PIPELINE.code:
        edited = {path: f"{path} edited"}
        same = (
            identify(pipeline, values, lambda other, edited=edited: edited.get(other, before(other)), locks).key == key
        )
        assert same is not any(path in stage.deps for stage in readers), path
        if path.startswith(
            ("pacer/phantom", "pacer/data/readers", "pacer/commitments/targets", "pacer/features/encode.py")
        ):
            assert same, path
        if path.startswith(("pacer/training", "pacer/decoding")) and target != "llm_rg4_score":
            assert not same, path


def test_no_key_has_documentation_tests_or_pages_in_it() -> None:
    for target in (None, "simmlm_score", "ragpt_score", "llm_rg4_score"):
        code = pipeline_of(target).code
        assert {path.split("/")[0] for path in code} == {"pacer", "stages"}
        assert not {"pacer/reporting", "pacer/serving", "pacer/studies", "pacer/config"} & set(code)


def test_other_data_are_another_key() -> None:
    values = {"params.yaml": YAML(typ="safe").load((ROOT / "params.yaml").read_text())}
    lock = recorded(PIPELINE, values, str)
    key = identify(PIPELINE, values, str, [lock]).key
    lock["features"]["outs"][0]["md5"] = "other"
    assert identify(PIPELINE, values, str, [lock]).key != key
