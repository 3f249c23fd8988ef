"""How OpenMP's threads wait is said before torch is imported, and the user's own word counts."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("script", sorted((ROOT / "stages").glob("*.py")), ids=lambda path: path.stem)
def test_no_stage_imports_torch_before_the_package(script: Path) -> None:
    tree = ast.parse(script.read_text(encoding="utf-8"))
    names = [
        name
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
    ]
    of_torch = [place for place, name in enumerate(names) if str(name).split(".")[0] in ("torch", "accelerate")]
    of_pacer = [place for place, name in enumerate(names) if str(name).split(".")[0] == "pacer"]
    assert not of_torch or (of_pacer and of_pacer[0] < of_torch[0])
