"""dvc.yaml against the code: everything that a stage's imports reach is declared, and so is every parameter."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[3]
PIPELINE = YAML(typ="safe").load(ROOT / "dvc.yaml")["stages"]
BASELINES = YAML(typ="safe").load(ROOT / "baselines" / "stages.yaml")["stages"]
STAGES = PIPELINE | BASELINES  # the paths of both start at the root
#: DVC tracks the parameters' values, so their code is in no deps.
PARAMS = ROOT / "pacer" / "config"
#: Packages from the bottom to the top; one may use what stands in a row above its own.
LEVELS = (
    ("core", "model.prompt"),
    ("config",),
    ("backbones.pointers",),
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
STAGE_OF_SCRIPT = re.compile(r"stages/(?!launch|run)(\w+)\.py(?: (\w+))?")


@cache
def imports(path: Path) -> set[str]:
    """Modules of the package that a file imports, wherever in the file, and a script's neighbours."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (ROOT / "stages" / f"{node.module}.py").exists():
            found.add(f"stages.{node.module}")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pacer"):
            found.add(node.module or "")
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.startswith("pacer")}
    return found


def files_of(modules: set[str]) -> set[Path]:
    files = set()
    for module in modules:
        path = ROOT / module.replace(".", "/")
        files |= {p for p in (path.with_suffix(".py"), path / "__init__.py") if p.exists()}
    return files


@cache
def reached(script: Path) -> set[Path]:
    """All files that a script's imports reach, its own among them."""
    seen: set[Path] = set()
    todo = {script}
    while todo:
        path = todo.pop()
        seen.add(path)
        todo |= files_of(imports(path)) - seen
    return seen


def script_of(stage: str) -> Path:
    match = STAGE_OF_SCRIPT.search(STAGES[stage]["cmd"])
    assert match is not None
    return ROOT / "stages" / f"{match[1]}.py"


def packages_of(stage: str) -> list[Path]:
    return [ROOT / d for d in STAGES[stage]["deps"] if d.startswith("pacer/")]


@cache
def only_says_what_it_is(path: Path) -> bool:
    """A package's first file without code, which Python imports with every package inside."""
    return path.name == "__init__.py" and len(ast.parse(path.read_text(encoding="utf-8")).body) <= 1


@pytest.mark.parametrize("stage", STAGES)
def test_everything_that_a_stage_reaches_is_declared(stage: str) -> None:
    declared = [*(ROOT / d for d in STAGES[stage]["deps"]), PARAMS]
    used = {path for path in reached(script_of(stage)) if not only_says_what_it_is(path)}
    used |= {table for path in used if (table := path.with_suffix(".yaml")).is_file()}
    lost = [str(path.relative_to(ROOT)) for path in used if not any(map(path.is_relative_to, declared))]
    assert not lost, f"{stage} uses {sorted(lost)}, which dvc.yaml does not declare"


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_uses_most_of_the_lines_that_it_declares(stage: str) -> None:
    """What is declared and not used would re-run the stage for nothing: hours of a GPU for a reworded phrase."""
    packages = packages_of(stage)

    def lines(paths: Iterable[Path]) -> int:
        return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)

    used = set(reached(script_of(stage)))
    scripts = {path for path in used if path.parent.name == "stages"}
    declared = scripts | {
        path for package in packages for path in (package.rglob("*.py") if package.is_dir() else [package])
    }
    used &= declared
    share = lines(used) / lines(declared)
    assert share >= 0.75, f"{stage} reaches {share:.0%} of the lines that it declares"
    named = {path.with_suffix(".yaml") for path in used} | used  # a table beside the module that reads it
    unused = [package for package in packages if not any(path.is_relative_to(package) for path in named)]
    assert not unused, f"{stage} uses nothing of {', '.join(str(package.relative_to(ROOT)) for package in unused)}"


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
    for read in parameters_read(script_of(stage)):
        assert any(read == d or read.startswith(f"{d}.") for d in declared), f"{stage} reads {read}"


@pytest.mark.parametrize("stage", [s for s in PIPELINE if s not in ("warmup", "parent", "calibrate")])
def test_every_path_that_a_stage_names_is_declared(stage: str) -> None:
    """As a dependency or an output; a folder may be named for what lies in it."""
    outs = [*PIPELINE[stage].get("outs", []), *PIPELINE[stage].get("metrics", [])]
    written = [out if isinstance(out, str) else next(iter(out)) for out in outs]
    declared = [Path(path) for path in (*PIPELINE[stage]["deps"], *written)]
    for node in ast.walk(ast.parse(script_of(stage).read_text(encoding="utf-8"))):
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
        # how threads wait has to be said before torch is imported, and there is no other way to say it
        assert path == ROOT / "pacer" / "__init__.py" or ("os.environ" not in text and "getenv" not in text), path


def test_the_baselines_have_names_and_paths_of_their_own() -> None:
    assert not set(PIPELINE) & set(BASELINES)
    for stage in BASELINES.values():
        for kind in ("outs", "metrics", "plots"):
            for out in stage.get(kind, []):
                assert (out if isinstance(out, str) else next(iter(out))).startswith("baselines/")


def test_every_stage_says_what_it_is_and_none_depends_on_the_code_of_the_configuration() -> None:
    for stage in STAGES.values():
        assert stage.get("desc") and not any("pacer/config" in path for path in stage["deps"])
