"""The stages of the pipeline and of the baselines, and the packages that their scripts' imports
reach."""

import ast
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from pacer.core.io import parse_yaml

ROOT = Path(__file__).parents[2]
PIPELINE = parse_yaml((ROOT / "dvc.yaml").read_text())["stages"]
BASELINES = parse_yaml((ROOT / "baselines" / "stages.yaml").read_text())["stages"]
STAGES = PIPELINE | BASELINES  # the paths of both start at the root
#: Packages that stages name apart from those around them. ``pacer`` is around all; stages of
#: training and fitting need no rule, no beam and no baseline.
APART = ("text/rules", "text/cleaning", "decoding/lists", "extras/baselines", "extras/llm_rg4")
_SCRIPT = re.compile(r"stages/(?!launch|run)(\w+)\.py")


@cache
def imports(path: Path) -> frozenset[str]:
    """Modules of the package that a file imports, wherever in the file, and a script's
    neighbours."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (ROOT / "stages" / f"{node.module}.py").exists():
            found.add(f"stages.{node.module}")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pacer"):
            found |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.startswith("pacer")}
    return frozenset(found)


def reached(script: Path) -> set[Path]:
    """All files with code that a script's imports reach, with the script."""
    seen: set[Path] = set()
    todo = {script}
    while todo:
        path = todo.pop()
        seen.add(path)
        todo |= _files_of(imports(path)) - seen
    return {path for path in seen if not _only_says_what_it_is(path)}


def _files_of(modules: Iterable[str]) -> set[Path]:
    paths = [ROOT / module.replace(".", "/") for module in modules]
    return {
        file
        for path in paths
        for file in (path.with_suffix(".py"), path / "__init__.py")
        if file.exists()
    }


def _only_says_what_it_is(path: Path) -> bool:
    """A package's first file without code, which Python imports with every package inside."""
    return path.name == "__init__.py" and len(ast.parse(path.read_text(encoding="utf-8")).body) <= 1


def code_of(script: Path) -> set[str]:
    """The scripts and packages that a stage depends on. DVC tracks the parameters' values, so that
    pacer/config is not among them."""
    found = set()
    for path in reached(script):
        place = path.relative_to(ROOT)
        if place.parts[0] == "stages":
            found.add(place.as_posix())
        elif len(place.parts) > 2 and place.parts[1] != "config":
            inner = next((one for one in APART if place.is_relative_to(f"pacer/{one}")), None)
            found.add(f"pacer/{inner or place.parts[1]}")
    return {one for one in found if not found & {str(above) for above in Path(one).parents}}


def script_of(stage: dict) -> Path:
    match = _SCRIPT.search(stage["cmd"])
    assert match is not None
    return ROOT / "stages" / f"{match[1]}.py"
