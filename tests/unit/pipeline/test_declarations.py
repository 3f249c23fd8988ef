"""dvc.yaml against the code: what a stage's imports reach, and every parameter and path that it reads."""

import ast
import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from pacer.config.model import MIXERS
from tests.support.stage_deps import DEFINITIONS, ROOT, imports, script_of, with_deps

PIPELINE = YAML(typ="safe").load(ROOT / "dvc.yaml")["stages"]
BASELINES = YAML(typ="safe").load(ROOT / "baselines" / "stages.yaml")["stages"]
STAGES = PIPELINE | BASELINES  # the paths of both start at the root
#: Packages from the bottom to the top; one may use what stands in a row above its own.
LEVELS = (
    ("core",),
    ("config",),
    ("data", "backbones.tokenizer", "backbones.families"),
    ("commitments", "features", "metrics.chexbert", "phantom", "model"),
    ("backbones", "metrics", "training", "decoding", "emphasis"),
    ("baselines",),
    ("reporting",),
    ("serving", "studies"),
)
LEVEL = {package: level for level, packages in enumerate(LEVELS) for package in packages}
#: Paths in the scripts of stages that a run fills.
WRITTEN_BY_STAGES = re.compile(r"(?:data|models|predictions|metrics)(?:/\S+)?")


@pytest.mark.parametrize("name", DEFINITIONS)
def test_the_code_of_every_stage_is_what_its_imports_reach(name: str) -> None:
    definition = (ROOT / name).read_text(encoding="utf-8")
    assert with_deps(definition) == definition, "the deps of stages differ from their imports; run `make deps`"


@pytest.mark.parametrize("stage", ["features", "warmup", "parent", "calibrate", "findings", "decode"])
def test_no_stage_on_a_gpu_lists_what_it_does_not_need(stage: str) -> None:
    """An edit of a reader, the phantom, the labelling client or a score repeats no hours of a GPU."""
    elsewhere = ("data/readers", "data/build_corpus", "phantom", "commitments/endpoint", "metrics", "reporting")
    assert not [d for d in STAGES[stage]["deps"] if d.startswith(tuple(f"pacer/{path}" for path in elsewhere))]
    assert not {"pacer/data", "pacer/commitments", "pacer"} & set(STAGES[stage]["deps"])


@pytest.mark.parametrize("stage", ["warmup", "parent", "calibrate", "findings", "decode"])
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
        return f"{chains[source]}.{rest}".strip(".") if source in chains and "(" not in rest else None

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


@pytest.mark.parametrize("stage", [s for s in PIPELINE if s not in ("warmup", "parent", "calibrate")])
def test_every_path_that_a_stage_names_is_declared(stage: str) -> None:
    """As a dependency or an output; a folder may be named for what lies in it."""
    outs = [*PIPELINE[stage].get("outs", []), *PIPELINE[stage].get("metrics", [])]
    written = [out if isinstance(out, str) else next(iter(out)) for out in outs]
    declared = [Path(path) for path in (*PIPELINE[stage]["deps"], *written)]
    for node in ast.walk(ast.parse(script_of(STAGES[stage]).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and WRITTEN_BY_STAGES.fullmatch(str(node.value)):
            path = Path(str(node.value))
            assert any(path.is_relative_to(other) or other.is_relative_to(path) for other in declared), path


def package_of(module: str) -> str | None:
    """The package that a module of the package lies in; None for the command line, which calls every package."""
    parts = module.split(".")[1:]
    return next((name for n in (2, 1) if (name := ".".join(parts[:n])) in LEVEL), None)


def test_data_flows_one_way() -> None:
    for path in (ROOT / "pacer").rglob("*.py"):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        package = package_of(module)
        if package is None:
            continue
        for other in map(package_of, imports(path)):
            if other is not None and other != package:
                assert LEVEL[other] < LEVEL[package], f"{path.relative_to(ROOT)}, of {package}, uses {other}"


def test_nothing_in_the_library_imports_dvc_or_reads_the_environment() -> None:
    for path in (ROOT / "pacer").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"^\s*(import|from) dvc", text, re.MULTILINE), path
        # how threads wait, and where figures go, has to be said before torch and matplotlib are imported, and there is
        # no other way to say it; programs that are started get an environment
        allowed = path.relative_to(ROOT / "pacer").as_posix() in ("__init__.py", "core/stops.py")
        assert allowed or ("os.environ" not in text and "getenv" not in text), path


def test_the_baselines_have_names_and_paths_of_their_own() -> None:
    assert not set(PIPELINE) & set(BASELINES)
    for stage in BASELINES.values():
        for kind in ("outs", "metrics", "plots"):
            for out in stage.get(kind, []):
                assert (out if isinstance(out, str) else next(iter(out))).startswith("baselines/")


def test_every_stage_says_what_it_is() -> None:
    assert all(stage.get("desc") for stage in STAGES.values())
