"""dvc.yaml against the code: the packages that imports reach, and every parameter and path that a
stage reads."""

import ast
import getpass
import os
import re
import runpy
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from pacer.config import Params
from pacer.config.model import MIXERS
from pacer.core.schemas import read_table
from pacer.model.checkpoint import specification_of
from pacer.training.run import Inputs
from tests.support.profiles import profile
from tests.support.rooms import BASELINES, PIPELINE, ROOT, STAGES, code_of, imports, script_of

#: Packages from the bottom to the top; one may use what stands in a row above its own.
LEVELS = (
    ("core",),
    ("display", "config"),
    ("text", "tables", "images"),
    ("corpus",),
    ("labels", "phantom", "backbones"),
    ("features", "emphasis"),
    ("standins", "model"),
    ("training", "metrics"),
    ("decoding", "statistics"),
    ("reporting",),
    ("serving",),
    ("extras",),
    ("cli",),
)
LEVEL = {package: level for level, packages in enumerate(LEVELS) for package in packages}
#: Paths in the scripts of stages that a run fills.
WRITTEN_BY_STAGES = re.compile(r"(?:data|models|predictions|metrics)(?:/\S+)?")


#: Largest number of packages that a stage depends on.
MOST = 9
SCORING = {"simmlm_score", "ragpt_score", "llm_rg4_score"}
#: Training of SimMLM and RAGPT writes reports, and so depends on decoding and on the rules.
BESIDE = {"simmlm", "ragpt", "simmlm_decode", "ragpt_decode", "llm_rg4_decode"}
#: An edited package -> all stages that it repeats, unless what an earlier one writes stays equal.
REPEATED = {
    "pacer/text/rules": {"standins", "anchor_llm", "anchors", "decode", "score", "report"}
    | {*BESIDE, *SCORING},
    "pacer/text/cleaning": {"source", "corpus", "standins", "emphasis", "decode", "score", "report"}
    | {*BESIDE, *SCORING},
    "pacer/tables": {"corpus", "score", *SCORING},
    "pacer/images": {"corpus", "standins", "features", "report"},
    "pacer/corpus": {"source", "corpus"},
    "pacer/phantom": {"source", "standins"},
    "pacer/standins": {"standins"},
    "pacer/labels": {"anchor_sample", "anchor_llm", "anchors"},
    "pacer/emphasis": {"emphasis"},
    "pacer/decoding": {"decode", *BESIDE},
    "pacer/metrics": {"score", "report", *SCORING},
    "pacer/statistics": {"report"},
    "pacer/reporting": {"report"},
    "pacer/display": {"corpus", "features", "anchors", "emphasis", "report"},
    "pacer/serving": set(),
    "pacer/cli": set(),
    "pacer/extras/probe": set(),
    "pacer/extras/certify": set(),
    "pacer/extras/studies": set(),
    "pacer/extras/llm_rg4": {"llm_rg4"},
    "pacer/extras/baselines": {"ragpt_bank", *BESIDE},
}
#: Stages that take hours of a GPU.
TRAINED = {"warmup", "parent", "calibrate"}


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_depends_on_the_packages_that_its_imports_reach(stage: str) -> None:
    named = {path for path in STAGES[stage]["deps"] if path.startswith(("stages/", "pacer/"))}
    reached = code_of(script_of(STAGES[stage]))
    assert named == reached
    assert sum(path.startswith("pacer/") for path in named) <= MOST


@pytest.mark.parametrize("package", REPEATED)
def test_an_edit_of_a_package_repeats_these_stages_alone(package: str) -> None:
    assert (ROOT / package).is_dir()
    assert {name for name, stage in STAGES.items() if package in stage["deps"]} == REPEATED[package]
    assert not REPEATED[package] & TRAINED


@pytest.mark.parametrize("stage", ["warmup", "parent", "calibrate", "lists", "decode"])
def test_a_stage_with_the_model_notices_an_edit_of_a_mixer(stage: str) -> None:
    """A mixer is named in a table, not imported."""
    assert "pacer/model" in STAGES[stage]["deps"]
    assert all(place.startswith("pacer.model.") for place in MIXERS.values())


def parameters_read(script: Path) -> set[str]:
    """``load_params().a.b`` and, through a name bound to it, ``params.a.b``: the longest chains."""
    nodes = list(ast.walk(ast.parse(script.read_text(encoding="utf-8"))))
    chains = {"load_params()": ""}

    def chain(node: ast.AST) -> str | None:
        source, _, rest = ast.unparse(node).partition(".")
        return (
            f"{chains[source]}.{rest}".strip(".") if source in chains and "(" not in rest else None
        )

    for node in nodes:
        if isinstance(node, ast.Assign) and (bound := chain(node.value)) is not None:
            chains[ast.unparse(node.targets[0])] = bound
    read = {found for node in nodes if isinstance(node, ast.Attribute) and (found := chain(node))}
    read |= {found for found in chains.values() if found}
    return {one for one in read if not any(other.startswith(f"{one}.") for other in read)}


@pytest.mark.parametrize("stage", [s for s in STAGES if s not in ("warmup", "parent", "calibrate")])
def test_every_parameter_that_a_stage_reads_is_declared(stage: str) -> None:
    declared = STAGES[stage].get("params", [])
    for read in parameters_read(script_of(STAGES[stage])):
        assert any(read == d or read.startswith(f"{d}.") for d in declared), f"{stage} reads {read}"


def test_scoring_depends_on_all_parameters_and_on_the_profiles() -> None:
    """Which the signature compares."""
    assert set(STAGES["score"]["params"]) == set(Params.model_fields)
    assert "configs" in STAGES["score"]["deps"]


@pytest.mark.parametrize(
    "stage", [s for s in PIPELINE if s not in ("warmup", "parent", "calibrate")]
)
def test_every_path_that_a_stage_names_is_declared(stage: str) -> None:
    """As a dependency or an output; a folder may be named for what lies in it."""
    outs = [*PIPELINE[stage].get("outs", []), *PIPELINE[stage].get("metrics", [])]
    written = [out if isinstance(out, str) else next(iter(out)) for out in outs]
    declared = [Path(path) for path in (*PIPELINE[stage]["deps"], *written)]
    for node in ast.walk(ast.parse(script_of(STAGES[stage]).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and WRITTEN_BY_STAGES.fullmatch(str(node.value)):
            path = Path(str(node.value))
            assert any(
                path.is_relative_to(other) or other.is_relative_to(path) for other in declared
            ), path


def package_of(module: str) -> str | None:
    """The package that a module of the package lies in; None for ``pacer`` itself, which names the
    public calls."""
    package = module.split(".")[1]
    return package if package in LEVEL else None


def test_data_flows_one_way() -> None:
    for path in (ROOT / "pacer").rglob("*.py"):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        package = package_of(module)
        if package is None:
            continue
        for other in map(package_of, imports(path)):
            if other is not None and other != package:
                assert LEVEL[other] < LEVEL[package], (
                    f"{path.relative_to(ROOT)}, of {package}, uses {other}"
                )


def test_nothing_in_the_library_imports_dvc_or_reads_the_environment() -> None:
    for path in (ROOT / "pacer").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"^\s*(import|from) dvc", text, re.MULTILINE), path
        # entry points set variables before torch and matplotlib are imported, which read them
        # then; programs that are started get an environment
        allowed = path.relative_to(ROOT / "pacer").as_posix() in (
            "core/machine.py",
            "core/stops.py",
        )
        assert allowed or ("os.environ" not in text and "getenv" not in text), path


def test_the_baselines_have_names_and_paths_of_their_own() -> None:
    assert not set(PIPELINE) & set(BASELINES)
    for stage in BASELINES.values():
        for kind in ("outs", "metrics", "plots"):
            for out in stage.get(kind, []):
                assert (out if isinstance(out, str) else next(iter(out))).startswith("baselines/")


def test_every_stage_says_what_it_is() -> None:
    assert all(stage.get("desc") for stage in STAGES.values())


PHASES = ("warmup", "parent", "calibrate")


@pytest.mark.parametrize("phase", PHASES)
def test_the_parameters_of_a_training_stage_are_those_that_its_phase_is_made_of(phase: str) -> None:
    """The groups that the checkpoint's record names, the phase's own, and those of the training
    itself."""
    made_of = {phase, "train", "batches", *specification_of(phase, profile("micro")).written()}
    assert {parameter.partition(".")[0] for parameter in STAGES[phase]["params"]} == made_of


def read_by(
    script: str, name: str, trainers: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> set[str]:
    """The files that a script gives to what trains, without the last paths and what logs."""
    given: list[Path] = []

    def note(settings: Any, params: Any, inputs: Inputs, *paths: Any) -> None:
        *read, _out, _open_log = paths
        given.extend(path for path in (*vars(inputs).values(), *read) if path is not None)

    monkeypatch.setattr("sys.argv", [script, name])
    monkeypatch.setitem(sys.modules, "run", SimpleNamespace(dvclive_log=nullcontext))
    monkeypatch.setattr("pacer.config.load_params", lambda: profile("micro"))
    monkeypatch.setattr(
        "pacer.config.baselines.load_baseline_params",
        lambda: SimpleNamespace(simmlm=None, ragpt=None),
    )
    for trainer in trainers:
        monkeypatch.setattr(trainer, note)
    runpy.run_path(str(ROOT / "stages" / script))["main"]()
    return set(map(str, given))


@pytest.mark.parametrize("phase", PHASES)
def test_a_training_stage_declares_the_files_that_its_phase_reads(
    phase: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = read_by("train.py", phase, ("pacer.training.run.run_phase",), monkeypatch)
    assert len(read) >= 4 and read <= set(STAGES[phase]["deps"])


def test_a_stage_says_where_it_stands_and_what_follows_a_training(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    place_of = runpy.run_path(str(ROOT / "stages" / "run.py"))["place_of"]
    names = [*PIPELINE]
    assert place_of(["stages/source.py"]) == f"stage 1 of {len(names)}: source"
    place = names.index("parent")
    expected = f"stage {place + 1} of {len(names)}: parent; then {', '.join(names[place + 1 :])}"
    assert place_of(["stages/train.py", "parent"]) == expected
    assert place_of(["stages/baseline_train.py", "simmlm"]) == ""


def test_curves_of_a_user_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that is started with the number of a user."""
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "")
    monkeypatch.setattr("pwd.getpwuid", lambda number: {}[number])
    runpy.run_path(str(ROOT / "stages" / "run.py"))["name_user"]()
    monkeypatch.setenv("LOGNAME", os.environ["LOGNAME"])  # taken back after the test
    assert getpass.getuser() == f"user-{os.getuid()}"


@pytest.mark.parametrize("baseline", ["simmlm", "ragpt"])
def test_a_baseline_declares_the_files_that_its_training_reads(
    baseline: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainers = tuple(f"pacer.extras.baselines.{name}.train_{name}" for name in ("simmlm", "ragpt"))
    read = read_by("baseline_train.py", baseline, trainers, monkeypatch)
    assert len(read) == 6 + (baseline == "ragpt") and read <= set(BASELINES[baseline]["deps"])


FOLDERS = "pacer", "stages", "baselines", "scorers"
CALLS = [
    (file, call)
    for folder in FOLDERS
    for file in sorted((ROOT / folder).rglob("*.py"))
    for call in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    if isinstance(call, ast.Call)
    and isinstance(call.func, ast.Attribute)
    and ast.unparse(call.func.value) == "pl"
]


def test_no_reader_of_polars_takes_a_path_for_a_pattern() -> None:
    readers = [
        (file, call) for file, call in CALLS if call.func.attr.startswith(("read_", "scan_"))
    ]
    for file, call in readers:
        given, options = (
            ast.unparse(call.args[0]),
            {option.arg: ast.unparse(option.value) for option in call.keywords},
        )
        fixed = isinstance(call.args[0], ast.Constant) and "*" not in given
        is_name = fixed or given == "file" or options.get("glob") == "False"
        assert is_name, (
            f"{file.relative_to(ROOT)}, line {call.lineno}: pass glob=False, or an opened file"
        )
    assert len(readers) > 7


@pytest.mark.parametrize(
    "name",
    ["exp[1]", "a*b", "is it?", "{a,b}", "100 %", "#1", "it's", 'in "quotes"', "-out", "größe"],
)
def test_a_table_is_read_from_the_folder_with_this_name(name: str, tmp_path: Path) -> None:
    for folder, number in (("exp1", 1), ("ab", 2), ("a", 3), (name, 4)):
        (tmp_path / folder).mkdir()
        pl.DataFrame({"number": [number]}).write_parquet(tmp_path / folder / "table.parquet")
    found = read_table(tmp_path / name / "table.parquet", {"number": pl.Int64()})
    assert found["number"].to_list() == [4]
