"""The code that each stage lists as `deps` in dvc.yaml and baselines/stages.yaml, computed from its
imports.

``make deps`` writes it. A package is listed whole where the stage reaches three quarters of its
lines of code, and by single files otherwise, so that an edit re-runs the stages that can notice it
and few others.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
DEFINITIONS = ("dvc.yaml", "baselines/stages.yaml")
#: The rules, and the file that the stage `backbones` depends on instead: an edit of a row trains no
#: stand-in again, until somebody raises the version.
RULES, VERSION = "pacer/text/rules", "pacer/text/rules/VERSION"
#: Share of a package's lines of code from which on the package is listed whole.
MOST = 0.75
STAGE_OF_SCRIPT = re.compile(r"stages/(?!launch|run)(\w+)\.py(?: (\w+))?")
#: The list of a stage's dependencies in the text of a definition.
DEPS = re.compile(r"(?<=^    deps:\n)(?:      - .*\n)+", re.MULTILINE)


@cache
def imports(path: Path, root: Path = ROOT) -> frozenset[str]:
    """Modules of the package that a file imports, wherever in the file, and a script's
    neighbours."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (root / "stages" / f"{node.module}.py").exists():
            found.add(f"stages.{node.module}")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pacer"):
            found |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.startswith("pacer")}
    return frozenset(found)


def files_of(modules: Iterable[str], root: Path) -> set[Path]:
    paths = [root / module.replace(".", "/") for module in modules]
    return {
        file
        for path in paths
        for file in (path.with_suffix(".py"), path / "__init__.py")
        if file.exists()
    }


@cache
def reached(script: Path, root: Path = ROOT) -> frozenset[Path]:
    """All files that a script's imports reach, with the script and the tables beside modules."""
    seen: set[Path] = set()
    todo = {script}
    while todo:
        path = todo.pop()
        seen.add(path)
        todo |= files_of(imports(path, root), root) - seen
    return frozenset(
        seen | {table for path in seen for table in path.parent.glob(f"{path.stem}.*")}
    )


def only_says_what_it_is(path: Path) -> bool:
    """A package's first file without code, which Python imports with every package inside."""
    return path.name == "__init__.py" and len(ast.parse(path.read_text(encoding="utf-8")).body) <= 1


def lines(paths: Iterable[Path]) -> int:
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def code_of(script: Path, root: Path = ROOT) -> list[str]:
    """The dependencies of a stage that are code. DVC tracks the parameters' values, so that
    pacer/config is in none."""
    package = root / "pacer"
    apart = (package, package / "text")  # the rules are named by themselves
    used = {path for path in reached(script, root) if not only_says_what_it_is(path)}

    def listed(folder: Path) -> Iterator[Path]:
        inside = {path for path in used if path.is_relative_to(folder)}
        code = [path for path in inside if path.suffix == ".py"]
        if code and folder not in apart and lines(code) >= MOST * lines(folder.rglob("*.py")):
            yield folder
        elif inside:
            yield from (path for path in inside if path.parent == folder)
            for below in folder.iterdir():
                if below.is_dir() and below != package / "config":
                    yield from listed(below)

    scripts = sorted(used - set(package.rglob("*")), key=lambda path: (path != script, path))
    return [str(path.relative_to(root)) for path in (*scripts, *sorted(listed(package)))]


def with_deps(definition: str, root: Path = ROOT) -> str:
    """The text of a definition of stages with the code that each of them uses."""
    stages = YAML(typ="safe").load(definition)["stages"].items()
    lists = iter(DEPS.findall(definition))
    written = []
    for (name, stage), listed in zip(stages, lists, strict=True):
        code = code_of(script_of(stage, root), root)
        if name == "none":
            code = [VERSION if path == RULES else path for path in code]
        data = [
            line for line in listed.splitlines() if not re.match(r" +- (?:stages|pacer)/", line)
        ]
        written.append(
            "".join(f"{line}\n" for line in (*(f"      - {path}" for path in code), *data))
        )
    remaining = iter(written)
    return DEPS.sub(lambda _: next(remaining), definition)


def script_of(stage: dict, root: Path = ROOT) -> Path:
    match = STAGE_OF_SCRIPT.search(stage["cmd"])
    assert match is not None
    return root / "stages" / f"{match[1]}.py"


if __name__ == "__main__":
    for name in DEFINITIONS:
        file = ROOT / name
        file.write_text(with_deps(file.read_text(encoding="utf-8")), encoding="utf-8")
